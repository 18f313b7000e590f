"""Lab 2: attention of Qwen3 (Carol)."""

from __future__ import annotations

import torch
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    x1 = x[..., : x.size(-1) // 2]
    x2 = x[..., x.size(-1) // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        dim = config.head_dim
        power = torch.arange(0, dim, 2).to(torch.float32) / dim
        self.inverse_frequencies = torch.reciprocal(config.rope_theta**power)

    def forward(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        freqs = position_ids[..., None].float() * self.inverse_frequencies
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos(), emb.sin()


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos = cos.to(q.dtype).unsqueeze(-3)
    sin = sin.to(q.dtype).unsqueeze(-3)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    if n_rep == 1:
        return x
    return torch.repeat_interleave(x, n_rep, 1)


class Qwen3Attention(nn.Module):
    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.dim = config.head_dim
        self.scaling = config.head_dim**-0.5
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv_heads * self.dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv_heads * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.dim, config.rms_norm_eps)
        self.rotary = RotaryEmbedding(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        bsz, seq_len, _ = hidden_states.size()
        q = self.q_proj(hidden_states).view(bsz, seq_len, self.heads, self.dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, seq_len, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, seq_len, self.kv_heads, self.dim).transpose(1, 2)

        if position_ids is None:
            position_ids = torch.arange(seq_len, device=hidden_states.device)
        cos, sin = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        # now that q and k are final, normalise them
        q, k = self.q_norm(q), self.k_norm(k)

        k = repeat_kv(k, self.heads // self.kv_heads)
        v = repeat_kv(v, self.heads // self.kv_heads)
        attn = (q @ k.mT) * self.scaling
        if attention_mask is None:
            mask = torch.triu(torch.ones(seq_len, seq_len, device=attn.device), diagonal=1).bool()
            attn = attn.masked_fill(mask, float("-inf"))
        else:
            attn = attn + attention_mask
        attn = attn.softmax(-1, torch.float32).type_as(v)
        out = (attn @ v).transpose(1, 2).contiguous().view(bsz, seq_len, self.heads * self.dim)
        return self.o_proj(out)
