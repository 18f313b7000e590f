# over the solution
"""Chance by looking one uniform number up in the running sum."""


def build_position_ids(attention_mask: torch.Tensor, query_len: int) -> torch.Tensor:
    later = torch.ones(attention_mask.shape[1], attention_mask.shape[1]).tril(-1)
    counted = attention_mask.float() @ later.T
    return counted[:, -query_len:].long()


def sample(
    logits: torch.Tensor,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    if temperature == 0:
        return torch.topk(logits, 1, dim=-1).indices[:, 0]
    shares, order = (logits.float() / temperature).softmax(dim=-1).sort(dim=-1, descending=True)
    ranks = torch.arange(shares.shape[-1])
    if top_k is not None:
        shares = shares * (ranks < top_k)
    shares = shares / shares.sum(dim=-1, keepdim=True)
    if top_p < 1:
        earlier = torch.nn.functional.pad(shares.cumsum(dim=-1)[:, :-1], (1, 0))
        shares = shares * ((earlier < top_p) | (ranks == 0))
    sums = shares.cumsum(dim=-1)
    point = torch.rand(len(sums), 1, generator=generator) * sums[:, -1:]
    place = torch.searchsorted(sums, point, right=True).clamp(max=shares.shape[-1] - 1)
    last = (shares > 0).sum(dim=-1, keepdim=True) - 1  # rounding may point one too far
    return order.gather(-1, torch.minimum(place, last)).squeeze(-1)
