"""Numbers of the handouts, computed anew. (The Chinese pages hold the same ones: the audit.)"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from autograder.authoring.pages import sections
from autograder.course import labfile
from autograder.reference import cases
from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm
from tests.diagnosis.lab2_probes import execute

Vector = torch.Tensor


def solution(lab: str, file: str) -> Any:
    folder = labfile.SOLUTIONS / labfile.find_lab(lab).name
    return execute((folder / file).read_text(encoding="utf-8"), file)


def says(lab: str, title: str, *texts: str) -> None:
    """The section of a handout holds all of these."""
    page: Path = labfile.find_lab(lab) / "README.md"
    body = next(s.body for s in sections(page.read_text(encoding="utf-8")) if s.title == title)
    body = " ".join(body.replace("{,}", ",").split())
    assert [text for text in texts if text not in body] == [], f"lab {lab}, {title}"


def row(values: Vector | list[float], *, digits: int = 4, between: str = " | ") -> str:
    """Numbers as a row of a table: with a true minus sign, whole zeros as 0."""
    return between.join(
        "0" if value == 0 else f"{value:.{digits}f}".replace("-", "−")
        for value in torch.as_tensor(values).tolist()
    )


def vector(*values: float) -> Vector:
    return torch.tensor(values, dtype=torch.float64)


def commas(values: Vector) -> str:
    return row(values, between=", ")


def test_softmax_and_attention_of_lab_1() -> None:
    soft = {base: vector(*base).softmax(-1) for base in ((1, 2, 3), (1000, 1000.1, 1000.2))}
    says("1", "From logits to weights", *(f"$[{commas(weights)}]$" for weights in soft.values()))
    q, k = vector(1, 2, 0, 1), torch.tensor([[2, 0, 1, 0], [0, 1, 0, 2], [1, 1, 1, -3.0]]).double()
    v = torch.tensor([[1, 0], [0, 1], [4, 4.0]]).double()
    raw = k @ q
    assert raw.tolist() == [2, 4, 0]
    right, two = (raw / 2).softmax(-1), (raw / 2)[:2].softmax(-1)
    unscaled = raw.softmax(-1)
    says(
        "1",
        "Why the root of d",
        f"{commas(right)} | {commas(right @ v)} |",
        f"{commas(two)}, 0 | {commas(two @ v[:2])} |",
        f"{commas(right[:2])}, 0 | {commas(right[:2] @ v[:2])} (too small)",
        f"{commas(unscaled)} | {commas(unscaled @ v)} |",
    )


def test_activations_and_norms_of_lab_1() -> None:
    x = vector(-2, -1, 0, 1, 2)
    silu = F.silu(x)
    says(
        "1",
        "SiLU and its neighbours",
        row(silu),
        row(F.gelu(x)),
        row(x.sigmoid()).replace("0.5000", "0.5"),
    )
    x = vector(1, 2, 3, 6)
    centred, mean = x - x.mean(), (x * x).mean()
    assert (x.mean(), centred.square().mean(), mean) == (3, 3.5, 12.5)
    says(
        "1",
        "LayerNorm, number by number",
        commas(centred / 3.5**0.5),
        commas(centred / x.std()),
        commas(centred / 3.5),
        commas(x / 3.5**0.5),
    )
    parts = (x / mean.sqrt(), x / x.norm(), centred / 3.5**0.5, x / mean)
    says("1", "RMSNorm, number by number", *(commas(part) for part in parts))
    half = torch.tensor([300.0, 1, 2, -4], dtype=torch.float16)
    assert not (half * torch.rsqrt((half * half).mean())).any()
    assert torch.finfo(torch.float16).max == 65504
    assert math.isinf(torch.tensor(89.0).exp()) and not math.isinf(torch.tensor(88.0).exp())


def test_the_gated_unit_of_labs_1_and_2() -> None:
    gate, up = vector(1, -2), vector(3, 0.5)
    kinds = {
        "silu(gate) ⊙ up": F.silu(gate) * up,
        "gate ⊙ silu(up)": gate * F.silu(up),
        "silu(gate ⊙ up)": F.silu(gate * up),
        "sigmoid(gate) ⊙ up": gate.sigmoid() * up,
        "gelu(gate) ⊙ up": F.gelu(gate) * up,
    }
    shown = {name: f"{name} | `[{y[0]:.4f}, {y[1]:.4f}]`" for name, y in kinds.items()}
    title = "The gated unit, number by number"
    says("1", title, *(text for name, text in shown.items() if "gelu" not in name), "302 MFLOPs")
    says("2", title, *(text for name, text in shown.items() if "sigmoid" not in name))
    assert round(2 * 3 * 4096 * 12288 / 1e6) == 302
    says("1", title, f"{3 * 4096 * 12288:,}")


def test_rotation_of_lab_2_and_lab_3() -> None:
    speeds = 1e6 ** -(torch.arange(4).double() / 4)
    angles = 3 * speeds
    body = (row(angles.cos(), digits=6), row(angles.sin(), digits=6), "0.0000316228", "0.0948683")
    slowest = 2 * math.pi * 1e6 ** (126 / 128)
    assert (round(slowest / 1e6, 2), round(2 * math.pi * 1e4 ** (126 / 128))) == (5.06, 54410)
    says("2", "TODO `lab2.rotary_embedding` (10 points)", *body, "5.06 million", "54,410")
    assert f"{speeds[3]:.10f}" == "0.0000316228" and f"{angles[1]:.7f}" == "0.0948683"

    def halves(x: Vector, position: float) -> Vector:
        turn = position * vector(1, 1e-3)
        a, b = x[:2], x[2:]
        return torch.cat((a * turn.cos() - b * turn.sin(), a * turn.sin() + b * turn.cos()))

    order = [0, 2, 1, 3]  # neighbours are halves of the reordered features
    q, k = vector(1, 2, 3, 4), vector(2, 0, 1, 1)
    turned, neighbours = halves(q, 2), halves(q[order], 2)[order]
    scores = [halves(q, m) @ halves(k, n) for m, n in ((5, 3), (9, 7), (1002, 1000), (3, 5))]
    assert [f"{score:.4f}" for score in scores] == ["-2.6232"] * 3 + ["6.4617"]
    says(
        "2",
        "TODO `lab2.apply_rotary` (8 points)",
        row(turned),
        row(neighbours),
        "−2.6232",
        "6.4617",
    )
    says("3", "TODO `lab3.apply_rotary` (7 points)", row(turned), row(neighbours))
    two = torch.polar(torch.ones(2).double(), 2 * vector(1, 1e-3))
    first = f"${two[0].real:.4f} + {two[0].imag:.4f}i$"
    says("3", "TODO `lab3.freqs_cis` (8 points)", first, f"{two[1].real:.6f} + 0.002i")

    norm = RMSNorm(4, 0.0)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1, 0.5, 2, 3]))
        before, after = halves(norm(q).double(), 2), norm(halves(q, 2))
    says("2", "QK-norm: length and order", row(before), row(after))
    unit = commas(q / q.square().mean().sqrt())
    says("2", "RMSNorm in queries and keys", f"$[{unit}]$")
    weights = (vector(2, 0, 4) / 2).softmax(-1), (vector(2, 0) / 2).softmax(-1)
    says("2", "Scores, scale and softmax", *(f"$[{commas(one)}]$" for one in weights))


SIZES = {
    "0.6B": (28, 1024, 16, 3072, True),
    "1.7B": (28, 2048, 16, 6144, True),
    "4B": (36, 2560, 32, 9728, True),
    "8B": (36, 4096, 32, 12288, False),
    "14B": (40, 5120, 40, 17408, False),
    "32B": (64, 5120, 64, 25600, False),
}


def config(layers: int, hidden: int, heads: int, width: int, tied: bool) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=151936, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=8, head_dim=128,
        intermediate_size=width, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=tied,
    )  # fmt: skip


def test_what_models_cost_in_lab_2() -> None:
    mlp = solution("2", "mlp.py")
    title = "TODO `lab2.count_parameters` (6 points)"
    for name, (layers, hidden, heads, width, tied) in SIZES.items():
        model = config(layers, hidden, heads, width, tied)
        total = mlp.count_parameters(model)["total"]
        cache = mlp.kv_cache_bytes(model, 1, 1, "bfloat16")
        says(
            "2",
            title,
            f"| {name} | {layers} | {hidden:,} | {heads} / 8 | {width:,} | "
            f"{'yes' if tied else 'no'} | {total:,} | {2 * total:,} | {cache:,} |",
        )
    counts = mlp.count_parameters(config(*SIZES["8B"]))
    total = counts["total"]
    for key, count in counts.items():
        share = f" | {count / total:.1%}".replace("%", " %") if key in ("attention", "mlp") else ""
        says("2", title, f"{count:,}{share}")
    weights, cache = 2 * total, 147456
    says("2", "TODO `lab2.weight_bytes` (3 points)", f"{weights / 1e9:.2f} GB")
    says("2", "TODO `lab2.weight_bytes` (3 points)", f"{weights / 2**30:.2f} GiB")
    assert cache * 32768 / 2**30 == 4.5 and cache / 1024 == 144 and weights < 4 * 4.5 * 2**30


def test_sizes_and_orders_of_lab_3() -> None:
    mlp, attention = solution("3", "mlp.py"), solution("3", "attention.py")
    rows = (
        ("Llama-2-7B", 4096, 256, None),
        ("Llama-2-13B", 5120, 256, None),
        ("Llama-2-70B", 8192, 4096, 1.3),
        ("Llama-3-8B", 4096, 1024, 1.3),
    )
    for name, dim, multiple, factor in rows:
        width = mlp.feed_forward_size(dim, multiple, factor)
        third = 8 * dim // 3
        second = "" if factor is None else f"{int(third * factor):,} "
        given = f"| {name} | {dim:,} | {multiple:,} | {factor or '–'} |"
        made = f"{given} {third:,} | {second}| {width:,} |"
        says("3", "TODO `lab3.feed_forward_size` (4 points)", made, f"{int(1.3 * 6 * 4096):,}")
    for count, heads in ((6, 1), (8, 2)):
        order = attention.permute_for_complex(torch.arange(count), heads, count // heads)
        told = " ".join(str(number) for number in order.tolist())
        says("3", "TODO `lab3.permute` (6 points)", f"`{told}`")
    says("3", "TODO `lab3.kv_cache` (18 points)", f"{2 * 36 * 8 * 128 * 2:,}")
    small, large = config(28, 1024, 16, 3072, True), config(36, 4096, 32, 12288, False)
    todo = "TODO `lab3.flops` (4 points)"
    for new, past, digits in ((1, 0, 2), (1, 4095, 0), (1, 32767, 0), (4096, 0, 0)):
        cost = mlp.layer_flops(small, new, past)
        told = " | ".join(f"{cost[name]:,}" for name in ("projections", "attention", "mlp"))
        share = 100 * cost["attention"] / cost["total"]
        says("3", todo, f"| {new:,} | {past:,} | {told} | {share:.{digits}f} % |")
    for model, keys in ((small, 3840), (large, 23552)):
        cost = mlp.layer_flops(model, 1, keys - 1)
        assert cost["attention"] == cost["projections"] + cost["mlp"]
        says("3", todo, f"{keys:,}")
    whole = mlp.prefill_flops(small, 4096)
    assert f"{whole / 1e12:.2f}" == "7.46"
    says("3", todo, "7.46 · 10¹²")
    x = F.silu(vector(-2, -1, 0, 1, 2))
    says("3", "Which projection is the gate?", commas(x).replace("−", "-"))


def test_sampling_of_lab_4() -> None:
    p = vector(0.35, 0.25, 0.20, 0.12, 0.08)
    kept = (p[:3] / p[:3].sum()).tolist()
    says("4", "Choose one token", f"that is {kept[0]:.4f} {kept[1]:.4f} {kept[2]:.2f}")
    says("4", "Choose one token", f"two are {p[:2].sum():.2f}, three are {p[:3].sum():.2f}")
    assert kept[0] + kept[1] == 0.75
    tied, untied = 596_049_920, 596_049_920 + 151936 * 1024
    assert 0.25 < untied / tied - 1 < 0.27  # “a quarter more parameters”
    lab = labfile.load(labfile.find_lab("4"))
    own = ("lab4.attention", "lab4.mlp", "lab4.past")
    mine = sum(check.points for check in lab.checks if check.exercise in own)
    page = (lab.folder / "README.md").read_text(encoding="utf-8")
    assert f"{100 - mine} of 100 points do not depend" in page


def test_lab_6_says_on_what_sizes_costs_are_counted() -> None:
    lab = labfile.find_lab("6")
    public = {case.recipe: case for case in cases.load(lab / "cases.safetensors")}
    sizes = {
        name: [public[name][part].shape[2] for part in "qk"]
        for name in ("flash_growth", "flash_skips", "flash_cap")
    }
    (rows, columns), (short, keys) = sizes["flash_skips"], sizes["flash_growth"]
    queries, most = (n * times for n, times in zip(sizes["flash_cap"], (8, 32), strict=True))
    for page in ("README.md", "README.zh-CN.md"):
        text = (lab / page).read_text(encoding="utf-8")
        assert f"{rows} × {columns}" in text and f"{short} × {keys}" in text
        assert f"{4 * short} × {4 * keys:,}" in text and f"{queries:,} × {most:,}" in text
