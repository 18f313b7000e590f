"""Stand-ins for the parts around what an exercise is about, so that each is judged alone.

They have the parameters and calls of the real parts and compute something simple instead: no
Qwen3 comes out, but every argument that a right model hands on can be seen in the result.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from labs.given.cache import KVCache
from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


class StandInAttention(nn.Module):
    """Averages what may be seen, evenly; positions leave their mark as a wave."""

    def __init__(self, config: Qwen3Config, layer_idx: int = 0) -> None:
        super().__init__()
        width = config.num_attention_heads * config.head_dim
        kv_width = config.num_key_value_heads * config.head_dim
        self.layer_idx, self.head_dim = layer_idx, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        """Map ``[B, T, hidden]`` to ``[B, T, hidden]``; arguments as Qwen3Attention takes them."""
        batch, seq, _ = hidden_states.shape
        held = 0 if past is None else past.length(self.layer_idx)
        if position_ids is None:
            position_ids = torch.arange(held, held + seq)
        # [T] or [B, T] -> [1 or B, 1, T, 1]: one wave for all heads and features of a token.
        places = position_ids.reshape(-1, 1, seq, 1).to(hidden_states.dtype)

        def split(x: torch.Tensor) -> torch.Tensor:  # -> [B, heads, T, head_dim]
            return x.view(batch, seq, -1, self.head_dim).transpose(1, 2)

        k = self.k_norm(split(self.k_proj(hidden_states))) * (0.3 * places).cos()
        v = split(self.v_proj(hidden_states))
        if past is not None:
            k, v = past.update(self.layer_idx, k, v)

        seen = torch.zeros(1, 1, seq, k.shape[2], dtype=k.dtype)
        if attention_mask is None:
            blocked = torch.ones(seq, k.shape[2], dtype=torch.bool).triu(k.shape[2] - seq + 1)
            seen = seen.masked_fill(blocked, torch.finfo(k.dtype).min)
        else:
            given, axes = attention_mask.shape, (k.shape[2], seq)
            if any(n not in (1, full) for n, full in zip(given[::-1], axes, strict=False)):
                raise ValueError(
                    f"attention got a mask of shape {list(given)}, which does not fit "
                    f"{seq} queries and {k.shape[2]} keys"
                )
            seen = seen + attention_mask
        share = seen.softmax(dim=-1)  # [B or 1, 1, T, keys]
        # The mean over kv heads serves every head alike.
        mixed = share @ (k + v).mean(dim=1, keepdim=True)  # [B, 1, T, head_dim]
        q = self.q_norm(split(self.q_proj(hidden_states))) * (0.2 * places).sin()
        out: torch.Tensor = self.o_proj((q + mixed).transpose(1, 2).reshape(batch, seq, -1))
        return out


class StandInMLP(nn.Module):
    """``down_proj(up_proj(x) - tanh(gate_proj(x)))``: no gate, no SiLU."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[..., hidden]`` to ``[..., hidden]``."""
        out: torch.Tensor = self.down_proj(self.up_proj(x) - self.gate_proj(x).tanh())
        return out


