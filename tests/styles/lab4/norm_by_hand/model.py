# over the solution
"""A norm of its own, submodules added by name, layers called in a reduce."""

import functools


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        size = wide.square().mean(dim=-1, keepdim=True).add(self.eps).sqrt()
        return (wide / size).to(x.dtype).mul(self.weight)


class Qwen3DecoderLayer(nn.Module):
    def __init__(
        self, config: Qwen3Config, layer_idx: int, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        super().__init__()
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.add_module(name, RMSNorm(config.hidden_size, eps=config.rms_norm_eps))
        self.add_module("self_attn", attention_cls(config, layer_idx))
        self.add_module("mlp", mlp_cls(config))


class Qwen3Model(nn.Module):
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        hidden_states = self.embed_tokens(input_ids)  # [B, T, hidden]
        seq = input_ids.shape[1]
        held = 0 if past is None else past.length()
        mask = None
        if attention_mask is not None:
            mask = build_attention_mask(attention_mask, seq, hidden_states.dtype)
        if position_ids is None and attention_mask is not None:
            position_ids = build_position_ids(attention_mask, seq)
        elif position_ids is None:
            position_ids = torch.arange(held, held + seq, device=input_ids.device)
        through = functools.partial(self._through, mask=mask, at=position_ids, past=past)
        return self.norm(functools.reduce(through, self.layers, hidden_states))

    @staticmethod
    def _through(x, layer, mask, at, past):
        return layer(x, attention_mask=mask, position_ids=at, past=past)
