# over the solution
"""A padded vocabulary in chunks; layers come from a function, names from a regular expression."""

import re


def _layers(config: Qwen3Config, parts: Parts, rotary: Any) -> nn.ModuleList:
    def one() -> nn.Module:
        attention = parts.attention(
            config.hidden_size, config.num_attention_heads, config.num_key_value_heads,
            config.head_dim, config.rms_norm_eps, config.rope_theta, rotary=rotary,
        )  # fmt: skip
        mlp = parts.mlp(
            config.hidden_size,
            config.intermediate_size,
            parts.row(config.intermediate_size, config.hidden_size),
        )
        return parts.layer(config.hidden_size, config.rms_norm_eps, attention, mlp)

    return nn.ModuleList([one() for _ in range(config.num_hidden_layers)])


class VocabParallelEmbedding(nn.Module):
    def weight_loader(self, param: nn.Parameter, loaded_weight: torch.Tensor) -> None:
        whole = loaded_weight.new_zeros(len(param) * dist.get_world_size(), param.shape[1])
        whole[: len(loaded_weight)] = loaded_weight
        param.data = whole.chunk(dist.get_world_size())[dist.get_rank()].to(param.dtype)


class Qwen3Model(nn.Module):
    def __init__(
        self, config: Qwen3Config, parts: Parts, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        rotary = None
        if rope_scaling:
            rotary = RotaryEmbedding(config.head_dim, config.rope_theta, rope_scaling)
        self.layers = _layers(config, parts, rotary)
        self.norm = parts.norm(config.hidden_size, config.rms_norm_eps)
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)


class Qwen3ForCausalLM(nn.Module):
    def load_weights(self, hf_tensors: Mapping[str, torch.Tensor]) -> None:
        by_name = dict(self.named_parameters())
        pattern = re.compile(r"(?<=\.)(q|k|v|gate|up)_proj(?=\.weight$)")
        seen: list[tuple[str, object]] = []
        for name, tensor in hf_tensors.items():
            if name == "lm_head.weight" and name not in by_name:
                continue
            part = pattern.search(name)
            packed, shard = self.packed_modules_mapping[part[0]] if part else ("", None)
            own = pattern.sub(packed, name)
            if own not in by_name:
                raise KeyError(f"what is {name}?")
            param = by_name[own]
            if part:
                param.weight_loader(param, tensor, shard)
            elif "norm" in own:
                param.data[:] = tensor
            else:
                param.weight_loader(param, tensor)
            seen.append((own, shard))
        wanted = set()
        for name in by_name:
            shards = [s for p, s in self.packed_modules_mapping.values() if f".{p}." in name]
            wanted.update((name, shard) for shard in shards or [None])
        if wanted - set(seen):
            raise ValueError(f"absent: {sorted(map(str, wanted - set(seen)))}")
