# over the solution
"""Known blocks in a tree, tokens on its edges; running requests in a dict by age."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Node:
    """A known block below the one before it."""

    parent: "Node | None" = None
    edge: tuple = ()
    block: int = -1
    below: dict = field(default_factory=dict)


class PrefixCache:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.root, self.node = Node(), {}
        self.owners, self.left = [0] * num_blocks, [-1] * num_blocks
        self.clock = 0

    def _walk(self, tokens):
        node = self.root
        for at in range(len(tokens) // self.block_size):
            node = node.below.get(tuple(tokens[at * self.block_size : (at + 1) * self.block_size]))
            if node is None:
                return
            yield node

    @property
    def available(self):
        return self.owners.count(0)

    def match(self, tokens):
        found = []
        for node in self._walk(tokens[: len(tokens) - 1]):
            if node.block < 0:
                break
            self.owners[node.block] += 1
            found.append(node.block)
        return found

    def allocate(self, count):
        idle = [block for block in range(self.num_blocks) if self.owners[block] == 0]
        if len(idle) < count:
            raise OutOfBlocks(f"only {len(idle)} blocks are available, not {count}")
        idle.sort(key=lambda block: (block in self.node, self.left[block]))
        for block in idle[:count]:
            self.owners[block] = 1
            if block in self.node:
                self.node.pop(block).block = -1  # what hangs below is out of reach
        return idle[:count]

    def fill(self, block, tokens):
        node = self.root
        for at in range(0, len(tokens), self.block_size):
            edge = tuple(tokens[at : at + self.block_size])
            node = node.below.setdefault(edge, Node(node, edge))
        if node.block < 0:
            node.block, self.node[block] = block, node

    def release(self, blocks):
        if any(block not in range(self.num_blocks) or self.owners[block] < 1 for block in blocks):
            raise ValueError("a block without an owner is given back")
        for block in blocks[::-1]:
            self.owners[block] -= 1
            self.clock += 1
            self.left[block] = self.clock


def accept(tokens, q, p, uniforms):
    count = len(tokens)
    rows = torch.arange(count)
    stays = uniforms[:count] * q[rows, tokens] < p[rows, tokens]
    kept = int(stays.long().cumprod(dim=0).sum())
    final = p[kept]
    if kept < count:
        final = torch.relu(p[kept] - q[kept])
        final = final / final.sum()
    return tokens[:kept].tolist() + [choose(final, uniforms[count])]
