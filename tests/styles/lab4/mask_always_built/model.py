# over the solution
"""An explicit mask and explicit positions in every call."""


def build_attention_mask(
    attention_mask: torch.Tensor, query_len: int, dtype: torch.dtype
) -> torch.Tensor:
    keys = attention_mask.shape[1]
    blocked = torch.ones(keys, keys, dtype=torch.bool).triu(1)[None]
    blocked = blocked | (attention_mask == 0)[:, None, :]
    blocked = blocked & ~torch.eye(keys, dtype=torch.bool)
    blocked = blocked[:, -query_len:, :].unsqueeze(1)
    return blocked.to(dtype) * torch.finfo(dtype).min


class Qwen3Model(nn.Module):
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        seq = input_ids.shape[1]
        held = 0 if past is None else past.length()
        if attention_mask is None:
            attention_mask = torch.ones(input_ids.shape[0], held + seq, dtype=torch.long)
        hidden_states = torch.nn.functional.embedding(input_ids, self.embed_tokens.weight)
        mask = build_attention_mask(attention_mask, seq, hidden_states.dtype)
        if position_ids is None:
            position_ids = build_position_ids(attention_mask, seq)
        for number in range(len(self.layers)):
            hidden_states = self.layers[number](
                hidden_states, attention_mask=mask, position_ids=position_ids, past=past
            )
        return self.norm(hidden_states)
