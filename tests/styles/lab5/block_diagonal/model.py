# over the solution
"""The embedding as a product; head and embedding share the head's parameter."""


def _copy(param: nn.Parameter, whole: torch.Tensor) -> None:
    param.data.copy_(whole)


class VocabParallelEmbedding(nn.Module):
    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.first, self.first + self.weight.shape[0])
        # [tokens, rows]; a foreign id is a row of zeros.
        chosen = (input_ids[:, None] == places).to(self.weight.dtype)
        rows = chosen @ self.weight
        dist.all_reduce(rows)
        return rows


class ParallelLMHead(VocabParallelEmbedding):
    def forward(self, hidden_states: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        last = hidden_states[cu_seqlens.diff().cumsum(0) - 1]
        rows, world = self.weight.shape[0], dist.get_world_size()
        # Zeros but for the own columns: then a sum lays them side by side.
        scores = last.new_zeros(last.shape[0], rows * world)
        scores[:, self.first : self.first + rows] = last @ self.weight.t()
        dist.all_reduce(scores)
        return scores.narrow(1, 0, self.num_embeddings)


class Qwen3ForCausalLM(nn.Module):
    def __init__(
        self, config: Qwen3Config, parts: Parts, rope_scaling: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.tied = config.tie_word_embeddings
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size)
        self.model = Qwen3Model(config, parts, rope_scaling=rope_scaling)
        if self.tied:
            self.model.embed_tokens.weight = self.lm_head.weight

    def load_weights(self, hf_tensors: Mapping[str, torch.Tensor]) -> None:
        known = dict(self.named_parameters(remove_duplicate=False))
        filled: dict[int, int] = {id(parameter): 0 for parameter in known.values()}
        for name, tensor in hf_tensors.items():
            if name == "lm_head.weight" and self.tied:
                continue
            module = name.split(".")[-2]
            packed, *shard = self.packed_modules_mapping.get(module, (module,))
            own = name.replace(f"{module}.weight", f"{packed}.weight")
            if own not in known:
                raise KeyError(name)
            copy = getattr(
                known[own], "weight_loader", lambda param, whole: param.data.copy_(whole)
            )
            copy(known[own], tensor, *shard)
            filled[id(known[own])] += 1
        wanted = {"qkv_proj": 3, "gate_up_proj": 2}
        for name, parameter in known.items():
            if filled[id(parameter)] < wanted.get(name.split(".")[-2], 1):
                raise ValueError(f"{name} is not whole")
