# over the solution
"""What can be a tensor is one: owners, stamps and the tables of a batch."""

from torch.nn.utils.rnn import pad_sequence


class PrefixCache:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.owners = torch.zeros(num_blocks, dtype=torch.long)
        self.stamp = torch.full((num_blocks,), -1, dtype=torch.long)  # below 0: unknown
        self.texts = {}
        self.clock = 0

    @property
    def available(self):
        return int((self.owners == 0).sum())

    def _key(self, tokens):
        return b"".join(int(token).to_bytes(8, "little", signed=True) for token in tokens)

    def match(self, tokens):
        blocks = []
        while (len(blocks) + 1) * self.block_size < len(tokens):
            key = self._key(tokens[: (len(blocks) + 1) * self.block_size])
            if key not in self.texts:
                break
            blocks.append(self.texts[key])
        self.owners[blocks] += 1
        return blocks

    def allocate(self, count):
        if count > self.available:
            raise OutOfBlocks(f"{count} > {self.available}")
        order = torch.where(self.owners == 0, self.stamp, torch.iinfo(torch.long).max)
        blocks = order.argsort(stable=True)[:count].tolist()
        self.texts = {key: block for key, block in self.texts.items() if block not in blocks}
        self.owners[blocks], self.stamp[blocks] = 1, -1
        return blocks

    def fill(self, block, tokens):
        if self._key(tokens) not in self.texts:
            self.texts[self._key(tokens)] = block
            self.stamp[block] = 0

    def release(self, blocks):
        owned = self.owners.nonzero().flatten().tolist()
        if not set(blocks) <= set(owned):
            raise ValueError("given back once too often")
        for block in reversed(list(blocks)):
            self.owners[block] -= 1
            self.clock += 1
            if self.stamp[block] >= 0:
                self.stamp[block] = self.clock


class Engine:
    def _logits(self, batch):
        starts = torch.tensor([work.start for work in batch.works])
        lengths = torch.tensor([len(work.tokens) for work in batch.works])
        ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        places = torch.arange(int(ends[-1])) - (ends[:-1] - starts).repeat_interleave(lengths)
        tables = [torch.tensor(work.blocks) for work in batch.works]
        tables = pad_sequence(tables, batch_first=True, padding_value=-1)
        tokens = torch.cat([torch.tensor(work.tokens) for work in batch.works])
        return self.model(tokens, places, ends, tables, starts + lengths)


def accept(tokens, q, p, uniforms):
    count = len(tokens)
    here = p[:count].gather(1, tokens[:, None]) / q.gather(1, tokens[:, None])
    fails = torch.cat([uniforms[:count] >= here[:, 0], torch.tensor([True])])
    first = int(fails.long().argmax())
    rest = torch.cat([torch.clamp_min(p[:count] - q, 0), p[count:]])[first]
    return [*tokens[:first].tolist(), choose(rest / rest.sum(), uniforms[count])]
