"""Proof that the float64 reference is Qwen3, under several releases of transformers.

``python -m tools.compat`` makes one small environment per release in
``.compat/`` at the top of the repository, beside the torch and numpy of the interpreter that
runs, and proves there (``--prove``) that reference and transformers agree. Exit status 1 if any
release disagrees or cannot be installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from autograder.reference.compare import LIMITS, difference
from labs.given.config import Qwen3Config
from solutions.reference import oracle, oracle_moe

# Proof that the sparse MoE of the float64 reference is Qwen3's, for :mod:`compat`.


@dataclass(frozen=True)
class Block:
    """Sizes of a block, and whether the weights of a token are made to sum to one."""

    norm: bool
    experts: int = 7
    top_k: int = 3
    hidden: int = 20
    inner: int = 12
    batch: int = 3
    seq: int = 5


BLOCKS = {
    "MoE": Block(norm=False),
    "MoE, norm_topk_prob": Block(norm=True),
    "MoE, one expert per token": Block(norm=False, top_k=1),
    "MoE, all experts": Block(norm=True, top_k=7),
    "MoE, most experts unused": Block(norm=True, experts=64, top_k=2),
}


def draw(block: Block) -> tuple[dict[str, Tensor], Tensor]:
    """Weights under the names of transformers 5, and tokens ``[B, T, hidden]``."""
    random = torch.Generator().manual_seed(4)
    shapes = {
        "gate.weight": (block.experts, block.hidden),
        "experts.gate_up_proj": (block.experts, 2 * block.inner, block.hidden),
        "experts.down_proj": (block.experts, block.hidden, block.inner),
    }
    weights = {
        name: torch.randn(shape, generator=random) * shape[-1] ** -0.5
        for name, shape in shapes.items()
    }
    return weights, torch.randn(block.batch, block.seq, block.hidden, generator=random)


def compare_moe(block: Block) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The things compared, and each result by transformers and by the reference."""
    from solutions.reference import hf

    weights, x = draw(block)
    ours, logits = oracle_moe.sparse_moe(weights, x, block.top_k, norm=block.norm)
    theirs, their_logits = hf.hf_sparse_moe(weights, x, block.top_k, norm=block.norm)
    yield "block", theirs, ours
    if their_logits is not None:
        yield "router logits", their_logits, logits
    random = torch.Generator().manual_seed(5)
    layers = [torch.randn(logits.shape, generator=random) for _ in range(3)]
    mask = torch.ones(block.batch, block.seq)
    mask[0, :2] = 0
    for name, given in (("loss", None), ("loss with padding", mask)):
        their_loss = hf.hf_load_balancing_loss(layers, block.top_k, given)
        yield name, their_loss, oracle_moe.load_balancing_loss(layers, block.top_k, given)


ROOT = Path(__file__).resolve().parents[1]
LIMIT = LIMITS["float32"]
BLOCK = torch.finfo(torch.float32).min

# What pip is asked for; one without a whole version is looked up anew in every run.
RELEASES = ("transformers==4.51.3", "transformers==4.57.*", "transformers==5.0.0", "transformers")


@dataclass(frozen=True)
class Case:
    """One input to compare on: ``first`` is the position of token 0, ``padded`` tokens of row 0
    are left padding, ``per_row`` gives positions as ``[B, T]``."""

    config: Qwen3Config
    batch: int = 3
    seq: int = 11
    first: int = 0
    padded: int = 0
    per_row: bool = False


@dataclass(frozen=True)
class Agreement:
    """How far transformers is from the reference on one result.

    ``token`` is 0 where rows are no tokens, as in the gradient of a weight.
    """

    what: str
    tensor: float
    token: float

    @property
    def holds(self) -> bool:
        """Whether both errors are within their limits; NaN is not."""
        return self.tensor <= LIMIT.tensor and self.token <= LIMIT.token


# Sizes all differ, and heads * head_dim is not hidden: what is confused becomes visible.
BASE = Qwen3Config(
    vocab_size=53,
    hidden_size=40,
    intermediate_size=72,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
)
CASES = {
    "base": Case(BASE),
    "one kv head": Case(replace(BASE, num_key_value_heads=1)),
    "as many kv heads as heads": Case(replace(BASE, num_key_value_heads=6)),
    "square": Case(replace(BASE, hidden_size=64, num_attention_heads=4)),
    "head_dim 128": Case(replace(BASE, head_dim=128)),
    "theta 1e4": Case(replace(BASE, rope_theta=1e4), first=300),
    "theta 5e6": Case(replace(BASE, rope_theta=5e6), first=300),
    "eps 3e-4": Case(replace(BASE, rms_norm_eps=3e-4)),
    "untied head": Case(replace(BASE, tie_word_embeddings=False)),
    "one token": Case(BASE, seq=1, first=7),
    "400 tokens": Case(BASE, batch=2, seq=400),
    "from position 300": Case(BASE, first=300),
    "positions per row": Case(BASE, first=300, per_row=True),
    "left padding": Case(BASE, padded=4, per_row=True),
}


