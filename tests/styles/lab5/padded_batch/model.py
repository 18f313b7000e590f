# over the solution
"""Foreign ids look up a row of zeros behind the weight; rotations by a table of all positions."""


class VocabParallelEmbedding(nn.Module):
    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        rows = self.weight.shape[0]
        table = torch.cat((self.weight, self.weight.new_zeros(1, self.weight.shape[1])))
        places = input_ids - self.first
        places = torch.where(places < 0, rows, places).clamp(max=rows)
        out = table.index_select(0, places)
        dist.all_reduce(out, op=dist.ReduceOp.SUM)
        return out


class RotaryEmbedding(nn.Module):
    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        every = torch.arange(int(positions.max()) + 1, dtype=torch.float32)
        angles = every[:, None] * self.frequencies
        table = torch.stack((angles.cos(), angles.sin())) * self.factor
        cos, sin = table[:, positions].unsqueeze(2).to(x.dtype)
        first, second = x.unflatten(-1, (2, -1)).unbind(-2)
        turned = torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-2)
        return turned.flatten(-2)


class Qwen3Model(nn.Module):
    def __init__(
        self, config: Qwen3Config, parts: Parts, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        rotary = rope_scaling and RotaryEmbedding(config.head_dim, config.rope_theta, rope_scaling)
        self.layers = nn.ModuleList(
            self._layer(config, parts, rotary) for _ in range(config.num_hidden_layers)
        )
        self.norm = parts.norm(config.hidden_size, config.rms_norm_eps)

    def _layer(self, config: Qwen3Config, parts: Parts, rotary: Any) -> nn.Module:
        attention = parts.attention(
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rms_norm_eps=config.rms_norm_eps,
            rope_theta=config.rope_theta,
            rotary=rotary,
        )
        down = parts.row(input_size=config.intermediate_size, output_size=config.hidden_size)
        mlp = parts.mlp(config.hidden_size, config.intermediate_size, down_proj=down)
        return parts.layer(config.hidden_size, config.rms_norm_eps, self_attn=attention, mlp=mlp)
