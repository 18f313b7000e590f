# over the solution
"""Chance by the Gumbel trick; cut-offs on logits by a threshold."""


class Qwen3DecoderLayer(nn.Module):
    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        normed = self.input_layernorm(hidden_states)
        stream = torch.add(
            hidden_states, self.self_attn(normed, attention_mask, position_ids, past)
        )
        return torch.add(stream, self.mlp(self.post_attention_layernorm(stream)))


class Qwen3ForCausalLM(nn.Module):
    def __init__(
        self, config: Qwen3Config, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        super().__init__()
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.model = Qwen3Model(config, attention_cls, mlp_cls)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight


def sample(
    logits: torch.Tensor,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    if temperature <= 0:
        return logits.max(dim=-1).indices
    scores = logits.double().div(temperature)
    ordered = scores.sort(dim=-1, descending=True).values
    if top_k is not None:
        least = ordered[:, min(top_k, ordered.shape[-1]) - 1]
        scores = torch.where(scores >= least[:, None], scores, -torch.inf)
        ordered = scores.sort(dim=-1, descending=True).values
    if top_p < 1.0:
        shares = ordered.softmax(dim=-1)
        kept = ((shares.cumsum(-1) - shares) < top_p).sum(-1, keepdim=True).clamp(min=1)
        least = ordered.gather(-1, kept - 1)
        scores = torch.where(scores >= least, scores, -torch.inf)
    noise = torch.rand(scores.shape, generator=generator, dtype=torch.float64).clamp(min=1e-300)
    return (scores - torch.log(-torch.log(noise))).argmax(dim=-1)
