# over the solution
"""The text as one tensor made at the start; the mask in full length, and sliced."""


class Qwen3ForCausalLM(nn.Module):
    def __init__(
        self, config: Qwen3Config, attention_cls: AttentionClass, mlp_cls: MLPClass
    ) -> None:
        super().__init__()
        self.model = Qwen3Model(config, attention_cls, mlp_cls)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.model.embed_tokens.weight = self.lm_head.weight


@torch.no_grad()
def generate(
    model: nn.Module,
    input_ids: torch.Tensor,
    max_new_tokens: int,
    *,
    attention_mask: torch.Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    eos: int | None = None,
    generator: torch.Generator | None = None,
    on_token: Callable[[torch.Tensor], object] | None = None,
) -> torch.Tensor:
    rows, width = input_ids.shape
    filler = 0 if eos is None else eos
    text = torch.cat((input_ids, input_ids.new_full((rows, max_new_tokens), filler)), dim=1)
    padding = None
    if attention_mask is not None:
        padding = torch.cat((attention_mask, attention_mask.new_ones(rows, max_new_tokens)), dim=1)
    past, open_rows, read = KVCache(), torch.ones(rows, dtype=torch.bool), 0
    for end in range(width, width + max_new_tokens):
        given = {} if padding is None else {"attention_mask": padding[:, :end]}
        logits = model(text[:, read:end], past=past, **given).select(1, -1)
        read = end
        new = sample(logits, temperature, top_k, top_p, generator)
        if eos is not None:
            new = torch.where(open_rows, new, torch.full_like(new, eos))
            open_rows = open_rows & new.ne(eos)
        text[:, end] = new
        if on_token is not None:
            on_token(new)
        if not open_rows.any():
            return text[:, : end + 1]
    return text
