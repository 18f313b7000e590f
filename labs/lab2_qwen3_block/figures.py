"""Figures for a student's report: ``python -m labs.lab2_qwen3_block.figures FOLDER EXERCISE …``.

Takes the folder of the hand-in and the exercises that it has passed, runs the student's code in
its own process, so that nothing it does can end the command that asked, and prints a list of
figures as JSON: name, title, kind (``stacks`` or ``lines``), data, and the axis of lines.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from autograder.worker.loader import StudentModules, read_sources
from labs.given.config import Qwen3Config

# Published config.json files: hidden, intermediate, layers, heads, tied; 8 kv heads of 128 each.
SIZES = {
    "0.6B": (1024, 3072, 28, 16, True),
    "1.7B": (2048, 6144, 28, 16, True),
    "4B": (2560, 9728, 36, 32, True),
    "8B": (4096, 12288, 36, 32, False),
    "14B": (5120, 17408, 40, 40, False),
    "32B": (5120, 25600, 64, 64, False),
}
TOKENS = (0, 8192, 16384, 24576, 32768, 40960)


def config(name: str) -> Qwen3Config:
    """The sizes of a dense Qwen3."""
    hidden, intermediate, layers, heads, tied = SIZES[name]
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=tied,
    )


NEEDED = {"count_parameters", "kv_cache_bytes"}


def main(argv: list[str]) -> int:
    """See the module's docstring."""
    folder, passed = Path(argv[1]), set(argv[2:])
    print(json.dumps(_figures(folder) if passed >= NEEDED else []))
    return 0


def _figures(folder: Path) -> list[dict[str, object]]:
    modules = StudentModules(*read_sources(folder, ("attention.py", "mlp.py"))).install()
    own = modules.module("mlp.py")
    parameters: dict[str, dict[str, int]] = {}
    cache: dict[str, list[list[float]]] = {}
    for name in SIZES:
        counts = own.count_parameters(config(name))
        parameters[name] = {part: int(n) for part, n in counts.items() if part != "total"}
        cache[name] = [
            [tokens, own.kv_cache_bytes(config(name), tokens, 1, "bfloat16") / 2**30]
            for tokens in TOKENS
        ]
    return [
        {
            "name": "kv_cache",
            "title": {
                "en": "KV cache of one sequence in bfloat16, GiB (my kv_cache_bytes)",
                "zh": "一条序列的 KV 缓存，bfloat16，单位 GiB（由我的 kv_cache_bytes 计算）",
            },
            "kind": "lines",
            "axis": {"en": "tokens", "zh": "token 数"},
            "data": cache,
        },
        {
            "name": "parameters",
            "title": {
                "en": "Where the parameters of Qwen3 are (my count_parameters)",
                "zh": "Qwen3 的参数分布（由我的 count_parameters 计算）",
            },
            "kind": "stacks",
            "data": parameters,
        },
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv))
