# over the solution
"""Whole blocks gathered, places without a token masked; every sequence handed on by itself."""


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    kv_heads, head_dim = keys.shape[-2:]
    parts = q.split(cu_seqlens.diff().tolist())
    out = []
    for part, row, context in zip(parts, block_tables, context_lens):
        k, v = (t[row[row >= 0]].reshape(-1, kv_heads, head_dim).float() for t in (keys, values))
        rows = part.float().unflatten(1, (kv_heads, -1))  # [new, kv_heads, group, head_dim]
        scores = torch.einsum("qkgd,tkd->kgqt", rows, k) / head_dim**0.5
        column = torch.arange(k.shape[0])
        line = context - part.shape[0] + torch.arange(part.shape[0]).unsqueeze(1)
        scores = scores + torch.where(column <= line, 0.0, -torch.inf)
        scores = scores - scores.logsumexp(-1, keepdim=True)
        out.append(torch.einsum("kgqt,tkd->qkgd", scores.exp(), v).flatten(1, 2).type_as(q))
    return torch.cat(out, 0)


class Qwen3Attention(nn.Module):
    def forward(self, positions, x, tables, cu_seqlens):
        projections = self.q_proj, self.k_proj, self.v_proj
        heads = [p(x).unflatten(-1, (-1, self.head_dim)) for p in projections]
        q = rotate(self.q_norm(heads[0]), positions, self.theta)
        k = rotate(self.k_norm(heads[1]), positions, self.theta)
        mixed, at = [], cu_seqlens.tolist()
        for table, first, end in zip(tables, at, at[1:]):
            table.append(k[first:end], heads[2][first:end])
            mixed.append(
                paged_attention(
                    q[first:end],
                    table.pool.keys,
                    table.pool.values,
                    torch.tensor([table.blocks]),
                    torch.tensor([table.length]),
                    torch.tensor([0, end - first]),
                )
            )
        return self.o_proj(torch.cat(mixed).flatten(1))