class StandInModel(nn.Module):
    """A language model that is a table: the sum of the tokens so far, and how many they are,
    pick a row of scores.

    ``calls`` lists, for every call, how many tokens it was given.
    """

    def __init__(self, table: torch.Tensor) -> None:
        """``table`` ``[vocab, vocab]``: row ``(sum + count) % vocab`` scores the next token."""
        super().__init__()
        self.table = table
        self.calls: list[int] = []

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: KVCache | None = None,
    ) -> torch.Tensor:
        """Score the next token: ``[B, T]`` to ``[B, T, vocab]``; as Qwen3ForCausalLM.

        ``attention_mask`` ``[B, past + T]`` leaves out tokens where it is 0, those in the cache
        too: each call says anew. Positions, where they are given, have to be those that the mask
        says; others spoil the scores.
        """
        batch, seq = input_ids.shape
        self.calls.append(seq)
        held = 0 if past is None else past.length()
        counted = torch.ones(batch, held + seq, dtype=torch.long)
        if attention_mask is not None:
            counted = attention_mask.long().expand(batch, held + seq)
        tokens = input_ids[:, None, :, None].float()  # [B, 1, T, 1], as keys lie in a cache
        if past is not None:
            tokens, _ = past.update(0, tokens, tokens)
        sums = ((tokens[:, 0, :, 0].long() + 1) * counted).cumsum(dim=-1)[:, -seq:]
        if position_ids is not None:
            places = (counted.cumsum(-1) - 1)[:, -seq:]
            off = (position_ids.expand(batch, seq) - places).abs() * counted[:, -seq:]
            sums = sums + 3 * off
        scores: torch.Tensor = self.table[sums % self.table.shape[0]]
        return scores


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of a model by name, each once.

    A shared one goes by the last of its names: by that of the embedding and not of the head,
    whichever of the two a model has registered first.
    """
    named: dict[int, tuple[str, torch.Tensor]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        earlier, _ = named.get(id(parameter), ("", parameter))
        named[id(parameter)] = max(name, earlier), parameter
    return dict(named.values())


def parameter_count(model: nn.Module) -> int:
    """How many numbers a model learns; what is shared counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def seeded(seed: int) -> torch.Generator:
    """A generator of its own that starts at ``seed``."""
    return torch.Generator().manual_seed(seed)


def shares(tokens: torch.Tensor, vocab: int) -> torch.Tensor:
    """How often every token comes (last column of a text), in steps of an eighth: ``[vocab]``."""
    last = tokens.reshape(tokens.shape[0], -1)[:, -1]
    counts = torch.bincount(last, minlength=vocab)[:vocab]
    # A token that comes at all counts as the smallest step.
    steps = (counts / len(last) * 8).round().clamp(min=0.5) * (counts > 0)
    return steps / 8


def agreeing(tokens: torch.Tensor, wanted: torch.Tensor) -> float:
    """The share of rows with the wanted token, in steps of an eighth; below 0: any will do."""
    decided = wanted >= 0
    return round(float((tokens == wanted)[decided].double().mean()) * 8) / 8


class Listener:
    """Writes down the tokens of every step, which may lie in the same tensor each time.

    ``when`` says how often ``model`` had been called by then.
    """

    def __init__(self, model: StandInModel) -> None:
        self.steps: list[torch.Tensor] = []
        self.when: list[int] = []
        self._model = model

    def __call__(self, tokens: torch.Tensor) -> bool:
        """Hear of a step; what it gives back means nothing."""
        self.steps.append(tokens.clone())
        self.when.append(len(self._model.calls))
        return True

    def heard(self) -> torch.Tensor:
        """Everything that was heard: ``[steps, B]``, and ``[0]`` if there was nothing."""
        return torch.stack(self.steps) if self.steps else torch.zeros(0, dtype=torch.long)


def is_training(made_by: Callable[..., nn.Module], *arguments: object) -> bool:
    """Whether a model that is just made would behave as in training."""
    return made_by(*arguments).training


def cached(past: KVCache, layer_idx: int) -> list[torch.Tensor]:
    """Keys and values that a layer has put into a cache; empty where there are none."""
    return list(past.layers.get(layer_idx, ()))


def error_of(function: Callable[..., object], names: list[str], *arguments: object) -> list[str]:
    """The error of a call: its kind in Python's words, and those of ``names`` that it holds."""
    try:
        function(*arguments)
    except NotImplementedError:
        raise
    except Exception as error:
        kind = next(one for one in type(error).__mro__ if one.__module__ == "builtins")
        return [kind.__name__, *(name for name in names if name in str(error))]
    return ["nothing"]


def blocked(mask: torch.Tensor) -> torch.Tensor:
    """An additive mask in parts of the least number of its dtype: 0 is open, 1 is hidden."""
    return mask / torch.finfo(mask.dtype).min if mask.is_floating_point() else mask
