# over the solution
"""A small object for each block; available is a plain number that is kept up to date."""

from dataclasses import dataclass


@dataclass
class _Block:
    number: int
    owners: int = 0


class BlockPool(object):  # noqa: UP004 - replaces the class as a whole
    def __init__(self, num_blocks, block_size, kv_heads, head_dim, dtype=torch.float32):
        shape = (num_blocks, block_size, kv_heads, head_dim)
        self.keys = torch.full(shape, 0.0, dtype=dtype)
        self.values = torch.full(shape, 0.0, dtype=dtype)
        self._blocks = [_Block(number) for number in range(num_blocks)]
        self.available = num_blocks

    def allocate(self, count=1):
        free = [block for block in reversed(self._blocks) if not block.owners][:count]
        if len(free) != count:
            raise OutOfBlocks(f"{len(free)} instead of {count} blocks")
        for block in free:
            block.owners = 1
        self.available -= count
        return [block.number for block in free]

    def share(self, block):
        self._change(block, 1)

    def free(self, block):
        self._change(block, -1)
        if self.references(block) == 0:
            self.available += 1

    def _change(self, block, by):
        if not 0 <= block < len(self._blocks) or self._blocks[block].owners == 0:
            raise ValueError(f"block {block} has no owner")
        self._blocks[block].owners += by

    def references(self, block):
        return self._blocks[block].owners


class BlockTable:
    def append(self, k, v):
        self.reserve(len(k))
        for kept, new in ((self.pool.keys, k), (self.pool.values, v)):
            done = 0
            while done < len(new):
                row, place = divmod(self.length + done, kept.shape[1])
                part = new[done : done + kept.shape[1] - place]
                kept[self.blocks[row], place : place + len(part)] = part
                done += len(part)
        self.length += len(k)

    def reserve(self, tokens):
        size = self.pool.keys.shape[1]
        missing = 0
        while (len(self.blocks) + missing) * size < self.length + tokens:
            missing += 1
        inside = tokens > 0 and self.length < len(self.blocks) * size
        if inside and self.pool.references(self.blocks[-1]) > 1:
            copy, *fresh = self.pool.allocate(missing + 1)
            self.pool.keys[copy].copy_(self.pool.keys[self.blocks[-1]])
            self.pool.values[copy].copy_(self.pool.values[self.blocks[-1]])
            self.pool.free(self.blocks[-1])
            self.blocks[-1] = copy
        else:
            fresh = self.pool.allocate(missing)
        self.blocks.extend(fresh)


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    heads, head_dim = q.shape[1:]
    group = heads // keys.shape[2]
    out = torch.zeros_like(q)
    for i in range(block_tables.size(0)):
        context = context_lens[i].item()
        rows = slice(cu_seqlens[i].item(), cu_seqlens[i + 1].item())
        new = rows.stop - rows.start
        blocks = block_tables[i, : (context - 1) // keys.shape[1] + 1]
        for kv in range(keys.shape[2]):
            k = keys[blocks, :, kv].reshape(-1, head_dim)[:context].to(torch.float32)
            v = values[blocks, :, kv].reshape(-1, head_dim)[:context].to(torch.float32)
            for head in range(kv * group, kv * group + group):
                scores = q[rows, head].float() @ k.mT * head_dim**-0.5  # [new, context]
                hide = torch.full_like(scores, float("-inf")).triu(context - new + 1)
                out[rows, head] = ((scores + hide).softmax(1) @ v).to(out.dtype)
    return out
