# over the solution
"""Rotations as complex numbers; cos and sin for all layers of a call are made once."""


class RotaryEmbedding(nn.Module):
    def __init__(
        self, head_dim: int, theta: float, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        scaling = dict(
            rope_scaling or {"rope_type": "yarn", "factor": 1.0, "attention_factor": 1.0}
        )
        kind = scaling.pop("rope_type", None) or scaling.pop("type", None)
        if kind != "yarn":
            raise ValueError(f"{kind} is not computed here")
        scaling.setdefault("original_max_position_embeddings", 4096)  # with factor 1 any will do
        self.frequencies = yarn_frequencies(head_dim, theta, scaling)  # a buffer would be rounded
        own = scaling.get("attention_factor")
        self.size = 1.0 + 0.1 * math.log(scaling["factor"]) if own is None else own

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        angles = (positions.float().unsqueeze(1) * self.frequencies).unsqueeze(1)
        pairs = torch.complex(*x.float().chunk(2, dim=-1))
        turned = pairs * torch.polar(torch.full_like(angles, self.size), angles)
        return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


class Qwen3Model(nn.Module):
    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, cu_seqlens: torch.Tensor
    ) -> torch.Tensor:
        hidden_states = self.embed_tokens(input_ids)
        residual = torch.zeros_like(hidden_states)
        for layer in self.layers:
            hidden_states, residual = layer(positions, hidden_states, residual, cu_seqlens)
        return self.norm(hidden_states + residual)[0]
