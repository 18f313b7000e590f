# over the solution
"""Merges through a heap, a stream through the incremental decoder of ``codecs``."""

import codecs
import heapq


def merge_pair(tokens, pair):
    rest, merged = list(reversed(tokens)), []
    while rest:
        token = rest.pop()
        if rest and (token, rest[-1]) == pair:
            token += rest.pop()
        merged.append(token)
    return merged


class Tokenizer:
    def encode(self, text):
        special = set(self.special_tokens)
        ids = []
        for piece in pre_tokenize(text, self.special_tokens, self.pattern):
            ids += self._special(piece) if piece in special else self._merged(piece.encode())
        return ids

    def _special(self, piece):
        return [self.vocab[piece.encode()]]

    def _merged(self, data):
        tokens = [data[at : at + 1] for at in range(len(data))]
        behind = list(range(1, len(tokens) + 1))  # the next token's place, of those that are left
        before = list(range(-1, len(tokens) - 1))
        heap = []

        def offer(left):
            right = behind[left]
            if left >= 0 and right < len(tokens):
                rank = self.ranks.get((tokens[left], tokens[right]))
                if rank is not None:
                    heapq.heappush(heap, (rank, left, tokens[left], tokens[right]))

        for at in range(len(tokens)):
            offer(at)
        while heap:
            _, left, one, other = heapq.heappop(heap)
            right = behind[left]
            if tokens[left] != one or right >= len(tokens) or tokens[right] != other or not one:
                continue
            tokens[left], tokens[right] = one + other, b""
            behind[left] = behind[right]
            if behind[right] < len(tokens):
                before[behind[right]] = left
            if before[left] >= 0:
                offer(before[left])
            offer(left)
        return [self.vocab[token] for token in tokens if token]


class StreamDecoder:
    def __init__(self, tokenizer):
        self.tokens = tokenizer.tokens
        self.reader = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, number):
        return self.reader.decode(self.tokens[number])

    def finish(self):
        rest = self.reader.decode(b"", final=True)
        self.reader.reset()
        return rest


class Embedding(nn.Module):
    def forward(self, ids):
        flat = ids.flatten()
        rows = torch.index_select(self.weight, 0, flat)
        if self.padding_idx is not None:
            kept = (flat != self.padding_idx).to(rows.dtype)[:, None]
            rows = rows * kept + rows.detach() * (1 - kept)
        return rows.view(*ids.shape, self.weight.shape[1])


def sinusoidal_positions(length, dim):
    step = torch.exp(torch.arange(0, dim, 2) * (-torch.log(torch.tensor(10000.0)) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(torch.arange(length).unsqueeze(1) * step)
    table[:, 1::2] = torch.cos(torch.arange(length).unsqueeze(1) * step)
    return table
