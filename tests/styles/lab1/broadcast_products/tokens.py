# over the solution
"""Counts kept and mended where a merge changes them, as the fast trainers do."""

from collections import defaultdict


def train(text, vocab_size, special_tokens=(), pattern=PATTERN):
    vocab = {bytes([byte]): number for number, byte in enumerate(BYTES)}
    counted = Counter(
        piece
        for piece in pre_tokenize(text, special_tokens, pattern)
        if piece not in set(special_tokens)
    )
    words = [[bytes([byte]) for byte in piece.encode()] for piece in counted]
    often = list(counted.values())
    counts, where = defaultdict(int), defaultdict(set)

    def add(number, sign):
        for pair in pairwise(words[number]):
            counts[pair] += sign * often[number]
            where[pair].add(number)

    for number in range(len(words)):
        add(number, 1)
    merges = []
    while len(vocab) < vocab_size - len(special_tokens):
        left = [pair for pair, count in counts.items() if count > 0]
        if not left:
            break
        best = min(left, key=lambda pair: (-counts[pair], *map(vocab.get, pair)))
        merges.append(best)
        vocab[best[0] + best[1]] = len(vocab)
        for number in list(where.pop(best)):
            add(number, -1)
            words[number] = merge_pair(words[number], best)
            add(number, 1)
    vocab |= {token.encode(): len(vocab) + n for n, token in enumerate(special_tokens)}
    return vocab, merges


class Tokenizer:
    def decode(self, ids):
        whole = bytes(byte for number in ids for byte in self.tokens[number])
        return whole.decode(errors="replace")


class StreamDecoder:
    def push(self, number):
        data = self.held + self.tokenizer.tokens[number]
        for keep in range(min(3, len(data)), 0, -1):
            lead = data[-keep]
            if lead >= 0xC0 and keep < (2, 3, 4)[(lead >= 0xE0) + (lead >= 0xF0)]:
                self.held = data[-keep:]
                return data[:-keep].decode("utf-8", "replace")
        self.held = b""
        return data.decode("utf-8", "replace")


def apply_chat_template(messages, add_generation_prompt=False):
    def turn(message):
        said = message["content"]
        if message["role"] == "assistant":
            said = re.sub(r"\A.*</think>\n*", "", said, flags=re.DOTALL)
        return f"<|im_start|>{message['role']}\n{said}<|im_end|>\n"

    prompt = "<|im_start|>assistant\n" * bool(add_generation_prompt)
    return "".join(map(turn, messages)) + prompt


class Embedding(nn.Module):
    def forward(self, ids):
        if self.padding_idx is None:
            return self.weight[ids]
        out = self.weight.detach()[ids]
        real = ids != self.padding_idx
        return out.index_put((real,), self.weight[ids[real]])


def sinusoidal_positions(length, dim):
    place, pair = torch.arange(length).reshape(-1, 1, 1), torch.arange(dim // 2).reshape(1, -1, 1)
    shift = torch.tensor([0.0, torch.pi / 2]).double()
    return (place / 1e4 ** (2 * pair.double() / dim) + shift).sin().reshape(length, dim).float()
