# over the solution
"""Everything on ids, not on bytes; merges are applied in their order, each once."""


def train(text, vocab_size, special_tokens=(), pattern=PATTERN):
    base = {byte: number for number, byte in enumerate(BYTES)}
    tokens = [bytes([byte]) for byte in BYTES]
    words = Counter(
        tuple(base[byte] for byte in piece.encode())
        for piece in pre_tokenize(text, special_tokens, pattern)
        if piece not in special_tokens
    )
    merges = []
    while len(tokens) < vocab_size - len(special_tokens):
        counts = Counter()
        for word, times in words.items():
            for at in range(1, len(word)):
                counts[word[at - 1 : at + 1]] += times
        if not counts:
            break
        most = max(counts.values())
        left, right = min(pair for pair, count in counts.items() if count == most)
        merges.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
        joined = Counter()
        for word, times in words.items():
            joined[_joined(word, left, right, len(tokens) - 1)] += times
        words = joined
    tokens += [token.encode() for token in special_tokens]
    return dict(zip(tokens, range(len(tokens)))), merges


def _joined(word, left, right, new):
    found, at = [], 0
    while at < len(word):
        both = word[at : at + 2] == (left, right)
        found.append(new if both else word[at])
        at += 1 + both
    return tuple(found)


class Tokenizer:
    def encode(self, text):
        ids = []
        for piece in pre_tokenize(text, self.special_tokens, self.pattern):
            if piece in self.special_tokens:
                ids.append(self.vocab[piece.encode()])
                continue
            word = tuple(self.vocab[bytes([byte])] for byte in piece.encode())
            for left, right in self.ranks:  # a dict keeps the order of the merges
                if len(word) < 2:
                    break
                if left + right in piece.encode():
                    word = _joined(
                        word, self.vocab[left], self.vocab[right], self.vocab[left + right]
                    )
            ids.extend(word)
        return ids


class StreamDecoder:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.ids, self.shown = [], 0

    def push(self, number):
        self.ids.append(number)
        return self._new(self.tokenizer.decode(self.ids).rstrip("\ufffd"))

    def finish(self):
        return self._new(self.tokenizer.decode(self.ids))

    def _new(self, text):
        new, self.shown = text[self.shown :], len(text)
        return new


class Embedding(nn.Module):
    def forward(self, ids):
        return torch.nn.functional.embedding(ids, self.weight, self.padding_idx)


def sinusoidal_positions(length, dim):
    feature = torch.arange(dim)
    angles = torch.outer(torch.arange(length).double(), 1e4 ** -((feature // 2 * 2).double() / dim))
    return torch.where(feature % 2 == 0, angles.sin(), angles.cos()).float()
