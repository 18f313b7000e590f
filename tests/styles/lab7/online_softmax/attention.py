# over the solution
"""Block after block with a running softmax; owners counted in a tensor."""


class BlockPool:
    def __init__(self, num_blocks, block_size, kv_heads, head_dim, dtype=torch.float32):
        both = torch.zeros(2, num_blocks, block_size, kv_heads, head_dim, dtype=dtype)
        self.keys, self.values = both
        self.count = torch.zeros(num_blocks, dtype=torch.int32)

    @property
    def available(self):
        return int((self.count == 0).sum())

    def allocate(self, count=1):
        free = (self.count == 0).nonzero().flatten()
        if len(free) < count:
            raise OutOfBlocks(f"no {count} blocks left, but {len(free)}")
        chosen = free[len(free) - count :]
        self.count[chosen] = 1
        return chosen.tolist()

    def _owned(self, block):
        if block not in range(len(self.count)) or not self.count[block]:
            raise ValueError(f"block {block} is nobody's")

    def share(self, block):
        self._owned(block)
        self.count[block] += 1

    def free(self, block):
        self._owned(block)
        self.count[block] -= 1

    def references(self, block):
        return int(self.count[block])


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    size, kv_heads = keys.shape[1], keys.shape[2]
    out = torch.empty_like(q)
    for i, context in enumerate(context_lens.tolist()):
        first, end = cu_seqlens[i].item(), cu_seqlens[i + 1].item()
        queries = q[first:end].float() / q.shape[-1] ** 0.5
        queries = queries.view(end - first, kv_heads, -1, q.shape[-1])  # [new, kv, group, size]
        top = queries.new_full((*queries.shape[:3], 1), -torch.inf)
        total, mixed = torch.zeros_like(top), torch.zeros_like(queries)
        stand = torch.arange(context - (end - first), context).view(-1, 1, 1, 1)
        for at in range(0, context, size):
            block, held = block_tables[i, at // size], min(size, context - at)
            k, v = keys[block, :held].float(), values[block, :held].float()
            scores = torch.einsum("qkgd,tkd->qkgt", queries, k)
            scores = torch.where(torch.arange(at, at + held) > stand, -torch.inf, scores)
            higher = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, fade = (scores - higher).exp(), (top - higher).exp()
            total = total * fade + weights.sum(-1, keepdim=True)
            mixed = mixed * fade + torch.einsum("qkgt,tkd->qkgd", weights, v)
            top = higher
        out[first:end] = (mixed / total).flatten(1, 2).to(q.dtype)
    return out
