# over the solution
"""Merges on a text of separators; angles as an outer product."""


def merge_pair(tokens, pair):
    tokens, merged = iter(tokens), []
    held = next(tokens, None)
    for token in tokens:
        if held == pair[0] and token == pair[1]:
            merged.append(held + token)
            held = next(tokens, None)
        else:
            merged.append(held)
            held = token
    return merged if held is None else [*merged, held]


class Tokenizer:
    def encode(self, text):
        known: dict[str, list[int]] = {}
        for token in self.special_tokens:
            known[token] = [self.vocab[token.encode()]]
        pieces = pre_tokenize(text, self.special_tokens, self.pattern)
        for piece in pieces:
            if piece not in known:
                known[piece] = self._ids(piece)
        return [number for piece in pieces for number in known[piece]]

    def _ids(self, piece):
        tokens = [bytes([byte]) for byte in piece.encode()]
        endless = len(self.ranks)
        while len(tokens) > 1:
            best = min(pairwise(tokens), key=lambda pair: self.ranks.get(pair, endless))
            if best not in self.ranks:
                break
            tokens = merge_pair(tokens, best)
        return [self.vocab[token] for token in tokens]


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        self.padding_idx = padding_idx
        with torch.no_grad():
            self.weight.normal_()
            if padding_idx is not None:
                self.weight[padding_idx].zero_()
                self.weight.register_hook(self._without_padding)

    def _without_padding(self, slope):
        slope = slope.clone()
        slope[self.padding_idx] = 0
        return slope

    def forward(self, ids):
        return self.weight.index_select(0, ids.reshape(-1)).unflatten(0, ids.shape)


def sinusoidal_positions(length, dim):
    speed = 1 / 10000.0 ** (torch.arange(0, dim, 2).float() / dim)
    angles = torch.einsum("p,f->pf", torch.arange(length).float(), speed)
    table = torch.empty(length, dim)
    table[:, ::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table
