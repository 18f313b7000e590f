# over the solution
"""One expression for special tokens and pieces; merges by recursion; text kept in one place."""

from functools import cached_property


def pre_tokenize(text, special_tokens=(), pattern=PATTERN):
    if not special_tokens:
        return [match.group() for match in pattern.finditer(text)]
    first, *others = sorted(special_tokens, key=lambda token: -len(token))
    found = []
    for number, part in enumerate(text.split(first)):
        if number:
            found.append(first)
        found.extend(pre_tokenize(part, others, pattern))
    return found


def merge_pair(tokens, pair):
    for at in range(len(tokens) - 1):
        if tokens[at] == pair[0] and tokens[at + 1] == pair[1]:
            return [*tokens[:at], pair[0] + pair[1], *merge_pair(tokens[at + 2 :], pair)]
    return list(tokens)


def train(text, vocab_size, special_tokens=(), pattern=PATTERN):
    tokens = [bytes([byte]) for byte in BYTES]
    merges = []
    pieces = [p for p in pre_tokenize(text, special_tokens, pattern) if p not in special_tokens]
    words = [[bytes([byte]) for byte in piece.encode()] for piece in pieces]
    while len(tokens) < vocab_size - len(special_tokens) and any(len(w) > 1 for w in words):
        counts = Counter(pair for word in words for pair in zip(word, word[1:]))
        order = {token: number for number, token in enumerate(tokens)}
        ranked = sorted(counts, key=lambda pair: (order[pair[0]], order[pair[1]]))
        best = max(ranked, key=counts.get)  # of equal ones the first, so the lowest ids
        merges.append(best)
        tokens.append(b"".join(best))
        words = [merge_pair(word, best) for word in words]
    tokens.extend(map(str.encode, special_tokens))
    return {token: number for number, token in enumerate(tokens)}, merges


class Tokenizer:
    @cached_property
    def _special(self):
        return frozenset(self.special_tokens)

    def encode(self, text):
        found = []
        for piece in pre_tokenize(text, self.special_tokens, self.pattern):
            data = piece.encode()
            parts = [data] if piece in self._special else self._split([bytes([b]) for b in data])
            found.extend(self.vocab[part] for part in parts)
        return found

    def _split(self, parts):
        known = [pair for pair in zip(parts, parts[1:]) if pair in self.ranks]
        if not known:
            return parts
        return self._split(merge_pair(parts, sorted(known, key=lambda pair: self.ranks[pair])[0]))


class StreamDecoder:
    def push(self, number):
        text = ""
        for byte in self.tokenizer.tokens[number]:  # byte by byte: a character ends or goes on
            if byte & 0xC0 != 0x80:
                text += self.finish()
            self.held += bytes([byte])
            lead = self.held[0]
            size = 1 + sum(lead >= bound for bound in (0xC0, 0xE0, 0xF0))
            if len(self.held) >= size or lead & 0xC0 == 0x80:
                text += self.finish()
        return text

    def finish(self):
        whole, self.held = self.held, b""
        return whole.decode("utf-8", "replace")


class Embedding(nn.Module):
    def forward(self, ids):
        index = ids.reshape(-1, 1).expand(-1, self.weight.shape[1])
        weight = self.weight
        if self.padding_idx is not None:
            keep = torch.ones(len(weight), 1, dtype=torch.bool)
            keep[self.padding_idx] = False
            weight = weight.where(keep, weight.detach())
        return weight.gather(0, index).reshape(*ids.shape, -1)


def sinusoidal_positions(length, dim):
    speed = torch.pow(
        torch.tensor(10000.0, dtype=torch.float64), -torch.arange(0, dim, 2).double() / dim
    )
    turn = torch.polar(torch.ones(1, dtype=torch.float64), speed)  # one step from place to place
    places = torch.arange(length, dtype=torch.float64)[:, None]
    table = torch.view_as_real(turn**places)  # cosine, sine
    return table.flip(-1).reshape(length, dim).float()
