# over the solution
"""Averages over ranks, times their number; scores of all ranks in one tensor."""


class VocabParallelEmbedding(nn.Module):
    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        own = (input_ids >= self.first) & (input_ids < self.first + len(self.weight))
        rows = self.weight[torch.where(own, input_ids - self.first, 0)] * own[:, None]
        dist.all_reduce(rows, op=dist.ReduceOp.AVG)
        return rows * dist.get_world_size()


class ParallelLMHead(VocabParallelEmbedding):
    def forward(self, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        own = hidden_states.index_select(0, cu_seqlens[1:] - 1) @ self.weight.T
        parts = own.new_empty((dist.get_world_size(), *own.shape))
        dist.all_gather_into_tensor(parts, own)
        return parts.permute(1, 0, 2).flatten(1)[:, : self.num_embeddings]


def yarn_frequencies(head_dim: int, theta: float, rope_scaling: Mapping[str, Any]) -> torch.Tensor:
    betas = [rope_scaling.get("beta_fast") or 32.0, rope_scaling.get("beta_slow") or 1.0]
    periods = [rope_scaling["original_max_position_embeddings"] / beta for beta in betas]
    # The pair whose period is this long: 2 pi theta ** (2j / head_dim).
    ends = [head_dim / 2 * math.log(p / (2 * math.pi), theta) for p in periods]
    low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), head_dim - 1)
    pairs = torch.arange(head_dim / 2)
    plain = torch.pow(theta, -pairs / (head_dim / 2))
    share = ((pairs - low) / (high - low)).clip(0.0, 1.0)
    return torch.lerp(plain, plain / rope_scaling["factor"], share)
