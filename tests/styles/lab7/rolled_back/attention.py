# over the solution
"""Blocks taken one at a time, and given back when the pool runs out; free blocks in a heap."""

import heapq


class BlockPool:
    def __init__(self, num_blocks, block_size, kv_heads, head_dim, dtype=torch.float32):
        self.keys = torch.zeros([num_blocks, block_size, kv_heads, head_dim], dtype=dtype)
        self.values = self.keys.clone()
        self.heap = list(range(num_blocks))
        self.owned = [0 for _ in self.heap]

    @property
    def available(self):
        return self.owned.count(0)

    def allocate(self, count=1):
        found = []
        for _ in range(count):
            if not self.heap:
                for block in found:
                    self.free(block)
                raise OutOfBlocks(f"wanted: {count}, there were {len(found)}")
            block = heapq.heappop(self.heap)
            self.owned[block] += 1
            found.append(block)
        return found

    def share(self, block):
        if self.references(block) < 1:
            raise ValueError(f"shared by nobody: {block}")
        self.owned[block] += 1

    def free(self, block):
        if self.references(block) < 1:
            raise ValueError(f"owned by nobody: {block}")
        self.owned[block] -= 1
        if not self.owned[block]:
            heapq.heappush(self.heap, block)

    def references(self, block):
        return dict(enumerate(self.owned)).get(block, 0)


class BlockTable:
    def append(self, k, v):
        pool = self.pool
        size = pool.keys.size(1)
        rest = -self.length % size
        taken, old = [], None
        try:
            if rest and len(k) and pool.references(self.blocks[-1]) > 1:
                old = self.blocks[-1]
                taken += pool.allocate()
            for _ in range(rest, len(k), size):
                taken += pool.allocate()
        except OutOfBlocks:
            for block in taken:
                pool.free(block)
            raise
        if old is not None:
            new = taken.pop(0)
            for tensor in (pool.keys, pool.values):
                tensor[new, : size - rest] = tensor[old, : size - rest]
            pool.free(old)
            self.blocks = self.blocks[:-1] + [new]
        if rest:
            last = self.blocks[-1]
            pool.keys[last, size - rest :][: len(k)] = k[:rest]
            pool.values[last, size - rest :][: len(v)] = v[:rest]
        for block, ks, vs in zip(taken, k[rest:].split(size), v[rest:].split(size)):
            pool.keys[block, : len(ks)] = ks
            pool.values[block, : len(vs)] = vs
        self.blocks = self.blocks + taken
        self.length += len(k)
