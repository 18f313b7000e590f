# over the solution
"""Masks by torch.where, texts as Python lists, positions row by row."""


def build_attention_mask(
    attention_mask: torch.Tensor, query_len: int, dtype: torch.dtype
) -> torch.Tensor:
    keys = attention_mask.shape[1]
    rows = torch.arange(keys - query_len, keys).view(1, 1, -1, 1)
    columns = torch.arange(keys).view(1, 1, 1, -1)
    real = attention_mask[:, None, None, :] != 0
    seen = torch.where(rows > columns, real, rows == columns)
    least = torch.tensor(torch.finfo(dtype).min, dtype=dtype)
    return torch.where(seen, torch.zeros((), dtype=dtype), least)


def build_position_ids(attention_mask: torch.Tensor, query_len: int) -> torch.Tensor:
    rows = []
    for row in attention_mask.tolist():
        seen, places = 0, []
        for one in row:
            places.append(max(seen + int(one) - 1, 0))
            seen += int(one)
        rows.append(places[-query_len:])
    return torch.tensor(rows)


@torch.no_grad()
def generate(
    model: nn.Module,
    input_ids: torch.Tensor,
    max_new_tokens: int,
    *,
    attention_mask: torch.Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    eos: int | None = None,
    generator: torch.Generator | None = None,
    on_token: Callable[[torch.Tensor], object] | None = None,
) -> torch.Tensor:
    past = KVCache()
    rows = input_ids.tolist()
    width = input_ids.shape[1]
    done = [False] * len(rows)
    while len(rows[0]) < width + max_new_tokens and not all(done):
        held = past.length()
        mask = None
        if attention_mask is not None:
            new = len(rows[0]) - width
            mask = torch.nn.functional.pad(attention_mask, (0, new), value=1)
        fed = torch.tensor([row[held:] for row in rows])
        logits = model(fed, attention_mask=mask, past=past)
        chosen = sample(logits[:, -1, :], temperature, top_k, top_p, generator).tolist()
        for number, row in enumerate(rows):
            row.append(eos if done[number] else chosen[number])
            done[number] = done[number] or (eos is not None and row[-1] == eos)
        if on_token is not None:
            on_token(torch.tensor([row[-1] for row in rows]))
    return torch.tensor(rows)
