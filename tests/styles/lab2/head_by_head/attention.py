"""A Python loop over the query heads, each with its own slices and small matrices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: Tensor) -> Tensor:
    n = x.shape[-1] // 2
    order = torch.cat((torch.arange(n, 2 * n), torch.arange(n))).to(x.device)
    signs = torch.tensor([-1] * n + [1] * n, dtype=x.dtype, device=x.device)
    return x[..., order] * signs


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.half, self.theta = config.head_dim // 2, config.rope_theta

    def forward(self, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        columns = [position_ids.float() * self.theta ** (-i / self.half) for i in range(self.half)]
        angle = torch.stack(columns * 2, dim=-1)
        return angle.cos(), angle.sin()


def apply_rotary_pos_emb(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    def per_head(x: Tensor) -> Tensor:
        c, s = cos.to(x.dtype), sin.to(x.dtype)
        heads = [h * c + rotate_half(h) * s for h in x.unbind(1)]
        return torch.stack(heads, dim=1)

    return per_head(q), per_head(k)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    return torch.stack([h for h in x.unbind(1) for _ in range(n_rep)], dim=1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.n, self.kv, self.d = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        self.q_proj = nn.Linear(config.hidden_size, self.n * self.d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(self.n * self.d, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.d, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.d, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        b, t, _ = hidden_states.shape
        if position_ids is None:
            position_ids = torch.arange(t, device=hidden_states.device)
        cos, sin = self.rotary(position_ids)
        if attention_mask is None:
            lowest = torch.finfo(hidden_states.dtype).min
            attention_mask = hidden_states.new_full((t, t), lowest).triu(1)
        mask = attention_mask.expand(b, self.n, t, t)

        keys = self.k_proj(hidden_states).split(self.d, dim=-1)
        values = self.v_proj(hidden_states).split(self.d, dim=-1)
        outputs = []
        for h, query in enumerate(self.q_proj(hidden_states).split(self.d, dim=-1)):
            owner = h // (self.n // self.kv)
            q, k = self.q_norm(query).unsqueeze(1), self.k_norm(keys[owner]).unsqueeze(1)
            q, k = apply_rotary_pos_emb(q, k, cos, sin)
            scores = q[:, 0] @ k[:, 0].mT * self.d**-0.5 + mask[:, h]  # [B, T, T]
            p = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
            outputs.append(p @ values[owner])
        return self.o_proj(torch.cat(outputs, dim=-1))
