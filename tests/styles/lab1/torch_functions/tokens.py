# over the solution
"""The library's own look-up."""

import torch.nn.functional as F


class Embedding(nn.Module):
    def forward(self, ids):
        return F.embedding(ids, self.weight, padding_idx=self.padding_idx)


class StreamDecoder:
    def push(self, number):
        data = self.held + self.tokenizer.tokens[number]
        open_end = re.search(
            rb"(?:[\xc0-\xff]|[\xe0-\xff][\x80-\xbf]|[\xf0-\xff][\x80-\xbf]{2})\Z", data
        )
        end = open_end.start() if open_end else len(data)
        self.held = data[end:]
        return str(data[:end], "utf-8", "replace")


def merge_pair(tokens, pair):
    merged = []
    skip = False
    for left, right in zip(tokens, [*tokens[1:], None]):
        if skip:
            skip = False
        elif (left, right) == pair:
            merged.append(left + right)
            skip = True
        else:
            merged.append(left)
    return merged


def sinusoidal_positions(length, dim):
    pairs = torch.arange(dim // 2).repeat_interleave(2) * 2 / dim
    angles = torch.arange(length).unsqueeze(-1).div(torch.pow(10000, pairs))
    odd = torch.arange(dim).remainder(2).bool()
    return torch.where(odd, torch.cos(angles), torch.sin(angles))
