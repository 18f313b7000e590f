"""The numbers that describe one Qwen3 model, read from a Hugging Face ``config.json``."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Qwen3Config:
    """Sizes and constants of a dense Qwen3 model, under their Hugging Face names.

    ``head_dim`` stands on its own: in Qwen3-0.6B, 4B and 32B
    ``num_attention_heads * head_dim`` is not ``hidden_size``.
    Source: ``transformers/models/qwen3/configuration_qwen3.py``.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1_000_000.0
    max_position_embeddings: int = 40_960
    tie_word_embeddings: bool = True

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Qwen3Config:
        """Build a config from the keys of a ``config.json``; other keys are ignored.

        ``rope_theta`` stands at the top level in files of transformers 4.x and inside
        ``rope_parameters`` in files of 5.x; both are read.

        Raises:
            ValueError: a key is missing, or the two places give different thetas.
        """
        values = {f.name: raw[f.name] for f in fields(cls) if f.name in raw}
        nested = (raw.get("rope_parameters") or {}).get("rope_theta")
        if nested is not None:
            if "rope_theta" in values and float(values["rope_theta"]) != float(nested):
                raise ValueError(
                    f"config: rope_theta is {values['rope_theta']} but "
                    f"rope_parameters.rope_theta is {nested}; make them equal"
                )
            values["rope_theta"] = float(nested)
        missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in values]
        if missing:
            raise ValueError(f"config: these keys are missing: {', '.join(missing)}")
        return cls(**values)

    @classmethod
    def from_json(cls, path: str | Path) -> Qwen3Config:
        """Read a Hugging Face ``config.json`` written by transformers 4.x or 5.x."""
        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


Config = Qwen3Config  # the name by which a course's config is known to the grader
