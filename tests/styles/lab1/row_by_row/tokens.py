# over the solution
"""Everything by hand: places searched with ``find``, pairs in dicts, bytes one by one."""

import math


def pre_tokenize(text, special_tokens=(), pattern=PATTERN):
    pieces, begin, at = [], 0, 0
    while at < len(text):
        here = [token for token in special_tokens if text.startswith(token, at)]
        if not here:
            at += 1
            continue
        longest = max(here, key=len)
        pieces.extend(pattern.findall(text[begin:at]))
        pieces.append(longest)
        begin = at = at + len(longest)
    pieces.extend(pattern.findall(text[begin:]))
    return pieces


def merge_pair(tokens, pair):
    merged = []
    for token in tokens:
        if merged and not merged[-1][1] and (merged[-1][0], token) == tuple(pair):
            merged[-1] = (merged[-1][0] + token, True)
        else:
            merged.append((token, False))
    return [token for token, _ in merged]


def train(text, vocab_size, special_tokens=(), pattern=PATTERN):
    vocab = {}
    for byte in BYTES:
        vocab[bytes((byte,))] = len(vocab)
    words = []
    for piece in pre_tokenize(text, special_tokens, pattern):
        if piece not in special_tokens:
            words.append([bytes((byte,)) for byte in piece.encode("utf-8")])
    merges = []
    for _ in range(vocab_size - 256 - len(special_tokens)):
        counts = {}
        for word in words:
            for left, right in zip(word[:-1], word[1:]):
                counts[left, right] = counts.get((left, right), 0) + 1
        best = None
        for pair, count in counts.items():
            key = (-count, vocab[pair[0]], vocab[pair[1]])
            if best is None or key < best[0]:
                best = (key, pair)
        if best is None:
            break
        merges.append(best[1])
        vocab[best[1][0] + best[1][1]] = len(vocab)
        words = [merge_pair(word, best[1]) for word in words]
    for token in special_tokens:
        vocab[token.encode("utf-8")] = len(vocab)
    return vocab, merges


class Tokenizer:
    def encode(self, text):
        ids = []
        for piece in pre_tokenize(text, self.special_tokens, self.pattern):
            if piece in self.special_tokens:
                ids.append(self.vocab[piece.encode()])
                continue
            tokens = [bytes((byte,)) for byte in piece.encode()]
            while len(tokens) > 1:
                best, place = None, None
                for at in range(len(tokens) - 1):
                    rank = self.ranks.get((tokens[at], tokens[at + 1]))
                    if rank is not None and (best is None or rank < best):
                        best, place = rank, at
                if place is None:
                    break
                tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]
            for token in tokens:
                ids.append(self.vocab[token])
        return ids

    def decode(self, ids):
        data = bytearray()
        for number in ids:
            data += self.tokens[number]
        return str(bytes(data), "utf-8", "replace")


class StreamDecoder:
    def push(self, number):
        self.held += self.tokenizer.tokens[number]
        text = ""
        while self.held:
            lead = self.held[0]
            length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            if len(self.held) < length and lead >= 0xC0:
                break
            try:
                text += self.held[:length].decode()
                self.held = self.held[length:]
            except UnicodeDecodeError as error:
                text += "\ufffd"
                self.held = self.held[error.end :]
        return text

    def finish(self):
        rest, self.held = self.held, b""
        return rest.decode(errors="replace")


def apply_chat_template(messages, add_generation_prompt=False):
    lines = []
    for message in messages:
        said = message["content"]
        if message["role"] == "assistant":
            before, found, after = said.rpartition("</think>")
            said = after.lstrip("\n") if found else said
        lines.append("<|im_start|>" + message["role"])
        lines.append(said + "<|im_end|>")
    if add_generation_prompt:
        lines.append("<|im_start|>assistant")
    return "".join(line + "\n" for line in lines)


class Embedding(nn.Module):
    def forward(self, ids):
        rows = []
        for number in ids.reshape(-1).tolist():
            row = self.weight[number]
            rows.append(row.detach() if number == self.padding_idx else row)
        return torch.stack(rows).reshape(*ids.shape, -1)


def sinusoidal_positions(length, dim):
    table = torch.empty(length, dim)
    for place in range(length):
        for feature in range(dim):
            angle = place / 10000 ** (feature // 2 * 2 / dim)
            table[place, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table