def draw_weights(config: Qwen3Config, seed: int = 0) -> dict[str, Tensor]:
    """Draw a whole float32 checkpoint under Hugging Face names.

    Matrices are N(0, 1/fan_in); norm weights are spread over 0.25 to 1.75, because equal ones
    would hide a norm that is swapped, shared or misplaced.
    """
    from solutions.reference import hf  # imports transformers, which the parent never needs

    random = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(shape, generator=random) * 1.5 + 0.25
        if len(shape) == 1
        else torch.randn(shape, generator=random) * shape[1] ** -0.5
        for name, shape in hf.hf_parameter_shapes(config).items()
    }


def draw_inputs(case: Case, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Draw ``(hidden [B, T, hidden], additive mask [B, 1, T, T], positions)`` of a case."""
    random = torch.Generator().manual_seed(seed)
    hidden = torch.randn(case.batch, case.seq, case.config.hidden_size, generator=random)
    blocked = torch.ones(case.seq, case.seq, dtype=torch.bool).triu(1).repeat(case.batch, 1, 1, 1)
    blocked[0, :, :, : case.padded] = True
    # A padded token still sees itself: a row with nothing to see has no right answer.
    blocked.diagonal(dim1=-2, dim2=-1).fill_(False)
    mask = torch.zeros(blocked.shape).masked_fill(blocked, BLOCK)
    positions = torch.arange(case.first, case.first + case.seq)
    if case.per_row:  # every row starts elsewhere; padding stands at position 0
        starts = 5 * torch.arange(case.batch)[:, None] - torch.eye(case.batch, 1) * case.padded
        positions = (positions + starts.long()).clamp(min=0)
    return hidden, mask, positions


def errors(actual: Tensor, expected: Tensor) -> tuple[float, float]:
    """Relative Frobenius error over the whole tensor, and over the worst row of its last axis."""
    found = difference(actual.detach().double().numpy(), expected.detach().double().numpy())
    return found.tensor, found.token


def compare(case: Case) -> Iterator[Agreement]:
    """Compute everything about one case with transformers and with the reference."""
    from solutions.reference import hf

    config, (hidden, mask, positions) = case.config, draw_inputs(case)
    weights = draw_weights(config)
    attention = _part(weights, "model.layers.0.self_attn.")
    mlp = _part(weights, "model.layers.0.mlp.")
    norm = _part(weights, "model.layers.0.input_layernorm.")
    scale, eps = norm["weight"], config.rms_norm_eps
    leaves = {"input": hidden.requires_grad_()}

    tables = oracle.rope_tables(positions, config.head_dim, config.rope_theta)
    ours = torch.cat(tables, dim=-1)
    theirs = torch.cat(hf.hf_rope_tables(config, positions), dim=-1)
    yield Agreement("rope tables", *errors(theirs.reshape(ours.shape), ours))

    actual, expected = hf.hf_rms_norm(hidden, scale, eps), oracle.rms_norm(hidden, scale, eps)
    yield from _with_gradients("rms_norm", actual, expected, leaves | norm)

    actual, expected = hf.hf_mlp(config, mlp, hidden), oracle.mlp(mlp, hidden)
    yield from _with_gradients("mlp", actual, expected, leaves | mlp)

    actual = hf.hf_attention(config, attention, hidden, mask, positions)
    given = mask if case.padded else None  # None must mean the causal mask that theirs is given
    expected = oracle.attention(config, attention, hidden, given, positions)
    yield from _with_gradients("attention", actual, expected, leaves | attention)

    random = torch.Generator().manual_seed(3)
    tokens = torch.randint(config.vocab_size, (case.batch, case.seq), generator=random)
    logits = hf.hf_logits(config, weights, tokens)
    yield Agreement("logits", *errors(logits, oracle.model_logits(config, weights, tokens)))

    same = hf.hf_parameter_counts(config) == oracle.count_parameters(config)
    yield Agreement("parameter counts", 0.0 if same else float("inf"), 0.0)


def prove() -> int:
    """Compare every case under the transformers at hand; print one line; 0 if all agree."""
    from solutions.reference import hf

    found = [(name, a) for name, case in CASES.items() for a in compare(case)]
    for name, block in BLOCKS.items():
        for what, theirs, ours in compare_moe(block):
            found.append((name, Agreement(what, *errors(theirs, ours))))
    wrong = [(name, a) for name, a in found if not a.holds]
    tensor, token = max(a.tensor for _, a in found), max(a.token for _, a in found)
    print(
        f"transformers {hf.VERSION}  worst error {tensor:.1e} "
        f"(limit {LIMIT.tensor:.0e})  worst token {token:.1e} (limit {LIMIT.token:.0e})  "
        f"{'FAILED' if wrong else 'ok'}"
    )
    for name, a in wrong:
        print(f"  {name}: {a.what} differs by {a.tensor:.1e}, worst token {a.token:.1e}")
    return 1 if wrong else 0


def prepare(requirement: str) -> Path:
    """Make, or find made, the environment of a requirement; return its Python.

    Raises:
        RuntimeError: it cannot be made; the text says why.
    """
    folder = ROOT / ".compat" / re.sub(r"\W+", "-", requirement).strip("-")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    shared = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    kept = [f"{name}=={version(name)}" for name in ("torch", "numpy", "safetensors")]
    stamp, ready = "\n".join([sys.version, *shared, *kept]), folder / "ready.txt"

    cached = ready.is_file() and ready.read_text(encoding="utf-8") == stamp
    if cached and re.search(r"==[\d.]+$", requirement):
        return python
    if not cached:
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        own = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
        # Lines of a .pth file are searched after the environment's own packages.
        (Path(own) / "shared.pth").write_text("\n".join(shared), encoding="utf-8")
        (folder.parent / ".gitignore").write_text("*\n", encoding="utf-8")  # a cache, like pytest's
        (folder / "constraints.txt").write_text("\n".join(kept), encoding="utf-8")
    constraints = str(folder / "constraints.txt")  # no second torch is ever downloaded
    install = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", "-U"]
    _run([*install, "-c", constraints, requirement])
    ready.write_text(stamp, encoding="utf-8")
    return python


def check(requirement: str) -> bool:
    """Prove one release in its own environment and print the line about it."""
    try:
        python = prepare(requirement)
    except RuntimeError as error:
        print(f"{requirement}  FAILED: cannot be installed: {error}", flush=True)
        return False
    command = [str(python), "-m", "tools.compat", "--prove"]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}  # nothing here may need a download
    done = subprocess.run(
        command, cwd=ROOT, env=offline, capture_output=True, text=True, check=False
    )
    if not done.stdout.startswith("transformers "):
        print(f"{requirement}  FAILED: {_last_line(done.stderr)}", flush=True)
        return False
    print(done.stdout, end="", flush=True)
    wanted = requirement.partition("==")[2].rstrip("*")
    if not done.stdout.startswith(f"transformers {wanted}"):
        print(f"{requirement}  FAILED: another release was installed", flush=True)
        return False
    return done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Prove all releases, or with ``--prove`` the one at hand; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.compat")
    parser.add_argument("--prove", action="store_true", help="only the transformers at hand")
    if parser.parse_args(arguments).prove:
        return prove()
    held = [check(requirement) for requirement in RELEASES]  # a list: one failure stops no other
    return 0 if all(held) else 1


def _with_gradients(
    what: str, actual: Tensor, expected: Tensor, leaves: dict[str, Tensor]
) -> Iterator[Agreement]:
    """Compare a result, then the gradient of a fixed projection of it by every leaf."""
    yield Agreement(what, *errors(actual, expected))
    pull = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    theirs = torch.autograd.grad(actual, list(leaves.values()), pull)
    ours = torch.autograd.grad(expected, list(leaves.values()), pull.double())
    for name, a, e in zip(leaves, theirs, ours, strict=True):
        yield Agreement(f"gradient of {what} by {name}", errors(a, e)[0], 0.0)


def _part(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The weights below a prefix, without it, ready to be differentiated by."""
    found = {n.removeprefix(prefix): w for n, w in weights.items() if n.startswith(prefix)}
    return {name: weight.requires_grad_() for name, weight in found.items()}


def _run(command: list[str]) -> None:
    """Run a command quietly; RuntimeError with its last line of output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(_last_line(done.stdout + done.stderr))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


if __name__ == "__main__":
    sys.exit(main())
