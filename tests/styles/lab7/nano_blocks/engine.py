# over the solution
"""As nano-vllm does it: a block object with its hash and its tokens, which are compared."""


class Block:
    def __init__(self, block_id):
        self.block_id, self.ref_count, self.hash, self.token_ids = block_id, 0, -1, []
        self.before = None


class PrefixCache:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.hash_to_blocks = {}
        self.unknown_ids, self.known_ids = list(range(num_blocks)), []

    @property
    def available(self):
        return len(self.unknown_ids) + len(self.known_ids)

    def _find(self, tokens):
        blocks, h = [], -1
        for i in range(len(tokens) // self.block_size):
            part = list(tokens[i * self.block_size : (i + 1) * self.block_size])
            before = list(tokens[: i * self.block_size])
            h = hash((h, *part))
            same = [
                block
                for block in self.hash_to_blocks.get(h, [])
                if block.token_ids == part and block.before == before
            ]
            if not same:
                return blocks, False
            blocks.append(same[0])
        return blocks, True

    def match(self, tokens):
        blocks, _ = self._find(tokens[:-1])
        for block in blocks:
            block.ref_count += 1
            if block.ref_count == 1:
                self.known_ids.remove(block.block_id)
        return [block.block_id for block in blocks]

    def allocate(self, count):
        if self.available < count:
            raise OutOfBlocks(f"cannot allocate {count} blocks")
        ids = []
        while len(ids) < count:
            block = self.blocks[(self.unknown_ids or self.known_ids).pop(0)]
            if block.hash != -1:
                self.hash_to_blocks[block.hash].remove(block)
            block.hash, block.token_ids, block.ref_count = -1, [], 1
            ids.append(block.block_id)
        return ids

    def fill(self, block_id, tokens):
        _, known = self._find(tokens)
        if known:
            return
        h, block = -1, self.blocks[block_id]
        for i in range(len(tokens) // self.block_size):
            h = hash((h, *tokens[i * self.block_size : (i + 1) * self.block_size]))
        block.hash, block.token_ids = h, list(tokens[-self.block_size :])
        block.before = list(tokens[: -self.block_size])
        self.hash_to_blocks.setdefault(h, []).append(block)

    def release(self, blocks):
        if not set(blocks) <= set(range(self.num_blocks)):
            raise ValueError(f"{blocks} are not all blocks")
        blocks = [self.blocks[i] for i in blocks]
        for block in blocks:
            if block.ref_count == 0:
                raise ValueError(f"block {block.block_id} has no owner")
        while blocks:
            block = blocks.pop()
            block.ref_count -= 1
            if block.ref_count == 0:
                where = self.unknown_ids if block.hash == -1 else self.known_ids
                where.append(block.block_id)


def speculative_step(draft, target, tokens, count, temperature, uniforms):
    proposed, q = torch.tensor(list(tokens)), torch.zeros(0)
    for i in range(count):
        row = probabilities(draft(proposed)[-1:], temperature)
        q = row if i == 0 else torch.cat([q, row])
        proposed = torch.cat([proposed, torch.tensor([choose(row[0], float(uniforms[i]))])])
    scores = target(proposed)
    p = probabilities(scores[len(tokens) - 1 : len(tokens) + count], temperature)
    return accept(proposed[len(tokens) :], q, p, uniforms[-count - 1 :])
