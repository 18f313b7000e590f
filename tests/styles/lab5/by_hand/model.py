# over the solution
"""Sums, pairs and rows written out; what goes from layer to layer is a list."""


class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        world = dist.get_world_size()
        self.num_embeddings = num_embeddings
        self.share = (num_embeddings + world - 1) // world
        self.first = self.share * dist.get_rank()
        self.weight = nn.Parameter(torch.ones(self.share, embedding_dim))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        for row in range(self.share):
            number = self.first + row
            inside = number < self.num_embeddings
            param.data[row] = loaded_weight[number] if inside else 0.0

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        rows = self.weight.new_zeros(len(input_ids), self.weight.shape[1])
        for token, number in enumerate(input_ids.tolist()):
            if self.first <= number < self.first + self.share:
                rows[token] = self.weight[number - self.first]
        dist.all_reduce(rows)
        return rows


def yarn_frequencies(head_dim: int, theta: float, rope_scaling: Mapping[str, Any]) -> torch.Tensor:
    context, factor = rope_scaling["original_max_position_embeddings"], rope_scaling["factor"]
    fast, slow = rope_scaling.get("beta_fast", 32), rope_scaling.get("beta_slow", 1)

    def turns(pair: float) -> float:
        return context * theta ** (-2 * pair / head_dim) / (2 * math.pi)

    pairs = range(head_dim)
    # The last pair that turns at least that often, and the first that turns at most that often.
    low = max([pair for pair in pairs if turns(pair) >= fast], default=0)
    high = min([pair for pair in pairs if turns(pair) <= slow], default=head_dim - 1)
    found = []
    for pair in range(head_dim // 2):
        share = min(max((pair - low) / (high - low), 0.0), 1.0)
        found.append(theta ** (-2 * pair / head_dim) * (1 - share + share / factor))
    return torch.tensor(found)


class Qwen3Model(nn.Module):
    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        stream: list[torch.Tensor | None] = [self.embed_tokens(input_ids), None]
        for number in range(len(self.layers)):
            stream = [*self.layers[number](positions, *stream, cu_seqlens)]
        return self.norm(*stream)[0]
