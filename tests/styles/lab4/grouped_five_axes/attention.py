# over the solution
"""Query heads in groups beside their kv head; nothing is repeated."""


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
        cos, sin = self.rotary(position_ids)
        q, k = apply_rotary_pos_emb(q, k, cos, sin)

        if past is not None:  # rotated once, with their own position, and never again
            k, v = past.update(self.layer_idx, k, v)  # [B, kv_heads, keys, head_dim]

        groups = self.num_heads // self.num_kv_heads
        q = q.unflatten(1, (self.num_kv_heads, groups))  # [B, kv_heads, group, T, head_dim]
        scores = torch.einsum("bgrqd,bgkd->bgrqk", q, k) * self.head_dim**-0.5
        keys = k.shape[2]
        if attention_mask is None:
            seen = torch.arange(keys) <= torch.arange(keys - seq, keys)[:, None]
            scores = scores.where(seen, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask.unsqueeze(1)
        weights = scores.float().softmax(-1).to(v.dtype)
        mixed = torch.einsum("bgrqk,bgkd->bqgrd", weights, v)
        return self.o_proj(mixed.flatten(2))
