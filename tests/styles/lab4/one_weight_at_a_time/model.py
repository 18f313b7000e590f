# over the solution
"""Weights copied one by one from open files; a head by F.linear."""

from safetensors import safe_open


class Qwen3ForCausalLM(nn.Module):
    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        hidden_states = self.model(input_ids, attention_mask, position_ids, past)
        return torch.nn.functional.linear(hidden_states, self.lm_head.weight)


def load_hf_checkpoint(
    path: str | Path,
    attention_cls: AttentionClass,
    mlp_cls: MLPClass,
    dtype: torch.dtype = torch.float32,
) -> Qwen3ForCausalLM:
    folder = Path(path)
    config = Qwen3Config.from_dict(json.loads((folder / "config.json").read_text("utf-8")))
    model = Qwen3ForCausalLM(config, attention_cls, mlp_cls).to(dtype)
    own = dict(model.named_parameters(remove_duplicate=False))
    index = folder / "model.safetensors.index.json"
    shards = ["model.safetensors"]
    if index.exists():
        shards = sorted({*json.loads(index.read_text("utf-8"))["weight_map"].values()})
    left, strange = set(own), []
    with torch.no_grad():
        for shard in shards:
            with safe_open(str(folder / shard), "pt") as opened:
                for name in opened.keys():
                    if name not in own:
                        strange.append(name)
                        continue
                    own[name].copy_(opened.get_tensor(name))
                    left.discard(name)
    if config.tie_word_embeddings and "model.embed_tokens.weight" not in left:
        left.discard("lm_head.weight")
    if left:
        raise ValueError("no file holds " + ", ".join(sorted(left)))
    if strange:
        raise ValueError("no parameter is called " + ", ".join(strange))
    return model.eval()
