"""Known mistakes in forms that no patch has: experiments show them, and nothing that is not there.

A form is a change of the solution. It has to lose points, and whatever is named in it has to be
what it is listed under.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from autograder.course.records import Certainty, HandIn
from tests.proof.subject import SUBJECTS, Subject

Form = tuple[str, str, str]  # file, before, after
LAB2 = SUBJECTS["lab2"]
ATTENTION, MLP = "attention.py", "mlp.py"
HEAD_DIM = "hidden, head_dim = config.hidden_size, config.head_dim"
ADDED = "scores = scores + attention_mask\n"
NONE = (
    "        if position_ids is None:\n"
    "            position_ids = torch.arange(seq, device=hidden_states.device)\n"
)
ANGLES = "angles = position_ids[..., None].float() * inv_freq"
BRANCH = "if attention_mask is None:"
RETURNED = "return self.o_proj(mixed)"
WIDTH = "hidden, intermediate = config.hidden_size, config.intermediate_size"
GATED = "return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))"
EPS = "RMSNorm(head_dim, config.rms_norm_eps)"


def forms(file: str, old: str, *news: str) -> Iterator[Form]:
    return ((file, old, new) for new in news)


# By the ids under which a form may be named.
FORMS: dict[tuple[str, ...], Iterator[Form]] = {
    ("head_dim_from_hidden",): chain(
        forms(
            ATTENTION,
            HEAD_DIM,
            "hidden = config.hidden_size\n        head_dim = hidden // config.num_attention_heads",
            "hidden, head_dim = config.hidden_size, config.head_dim\n"
            "        if hidden % config.num_attention_heads != 0:\n"
            "            raise ValueError('hidden_size must be divisible by the heads')",
            "hidden, head_dim = config.hidden_size, config.head_dim\n"
            "        assert head_dim * config.num_attention_heads == hidden",
            "hidden, heads = config.hidden_size, config.num_attention_heads\n"
            "        head_dim = int(hidden / heads)\n"
            "        if head_dim * heads != hidden:\n"
            "            raise ValueError(f'{hidden} / {heads}')",
        ),
    ),
    # 44 // 6 is 7, and makes tables of 8: half of 16, which is another mistake's.
    ("head_dim_from_hidden", "tables_half_as_wide"): forms(
        ATTENTION,
        "torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim",
        "torch.arange(0, config.hidden_size // config.num_attention_heads, 2).float() / 16",
        "torch.arange(0, int(config.hidden_size / config.num_attention_heads), 2) / 7.0",
    ),
    ("positions_one_dimensional_only", "batched_tables_not_broadcast"): chain(
        forms(
            ATTENTION,
            ANGLES,
            "angles = torch.outer(position_ids.float(), inv_freq)",
            "angles = torch.einsum('t,f->tf', position_ids.float(), inv_freq)",
            "angles = position_ids.view(-1, 1).float() * inv_freq",
        ),
        forms(
            ATTENTION,
            NONE,
            NONE + "        assert position_ids.dim() == 1\n",
            NONE + "        position_ids = position_ids.reshape(seq)\n",
            NONE + "        (seq,) = position_ids.shape\n",
        ),
    ),
    ("positions_required",): forms(
        ATTENTION,
        NONE,
        "",
        "        assert position_ids is not None\n",
        "        if position_ids is None:\n            raise ValueError('positions?')\n",
        "        position_ids = position_ids.long()\n",
    ),
    ("position_ids_ignored",): chain(
        forms(
            ATTENTION,
            NONE,
            "        position_ids = torch.arange(seq)\n",
            "        position_ids = torch.arange(seq).expand(batch, seq)\n",
            "        position_ids = torch.linspace(0, seq - 1, seq)\n",
        ),
        forms(
            ATTENTION,
            "cos, sin = self.rotary(position_ids)",
            "cos, sin = self.rotary(torch.arange(hidden_states.shape[1]))",
        ),
    ),
    ("mask_required",): chain(
        forms(
            ATTENTION,
            BRANCH,
            "attention_mask = attention_mask.to(scores.dtype)\n        if attention_mask is None:",
            "attention_mask = attention_mask[..., :seq]\n        if attention_mask is None:",
            "assert attention_mask is not None\n        if attention_mask is None:",
            "if False:",
        ),
    ),
    ("no_causal_mask",): forms(
        ATTENTION,
        "device=q.device).triu(1)",
        "device=q.device).triu(seq)",
        "device=q.device) & False",
        "device=q.device).tril(-1).triu(1)",
        "device=q.device).eq(0)",
    ),
    ("given_mask_taken_as_boolean", "given_mask_inverted", "keep_mask_added"): forms(
        ATTENTION,
        ADDED,
        "scores = scores.masked_fill(attention_mask, torch.finfo(scores.dtype).min)\n",
        "scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)\n",
        "scores = torch.where(attention_mask, scores, torch.finfo(scores.dtype).min)\n",
        "scores = scores.masked_fill(attention_mask == 0, torch.finfo(scores.dtype).min)\n",
        "scores = scores.masked_fill(attention_mask.logical_not(), -1e30)\n",
        "assert attention_mask.dtype == torch.bool\n"
        "            scores = scores.masked_fill(attention_mask, -1e30)\n",
    ),
    ("given_mask_ignored",): chain(
        forms(
            ATTENTION, BRANCH, "if True:", "attention_mask = None\n        if not attention_mask:"
        ),
        forms(
            ATTENTION,
            ADDED,
            "scores = scores + torch.triu(torch.full_like(scores, -1e30), 1)\n",
            "scores = scores.masked_fill(torch.ones(seq, seq).triu(1) > 0, -1e30)\n",
        ),
    ),
    ("eps_fixed", "eps_hard_coded", "eps_left_at_default", "eps_of_torch", "eps_missing"): chain(
        forms(
            ATTENTION,
            EPS,
            "RMSNorm(head_dim, 1e-8)",
            "RMSNorm(head_dim, 1e-9)",
            "RMSNorm(head_dim, eps=1e-12)",
            "RMSNorm(head_dim, 2e-6)",
            "RMSNorm(head_dim)",
        ),
    ),
    ("theta_fixed", "theta_hard_coded"): forms(
        ATTENTION,
        "config.rope_theta**exponents",
        "500000.0**exponents",
        "5e6**exponents",
        "100_000**exponents",
        "1_000_000**exponents",
    ),
    ("tuple_returned",): chain(
        forms(
            ATTENTION,
            RETURNED,
            "return self.o_proj(mixed), weights",
            "return (self.o_proj(mixed),)",
            "return [self.o_proj(mixed), None]",
            "return self.o_proj(mixed), (k, v)",
        ),
        forms(MLP, GATED, GATED.replace("return ", "return x, ").replace("x, ", "", 1) + ", x"),
    ),
    ("nothing_returned",): chain(
        forms(ATTENTION, RETURNED, "self.o_proj(mixed)", "mixed = self.o_proj(mixed)", "return"),
        forms(MLP, GATED, GATED.replace("return ", "y = ")),
    ),
    ("intermediate_size_fixed", "intermediate_size_guessed"): forms(
        MLP,
        WIDTH,
        "hidden, intermediate = config.hidden_size, 3 * config.hidden_size",
        "hidden, intermediate = config.hidden_size, config.hidden_size * 8 // 3",
        "hidden = config.hidden_size\n"
        "        intermediate = (config.intermediate_size + 63) // 64 * 64",
        "hidden = config.hidden_size\n        intermediate = 256 * -(-(8 * hidden // 3) // 256)",
    ),
    ("three_axes_only",): forms(
        MLP,
        GATED,
        "batch, seq, hidden = x.shape\n        " + GATED,
        "x = x.permute(0, 1, 2)\n        " + GATED,
        "assert x.dim() == 3\n        " + GATED,
        "gate = torch.einsum('bth,ih->bti', x, self.gate_proj.weight)\n"
        "        return self.down_proj(F.silu(gate) * self.up_proj(x))",
    ),
}
LISTED = [(names, form) for names, found in FORMS.items() for form in found]
SURE = (Certainty.NAMED, Certainty.SHOWN)


def hand_in(subject: Subject, form: Form) -> dict[str, str]:
    file, old, new = form
    text = subject.sources[file]
    assert old in text, old
    return {**subject.sources, file: text.replace(old, new)}


def sure(record: HandIn) -> set[str]:
    """What is named for certain."""
    found = (finding for finding in record.findings if finding.certainty in SURE)
    return {one.id for finding in found for one in finding.misconceptions}


@pytest.fixture(scope="module")
def graded() -> dict[str, HandIn]:
    made = {str(number): hand_in(LAB2, form) for number, (_, form) in enumerate(LISTED)}
    return LAB2.named(made)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(LISTED)), ids=lambda n: f"{LISTED[n][0][0]}-{n}")
def test_a_form_of_a_known_mistake_is_named(number: int, graded: dict[str, HandIn]) -> None:
    names, (_, _, new) = LISTED[number]
    record = graded[str(number)]
    assert LAB2.lost(record), new
    assert sure(record) <= set(names), new
    assert sure(record), new
