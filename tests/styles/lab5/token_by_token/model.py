# over the solution
"""One token, one sequence, one tensor at a time."""

import bisect


class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        rows = math.ceil(num_embeddings / dist.get_world_size())
        self.starts = [rank * rows for rank in range(dist.get_world_size())]
        self.first = self.starts[dist.get_rank()]
        self.weight = nn.Parameter(torch.zeros(rows, embedding_dim))
        self.weight.weight_loader = self.weight_loader  # type: ignore[attr-defined]

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        nothing = torch.zeros_like(self.weight[0])
        found = []
        for number in input_ids.tolist():
            holder = bisect.bisect_right(self.starts, number) - 1
            own = holder == dist.get_rank()
            found.append(self.weight[number - self.first] if own else nothing)
        rows = torch.stack(found)
        dist.all_reduce(rows)
        return rows


class ParallelLMHead(VocabParallelEmbedding):
    def forward(self, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        rows = [self.weight @ hidden_states[end - 1] for end in cu_seqlens[1:]]
        own = torch.stack(rows)
        parts = [torch.empty_like(own) for _ in self.starts]
        dist.all_gather(parts, own)
        return torch.hstack(parts).split(self.num_embeddings, dim=1)[0]
