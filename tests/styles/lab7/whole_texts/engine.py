# over the solution
"""Whole texts as keys, and one dict whose order says who was used last."""


class PrefixCache:
    def __init__(self, num_blocks, block_size):
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.users = {}  # block -> owners, if any
        self.unused = dict.fromkeys(reversed(range(num_blocks)))  # block -> text
        self.text = {}  # block -> the text it is known by
        self.block = {}

    @property
    def available(self):
        return self.num_blocks - len(self.users)

    def match(self, tokens):
        tokens, blocks = tuple(tokens), []
        for end in range(self.block_size, len(tokens), self.block_size):
            block = self.block.get(tokens[:end])
            if block is None:
                break
            blocks += [block]
        for block in blocks:
            self.users[block] = self.users.get(block, 0) + 1
            self.unused.pop(block, None)
        return blocks

    def allocate(self, count):
        if len(self.unused) < count:
            raise OutOfBlocks("no blocks")
        order = [b for b in self.unused if b not in self.text]
        order += [b for b in self.unused if b in self.text]
        for block in order[:count]:
            self.unused.pop(block)
            self.users[block] = 1
            if block in self.text:
                del self.block[self.text.pop(block)]
        return order[:count]

    def fill(self, block, tokens):
        if self.block.setdefault(tuple(tokens), block) == block:
            self.text[block] = tuple(tokens)

    def release(self, blocks):
        if not set(blocks) <= set(self.users):
            raise ValueError("not owned")
        for block in list(blocks)[::-1]:
            if self.users[block] > 1:
                self.users[block] -= 1
            else:
                del self.users[block]
                self.unused[block] = None


def accept(tokens, q, p, uniforms):
    out, last = [], p[-1]
    for i in range(tokens.numel()):
        token = tokens[i].item()
        ratio = min(1.0, (p[i, token] / q[i, token]).item())
        if not uniforms[i].item() < ratio:
            last = torch.where(p[i] > q[i], p[i] - q[i], 0.0)
            last = last / last.sum()
            break
        out.append(token)
    out.append(choose(last, uniforms[-1].item()))
    return out
