# over the solution
"""Keys rotated as complex numbers; the causal mask from a table of distances."""


class Qwen3Attention(nn.Module):
    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        batch, seq, _ = hidden_states.shape
        heads = (batch, seq, -1, self.head_dim)

        # [B, T, heads, head_dim] -> [B, heads, T, head_dim]; the norm is over head_dim.
        q = self.q_norm(self.q_proj(hidden_states).view(heads)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(heads)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(heads).transpose(1, 2)

        if position_ids is None:
            held = 0 if past is None else past.length(self.layer_idx)
            position_ids = torch.arange(held, held + seq, device=hidden_states.device)
        angles = position_ids[..., None].float() * self.rotary.inv_freq  # [..., T, head_dim/2]
        turn = torch.polar(torch.ones_like(angles), angles).unsqueeze(-3)

        def turned(x: torch.Tensor) -> torch.Tensor:
            first, second = x.float().chunk(2, dim=-1)
            points = torch.complex(first, second) * turn
            return torch.cat((points.real, points.imag), dim=-1).to(x.dtype)

        q, k = turned(q), turned(k)

        if past is not None:  # rotated once, with their own position, and never again
            k, v = past.update(self.layer_idx, k, v)  # [B, kv_heads, keys, head_dim]

        group = self.num_heads // self.num_kv_heads
        k, v = repeat_kv(k, group), repeat_kv(v, group)  # [B, heads, keys, head_dim]

        scores = q @ k.transpose(-1, -2) * self.head_dim**-0.5  # [B, heads, T, keys]
        if attention_mask is None:
            # The last query sees all keys, the one before it all but one, and so on.
            keys = k.shape[2]
            distance = torch.arange(keys)[None, :] - torch.arange(keys - seq, keys)[:, None]
            future = distance > 0
            scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype)

        mixed = (weights @ v).transpose(1, 2).reshape(batch, seq, -1)  # [B, T, heads*head_dim]
        return self.o_proj(mixed)
