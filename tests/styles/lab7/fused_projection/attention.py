# over the solution
"""Prompts and single tokens in ways of their own; sets of free blocks; views of the weights."""


class BlockPool:
    def __init__(self, num_blocks, block_size, kv_heads, head_dim, dtype=torch.float32):
        self.num_blocks = num_blocks
        self.keys = torch.zeros((num_blocks, block_size, kv_heads, head_dim), dtype=dtype)
        self.values = torch.zeros_like(self.keys)
        self.unowned, self.shares = set(range(num_blocks)), [0] * num_blocks

    @property
    def available(self):
        return len(self.unowned)

    def allocate(self, count=1):
        if len(self.unowned) < count:
            raise OutOfBlocks(f"{count} > {self.available}")
        blocks = [self.unowned.pop() for _ in range(count)]
        for block in blocks:
            self.shares[block] = 1
        return blocks

    def share(self, block):
        if block in self.unowned or block not in range(len(self.keys)):
            raise ValueError("not owned")
        self.shares[block] += 1

    def free(self, block):
        if block in self.unowned or block not in range(len(self.keys)):
            raise ValueError("not owned")
        self.shares[block] -= 1
        if self.shares[block] == 0:
            self.unowned.add(block)

    def references(self, block):
        return self.shares[block]


class BlockTable:
    def fork(self):
        import copy

        twin = copy.copy(self)
        twin.blocks = self.blocks[:]
        list(map(self.pool.share, twin.blocks))
        return twin


def _gathered(pool, table, context, group):
    size = pool.shape[1]
    pieces = []
    for at, block in enumerate(table.tolist()):
        if at * size < context:
            pieces.append(pool[block, : context - at * size])
    return torch.cat(pieces).float().permute(1, 0, 2).repeat_interleave(group, 0)


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    counts = cu_seqlens[1:] - cu_seqlens[:-1]
    group = q.shape[1] // keys.shape[2]
    out = torch.empty(q.shape)
    for i, (new, context) in enumerate(zip(counts.tolist(), context_lens.tolist())):
        k = _gathered(keys, block_tables[i], context, group)
        v = _gathered(values, block_tables[i], context, group)
        first = int(cu_seqlens[i])
        if new == 1:
            scores = (k * q[first].float()[:, None]).sum(-1) / q.shape[-1] ** 0.5
            out[first] = (scores.softmax(-1)[..., None] * v).sum(1)
            continue
        rows = q[first : first + new].float().permute(1, 0, 2)
        scores = torch.matmul(rows, k.mT) / q.shape[-1] ** 0.5
        before = context - new
        scores[:, :, before:] += torch.full((new, new), -torch.inf).triu(1)
        out[first : first + new] = torch.matmul(scores.softmax(-1), v).permute(1, 0, 2)
    return out.to(q.dtype)


class Qwen3Attention(nn.Module):
    def forward(self, positions, x, tables, cu_seqlens):
        weight = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        sizes = [p.out_features for p in (self.q_proj, self.k_proj, self.v_proj)]
        q, k, v = (x @ weight.T).split(sizes, dim=1)
        q, k, v = (t.reshape(len(x), -1, self.head_dim) for t in (q, k, v))
        q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, positions, self.theta), rotate(k, positions, self.theta)
        ends = cu_seqlens.long().tolist()
        for i in range(len(tables)):
            tables[i].append(k[ends[i] : ends[i + 1]], v[ends[i] : ends[i + 1]])
        padded = torch.full((len(tables), max(len(t.blocks) for t in tables)), -1)
        for i, table in enumerate(tables):
            padded[i, : len(table.blocks)] = torch.as_tensor(table.blocks)
        pool, lengths = tables[0].pool, torch.as_tensor([t.length for t in tables])
        mixed = paged_attention(q, pool.keys, pool.values, padded, lengths, cu_seqlens)
        return self.o_proj(mixed.view(len(x), -1))
