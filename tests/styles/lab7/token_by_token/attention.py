# over the solution
"""Token by token and query by query; owners in a dict, free blocks in a deque."""

from collections import deque


class BlockPool:
    def __init__(self, num_blocks, block_size, kv_heads, head_dim, dtype=torch.float32):
        self.block_size = block_size
        self.keys = torch.zeros(num_blocks, block_size, kv_heads, head_dim).to(dtype)
        self.values = torch.zeros_like(self.keys)
        self.owners = {}
        self.queue = deque(range(num_blocks))

    @property
    def available(self):
        return self.keys.shape[0] - len(self.owners)

    def allocate(self, count=1):
        if self.available < count:
            raise OutOfBlocks(f"asked for {count} of {self.available}")
        given = []
        while len(given) < count:
            given.append(self.queue.pop())
            self.owners[given[-1]] = 1
        return given

    def share(self, block):
        if block not in self.owners:
            raise ValueError(block)
        self.owners[block] = self.owners[block] + 1

    def free(self, block):
        if block not in self.owners:
            raise ValueError(block)
        left = self.owners.pop(block) - 1
        if left:
            self.owners[block] = left
        else:
            self.queue.append(block)

    def references(self, block):
        return self.owners.get(block, 0)


class BlockTable:
    def append(self, k, v):
        pool, size = self.pool, self.pool.block_size
        if k.shape[0] == 0:
            return
        rest = len(self.blocks) * size - self.length
        need = max(0, (k.shape[0] - rest + size - 1) // size)
        shared = rest > 0 and pool.references(self.blocks[-1]) > 1
        fresh = pool.allocate(need + (1 if shared else 0))
        if shared:
            old, self.blocks[-1] = self.blocks[-1], fresh.pop()
            for at in range(size - rest):
                pool.keys[self.blocks[-1], at] = pool.keys[old, at]
                pool.values[self.blocks[-1], at] = pool.values[old, at]
            pool.free(old)
        for token in range(k.shape[0]):
            row, place = divmod(self.length, size)
            if row == len(self.blocks):
                self.blocks.append(fresh.pop())
            pool.keys[self.blocks[row], place] = k[token]
            pool.values[self.blocks[row], place] = v[token]
            self.length += 1


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    out = torch.zeros_like(q)
    heads, size = q.shape[1], keys.shape[1]
    share = heads // keys.shape[2]
    for i in range(len(context_lens)):
        first, end = int(cu_seqlens[i]), int(cu_seqlens[i + 1])
        context = int(context_lens[i])
        for token in range(first, end):
            seen = context - (end - 1 - token)
            rows = [(int(block_tables[i, t // size]), t % size) for t in range(seen)]
            k = torch.stack([keys[b, p] for b, p in rows]).float()  # [seen, kv_heads, head_dim]
            v = torch.stack([values[b, p] for b, p in rows]).float()
            for head in range(heads):
                scores = (k[:, head // share] @ q[token, head].float()) / q.shape[-1] ** 0.5
                out[token, head] = (scores.softmax(0) @ v[:, head // share]).to(q.dtype)
    return out
