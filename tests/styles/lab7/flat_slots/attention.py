# over the solution
"""The pool seen as one row of slots: written by index_copy_, read by index_select."""


class BlockTable:
    def _slots(self, first, end):
        size = self.pool.keys.shape[1]
        return torch.tensor(
            [self.blocks[t // size] * size + t % size for t in range(first, end)], dtype=torch.long
        )

    def append(self, k, v):
        if not len(k):
            return
        size = self.pool.keys.shape[1]
        end = self.length + len(k)
        need = (end + size - 1) // size - len(self.blocks)
        partly = self.length % size
        if partly and self.pool.references(self.blocks[-1]) != 1:
            fresh = self.pool.allocate(need + 1)
            source = self._slots(self.length - partly, self.length)
            self.pool.free(self.blocks.pop())
            self.blocks.append(fresh.pop())
            target = self._slots(self.length - partly, self.length)
            for rows in (self.pool.keys.flatten(0, 1), self.pool.values.flatten(0, 1)):
                rows.index_copy_(0, target, rows.index_select(0, source))
            self.blocks.extend(fresh)
        else:
            self.blocks.extend(self.pool.allocate(need))
        slots = self._slots(self.length, end)
        self.pool.keys.view(-1, *k.shape[1:]).index_copy_(0, slots, k)
        self.pool.values.view(-1, *v.shape[1:]).index_copy_(0, slots, v)
        self.length = end

    def fork(self):
        twin = BlockTable(self.pool)
        twin.append_shared(self.blocks)
        twin.length = self.length
        return twin

    def append_shared(self, blocks):
        for block in blocks:
            self.pool.share(block)
            self.blocks.append(block)

    def free(self):
        while self.blocks:
            self.pool.free(self.blocks.pop())
        self.length = 0


def paged_attention(q, keys, values, block_tables, context_lens, cu_seqlens):
    size, group = keys.shape[1], q.shape[1] // keys.shape[2]
    keys, values = keys.view(-1, *keys.shape[2:]), values.view(-1, *values.shape[2:])
    outputs = []
    for i in range(block_tables.shape[0]):
        tokens = torch.arange(int(context_lens[i]))
        slots = block_tables[i].index_select(0, tokens // size) * size + tokens % size
        k = keys.index_select(0, slots).float().unsqueeze(2)  # [context, kv_heads, 1, head_dim]
        v = values.index_select(0, slots).float().unsqueeze(2)
        k = k.expand(-1, -1, group, -1).flatten(1, 2)
        v = v.expand(-1, -1, group, -1).flatten(1, 2)
        rows = q[int(cu_seqlens[i]) : int(cu_seqlens[i + 1])].float()
        scores = torch.einsum("qhd,khd->hqk", rows, k).div(q.shape[-1] ** 0.5)
        mask = torch.ones(scores.shape[1:]).triu(len(tokens) - len(rows) + 1).bool()
        scores.masked_fill_(mask, torch.finfo(torch.float32).min)
        outputs.append(torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), v))
    return torch.cat(outputs).to(q.dtype)
