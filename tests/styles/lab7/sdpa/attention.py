# over the solution
"""torch's own attention, one sequence after the other."""

import torch.nn.functional as F


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    group = q.size(1) // keys.size(2)
    out = q.new_empty(q.size())
    ends = cu_seqlens.tolist()
    for table, context, first, end in zip(
        block_tables.tolist(), context_lens.tolist(), ends, ends[1:]
    ):
        own = [block for block in table if block >= 0]
        k = torch.cat([keys[block] for block in own])[:context].transpose(0, 1).float()
        v = torch.cat([values[block] for block in own])[:context].transpose(0, 1).float()
        k, v = (t.repeat_interleave(group, 0) for t in (k, v))
        may = torch.ones(end - first, context, dtype=torch.bool).tril(context - (end - first))
        rows = q[first:end].float().transpose(0, 1)
        out[first:end] = F.scaled_dot_product_attention(rows, k, v, attn_mask=may).transpose(0, 1)
    return out


class Qwen3Attention(nn.Module):
    def forward(self, positions, x, tables, cu_seqlens):
        tokens = x.shape[0]
        q = self.q_norm(self.q_proj(x).view(tokens, -1, self.head_dim))
        k = self.k_norm(self.k_proj(x).view(tokens, -1, self.head_dim))
        v = self.v_proj(x).view(tokens, -1, self.head_dim)
        both = rotate(torch.cat((q, k), dim=1), positions, self.theta)
        q, k = both.split((q.shape[1], k.shape[1]), dim=1)
        for i, table in enumerate(tables):
            own = slice(int(cu_seqlens[i]), int(cu_seqlens[i + 1]))
            table.append(k[own], v[own])
        blocks = nn.utils.rnn.pad_sequence(
            [torch.tensor(table.blocks) for table in tables], batch_first=True, padding_value=-1
        )
        lengths = torch.tensor([table.length for table in tables])
        pool = tables[-1].pool
        mixed = paged_attention(q, pool.keys, pool.values, blocks, lengths, cu_seqlens)
        return self.o_proj(mixed.reshape(tokens, -1))
