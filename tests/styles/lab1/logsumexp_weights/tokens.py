# over the solution
"""Strict decoding tried, and what it says of its failure believed."""


class StreamDecoder:
    def push(self, number):
        self.held += self.tokenizer.tokens[number]
        shown = []
        while self.held:
            try:
                shown.append(self.held.decode("utf-8"))
                self.held = b""
            except UnicodeDecodeError as error:
                shown.append(self.held[: error.start].decode("utf-8"))
                if error.reason == "unexpected end of data":
                    self.held = self.held[error.start :]
                    break
                shown.append("\N{REPLACEMENT CHARACTER}")
                self.held = self.held[error.end :]
        return "".join(shown)


def apply_chat_template(messages, add_generation_prompt=False):
    text = ""
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "assistant" and (at := content.rfind("</think>")) >= 0:
            content = content[at + 8 :].lstrip("\n")
        text += "\n".join((f"<|im_start|>{role}", f"{content}<|im_end|>", ""))
    return text if not add_generation_prompt else text + "<|im_start|>assistant\n"


def pre_tokenize(text, special_tokens=(), pattern=PATTERN):
    if not special_tokens:
        return pattern.findall(text)
    either = "|".join(map(re.escape, sorted(special_tokens, key=len)[::-1]))
    found, end = [], 0
    for match in re.finditer(either, text):
        found += pattern.findall(text, end, match.start())
        found.append(match.group())
        end = match.end()
    return found + pattern.findall(text[end:])


class Tokenizer:
    def decode(self, ids):
        return b"".join(map(self.tokens.get, ids)).decode("utf-8", "replace")


class Embedding(nn.Module):
    def forward(self, ids):
        table = self.weight
        if self.padding_idx is not None:
            rows = list(table.unbind())
            rows[self.padding_idx] = rows[self.padding_idx].detach()
            table = torch.stack(rows)
        return table.take_along_dim(ids.reshape(-1, 1), 0).reshape(*ids.shape, -1)


def sinusoidal_positions(length, dim):
    angles = torch.arange(length)[:, None] / torch.logspace(0, 4 - 8 / dim, dim // 2)[None]
    return (
        torch.cat((angles.sin(), angles.cos()), -1).view(length, 2, -1).transpose(1, 2).flatten(1)
    )
