"""Lab 3's own promises: what is counted is counted fairly, or a human is asked."""

from __future__ import annotations

import pytest

from autograder.authoring.styles import texts_of
from autograder.course.records import CheckResult, Outcome
from autograder.course.score import points_of
from tests.proof.subject import SUBJECTS

SUBJECT = SUBJECTS["lab3"]
NUMPY = """class Hidden(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.detach().float().numpy() @ self.weight.detach().float().numpy().T
        return torch.from_numpy(rows).to(x.dtype)


class KVCache:"""


@pytest.fixture(scope="module")
def graded() -> dict[str, dict[str, CheckResult]]:
    """Results by hand-in and check; the points of each hand-in under ``points``."""
    text = SUBJECT.sources["attention.py"]
    unseen = text.replace("class KVCache:", NUMPY)
    for name in ("wq", "wk", "wv"):
        unseen = unseen.replace(f"self.{name} = nn.Linear", f"self.{name} = Hidden")
    assert unseen.count("Hidden(") == 4
    no_cache = text[: text.index("class KVCache:")] + (
        "class KVCache:\n    def __init__(self, *args: object) -> None:\n"
        '        raise NotImplementedError("TODO lab3.kv_cache: to be written")\n\n\n'
    )
    no_cache += text[text.index("class GroupedQueryAttention") :]
    sdpa = next(style for style in SUBJECT.styles if style.name == "sdpa")
    hand_ins = {
        "unseen": SUBJECT.sources | {"attention.py": unseen},
        "no_cache": SUBJECT.sources | {"attention.py": no_cache},
        "sdpa": texts_of(sdpa, SUBJECT.lab.files),
    }
    records = SUBJECT.grade(hand_ins)
    assert [mark.key for mark in records["sdpa"].marks] == ["check.forbidden"]
    assert points_of(SUBJECT.lab, records["sdpa"].results).earned == 100
    return {name: {r.check: r for r in record.results} for name, record in records.items()}


def test_rows_that_nobody_can_count_are_no_zero(
    graded: dict[str, dict[str, CheckResult]],
) -> None:
    results = graded["unseen"]
    assert results["test_decoding_rows"].outcome is Outcome.NOT_GRADED
    message = results["test_decoding_rows"].message
    assert message is not None and message.key == "check.not_counted"
    others = {r.outcome for name, r in results.items() if name != "test_decoding_rows"}
    assert others == {Outcome.PASSED}
    score = points_of(SUBJECT.lab, tuple(results.values()))
    assert (score.earned, score.undecided) == (98, 2)


def test_attention_is_judged_without_a_cache(graded: dict[str, dict[str, CheckResult]]) -> None:
    """Who has not written the cache yet earns all of attention that needs none."""
    results = graded["no_cache"]
    for name, result in results.items():
        if name.startswith("test_cache_"):
            assert result.outcome is Outcome.NOT_STARTED, name
        elif name.startswith("test_decoding_"):
            assert result.outcome is not Outcome.PASSED, name
        else:
            assert result.outcome is Outcome.PASSED, name
    # What is skipped says which TODO it waits for, and no misconception is looked for in it.
    assert results["test_decoding_runs"].outcome in (Outcome.SKIPPED, Outcome.NOT_STARTED)
