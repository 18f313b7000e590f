"""Written reports: numbers graded with units and tolerance, prose left to a person."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course.labfile import ROOT, SOLUTIONS
from autograder.course.quantity import CHOICES
from autograder.course.records import HandIn, Outcome, Submission
from autograder.course.score import neat, score_of
from autograder.grading import overrides, written_report
from autograder.grading.written_report import FormError, graded
from autograder.sandbox.fence import Fence
from autograder.worker.loader import StudentModules, read_sources
from labs.lab2_qwen3_block.figures import SIZES, config

FORM = written_report.load()
TEMPLATE = (ROOT / "report_template.md").read_text(encoding="utf-8")
RIGHT = {
    "layer_8b": "192,946,432",
    "qk_norm_8b": "256",
    "params_8b": "8.19 B",
    "weights_8b": "15.26 GiB",
    "other_size": "Qwen3-0.6B",
    "params_other": "596 million",
    "weights_other": "1.19 GB",
    "params_tiny": "1.394M",
    "kv_token_8b": "144 KiB",
    "kv_8k_gqa": "1.125 GiB",
    "kv_8k_mha": "4.5 GiB",
    "kv_factor": "4 倍",
}
NUMBERS = sum(c.points for c in FORM.lab.checks if c.name in FORM.answers)


def written(**changes: str) -> str:
    """The template with right numbers, but for ``changes``."""
    text = TEMPLATE
    for name, value in (RIGHT | changes).items():
        text, count = re.subn(rf"(\[\[{name} \| \w+: )_+", rf"\g<1>{value}", text)
        assert count == 1, name
    return text


def record(text: str) -> HandIn:
    return graded(FORM, Submission("ann", {FORM.file: text}))


def outcome(name: str, **changes: str) -> tuple[Outcome, str]:
    result = next(r for r in record(written(**changes)).results if r.check == name)
    return result.outcome, result.message.key if result.message else ""


def test_right_numbers_get_their_points_and_prose_waits() -> None:
    score = score_of(FORM.lab, record(written()))
    assert (score.earned, score.gradable) == (NUMBERS, NUMBERS)
    assert score.undecided == FORM.lab.points - NUMBERS > 0


def test_an_empty_template_has_nothing_and_is_not_started() -> None:
    hand_in = record(TEMPLATE)
    assert score_of(FORM.lab, hand_in).earned == 0
    open_ones = {r.outcome for r in hand_in.results if r.check in FORM.answers}
    # What goes by another field cannot be looked up while that one is empty.
    assert open_ones == {Outcome.NOT_STARTED}


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("weights_8b", "16.38 GiB", "answer.wrong"),
        ("weights_8b", "16.38", "answer.no_unit"),
        ("weights_8b", "about sixteen", "answer.no_number"),
        ("qk_norm_8b", "8192", "answer.wrong"),
        ("kv_factor", "1/4", "answer.wrong"),
        ("params_other", "1.72 B", "answer.wrong"),
        ("kv_token_8b", "36 KiB", "answer.wrong"),
        ("kv_factor", "1" + "0" * 400 + "/1", "answer.too_long"),
        ("kv_factor", "1" + "0" * 5000 + "/1", "answer.too_long"),
        ("kv_factor", "1" + "0" * 70 + "/1", "answer.wrong"),
        ("params_8b", "1e400", "answer.too_long"),
        ("weights_8b", "9" * 77 + "TB", "answer.wrong"),
    ],
)
def test_a_wrong_number_says_what_is_wrong_with_it(name: str, value: str, key: str) -> None:
    assert outcome(name, **{name: value}) == (Outcome.FAILED, key)


def test_a_field_of_bytes_says_the_unit_of_a_whole_number() -> None:
    for value in ("147456", "147,456", "147456 bytes"):
        assert outcome("kv_token_8b", kv_token_8b=value) == (Outcome.PASSED, "")
    assert outcome("kv_token_8b", kv_token_8b="147.456") == (Outcome.FAILED, "answer.no_unit")


def test_a_wrong_number_does_not_tell_the_right_one() -> None:
    """Neither as it is nor by what the written one would have to be multiplied with."""
    for written_number in ("1", "3", "100"):
        result = next(
            r for r in record(written(qk_norm_8b=written_number)).results if r.check == "qk_norm_8b"
        )
        assert result.message is not None
        assert set(result.message.values) == {"written", "percent"}
        assert result.message.values["written"] == written_number


def test_a_percent_is_allowed_and_not_two() -> None:
    assert outcome("params_8b", params_8b="8.11 B")[0] is Outcome.PASSED
    assert outcome("params_8b", params_8b="8.03 B")[0] is Outcome.FAILED


def test_the_other_size_is_the_students_choice() -> None:
    values = FORM.answers["params_other"].values
    for size, count in values.items():
        changes = {"other_size": size.lower(), "params_other": str(count)}
        assert outcome("params_other", **changes)[0] is Outcome.PASSED
    assert outcome("params_other", other_size="9B")[1] == "answer.choice"
    for name in ("params_other", "weights_other"):  # what `make report` knows
        assert tuple(FORM.answers[name].values) == CHOICES[FORM.answers[name].by]


def test_a_field_that_was_deleted_is_named() -> None:
    text = written().replace("[[layer_8b | count:", "")
    result = next(r for r in record(text).results if r.check == "layer_8b")
    assert result.message is not None and result.message.key == "answer.absent"


def test_the_answers_are_what_the_solution_counts() -> None:
    solution = SOLUTIONS / "lab2_qwen3_block"
    modules = StudentModules(*read_sources(solution, ("attention.py", "mlp.py"))).install()
    try:
        own = modules.module("mlp.py")
        answers = {name: one.values for name, one in FORM.answers.items()}
        for size in set(SIZES) & set(answers["params_other"]):
            assert answers["params_other"][size] == own.count_parameters(config(size))["total"]
            assert answers["weights_other"][size] == own.weight_bytes(config(size), "bfloat16")
        large = config("8B")
        counts = own.count_parameters(large)
        assert answers["params_8b"][""] == counts["total"]
        assert answers["weights_8b"][""] == own.weight_bytes(large, "bfloat16")
        layers = counts["attention"] + counts["mlp"] + counts["norm"] - large.hidden_size
        assert answers["layer_8b"][""] * large.num_hidden_layers == layers
        assert answers["kv_token_8b"][""] == own.kv_cache_bytes(large, 1, 1, "bfloat16")
        cache = own.kv_cache_bytes(large, 8192, 1, "bfloat16")
        assert answers["kv_8k_gqa"][""] == cache
        factor = large.num_attention_heads // large.num_key_value_heads
        assert answers["kv_8k_mha"][""] == factor * cache and answers["kv_factor"][""] == factor
        assert answers["qk_norm_8b"][""] == 2 * large.head_dim
    finally:
        modules.remove()
    tiny = own.count_parameters(
        type(large).from_json(ROOT / "labs" / "given" / "tiny_qwen3" / "config.json")
    )
    assert answers["params_tiny"][""] == tiny["total"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tolerance = 0.01", "tolerance = 2.0", "between 0 and 1"),
        ('id = "qk_norm_8b"', 'id = "layer_8b"', "layer_8b: stands twice"),
        ("value = 256", "value = -1", "qk_norm_8b: value: must be a number above 0"),
        ("value = 256", 'by = "x"', "give either value, or values"),
        ("points = 3", "points = -3", "points: must be 0 or more"),
        ('kind = "count"', 'kind = "apples"', "must be one of count, bytes, ratio"),
        ("[[section.prose]]", "[[section.poem]]", "poem: unknown key"),
        ("rubric.zh", "rubric.fr", "needs en, may have zh"),
    ],
)
def test_errors_of_the_form_name_the_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = written_report.PATH.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "report.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FormError, match=re.escape(said)):
        written_report.load(path)


# ------------------------------------------------------------------------------ the command


@pytest.fixture
def handed_in(tmp_path: Path) -> Path:
    folder = tmp_path / "class"
    for student, text in {"ann": written(), "bo": written(kv_factor="2"), "cy": ""}.items():
        (folder / student).mkdir(parents=True)
        name = FORM.file if text else "attention.py"
        (folder / student / name).write_text(text, encoding="utf-8")
    return folder


def test_a_class_is_graded_and_a_persons_points_come_in(
    handed_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["grade-report", str(handed_in), "--out", str(out), "--lang", "en"]
    assert main(command) == 1  # there is something to read
    scores = (out / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert len(scores) == 4 and "report.cache" in scores[0]
    told = (out / "bo" / "report.md").read_text(encoding="utf-8")
    assert "“2” is not the right number" in told and "0.5" not in told
    assert "is not in the hand-in" in (out / "cy" / "report.md").read_text(encoding="utf-8")
    rubric = (out / written_report.RUBRIC).read_text(encoding="utf-8")
    assert all(text.en in rubric for text in FORM.rubrics.values())
    entries = (out / written_report.OPEN).read_text(encoding="utf-8")
    mine = [part for part in entries.split("# ") if 'student = "ann"' in part]
    filled = "# ".join(["", *mine]).replace('reason = ""\nby = ""', 'reason = "read"\nby = "me"')
    (out / overrides.NAME).write_text(filled.replace("points = 0", "points = 2"), encoding="utf-8")
    capsys.readouterr()
    assert main(command) == 1  # bo's texts are still open
    table = capsys.readouterr().out
    prose = [c for c in FORM.lab.checks if c.name in FORM.rubrics and c.points]
    assert re.search(rf"^ann +{NUMBERS + 2 * len(prose)} ", table, re.MULTILINE)
    assert 'student = "ann"' not in (out / written_report.OPEN).read_text(encoding="utf-8")
    head, *lines = (out / written_report.OPEN_TABLE).read_text(encoding="utf-8").splitlines()
    filled = [line.removesuffix(",,") + "1.5,read,me" for line in lines if line[:3] == "bo,"]
    rest = [line for line in lines if line[:3] == "cy,"]  # may be filled in later
    assert len(filled) == len(prose) and len(lines) == len(filled) + len(rest)
    text = "\n".join([head, *filled, *rest])
    (out / overrides.TABLE).write_text(text, encoding="utf-8")
    assert main(command) == 1
    factor = next(check.points for check in FORM.lab.checks if check.name == "kv_factor")
    points = neat(NUMBERS - factor + 1.5 * len(prose))
    assert re.search(rf"^bo +{points} ", capsys.readouterr().out, re.MULTILINE)
    left = (out / written_report.OPEN_TABLE).read_text(encoding="utf-8").splitlines()
    assert left == [head, *rest]
    assert main(["report", str(out), "--lang", "zh"]) == 0
    assert "“2”与正确值不符" in (out / "bo" / "report.md").read_text(encoding="utf-8")


def test_the_roster_says_whose_a_report_is(
    handed_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, listed = tmp_path / "out", tmp_path / "roster.csv"
    (handed_in / "bo").rename(handed_in / "李四_2021002")
    listed.write_text("学号,姓名,邮箱\n2021001,Ann,ann@example.org\n2021002,李四,\n2021004,赵六,\n")
    prose = next(check.name for check in FORM.lab.checks if check.name in FORM.rubrics)
    out.mkdir()
    text = '[[override]]\nstudent = "{}"\ncheck = "{}"\npoints = 1\nreason = "x"\nby = "Li"\n'
    entries = [text.format(who, prose) for who in ("ann@example.org", "李四")]
    (out / overrides.NAME).write_text("".join(entries), encoding="utf-8")
    command = ["grade-report", str(handed_in), "--out", str(out), "--roster", str(listed)]
    assert main([*command, "--lang", "en"]) == 1
    told = capsys.readouterr()
    assert "change nothing" not in told.err
    scores = (out / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert sum(",Li," in row for row in scores) == 2
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"2021001", "2021002", "cy"}


def test_a_report_that_cannot_be_read_costs_nobody_else_anything(
    handed_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the next fault is: here reading is slow for everything but small files."""
    (handed_in / "bo" / "notes.ipynb").write_text('{"%%": [' + "1.5," * 1_900_000 + "1], 2}")
    (handed_in / "bo" / FORM.file).unlink()
    monkeypatch.setattr(written_report, "Fence", partial(Fence, 0.1))
    out = tmp_path / "out"
    assert main(["grade-report", str(handed_in), "--out", str(out), "--lang", "en"]) == 1
    assert "seconds of computing" in (out / "bo" / "report.md").read_text(encoding="utf-8")
    rows = (out / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4 and any(",ann," in row and f",{NUMBERS},," in row for row in rows)
