"""A class in shards: everybody is in one, and merged they are what one run would have written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.labfile import ROOT
from autograder.course.records import (
    CheckResult,
    HandIn,
    Isolation,
    Message,
    Origin,
    Outcome,
    Student,
    Submission,
)
from autograder.grading import hidden_cases, journal, shards
from autograder.grading.judge_process import EngineError
from autograder.grading.shards import Part, Participant, Shard, ShardError
from autograder.intake.tree import Entry
from tests import warm
from tests.cli.test_grade_command import EXAMPLES
from tests.warm import grade

LAB = labfile.load(labfile.find_lab("2"))
STRONG = Isolation("strong", ("seccomp",), "fork")
PATTERN = r"(?P<student_id>\w+)-(?P<attempt>\d)"


def entry(student: str, person: str) -> Entry:
    return Entry(student, Path(student), (), Origin(student, (Student(person),)))


def handed(student: str) -> Participant:
    return Participant(student, Origin(student, (Student(student),)))


def graded(student: str) -> HandIn:
    earned = [Outcome.PASSED if n % len(student) else Outcome.FAILED for n in range(99)]
    results = tuple(CheckResult(c.name, o) for c, o in zip(LAB.checks, earned, strict=False))
    return HandIn(student, results, origin=Origin(student, (Student(student),)))


def part(shard: Shard, *students: str) -> Part:
    return Part(
        shard=shard,
        lab_name=LAB.name,
        lab=shards.digest_of_lab(LAB),
        grader="g",
        secret="s",
        source="c",
        attempt="last",
        versions={"python": "3"},
        isolation=STRONG,
        hidden_cases=2,
        public_cases=3,
        graded=students,
        handed=tuple(map(handed, students)),
        remarks=(),
        no_weights=Message("check.no_weights"),
    )


def written(folder: Path, made: Part) -> Path:
    book = journal.Journal(folder / journal.FOLDER, LAB, b"")
    for student in made.graded:
        book.keep(Submission(student, {}), graded(student))
    folder.mkdir(exist_ok=True)
    shards.write(folder, made)
    return folder


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Two graded parts of a class of three."""
    one, two = part(Shard(1, 2), "alice", "zoe"), part(Shard(2, 2), "bob")
    return [written(tmp_path / "one", one), written(tmp_path / "two", two)]


def merge(out: Path, *more: object) -> int:
    return main(["merge", str(out), *map(str, more), "--lang", "en"])


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_every_hand_in_is_in_one_shard_and_attempts_are_together(count: int) -> None:
    entries = [entry(f"s{n}-{attempt}", f"S{n}") for n in range(60) for attempt in (1, 2)]
    own = [Shard(number, count).own(entries) for number in range(1, count + 1)]
    assert sorted(e.student for shard in own for e in shard) == sorted(e.student for e in entries)
    for shard in own:
        assert sum(e.student.endswith("-1") for e in shard) * 2 == len(shard)


def test_neither_order_nor_company_nor_spelling_moves_anybody() -> None:
    entries = [entry(f"s{n}", f"S{n}") for n in range(20)]
    first = Shard(1, 2).own(entries)
    assert 0 < len(first) < 20
    assert Shard(1, 2).own(reversed(entries[5:])) == [
        e for e in reversed(first) if e in entries[5:]
    ]
    wide = [entry(f"s{n}", f"\uff53{n}") for n in range(20)]  # a fullwidth s
    assert [e.student for e in Shard(1, 2).own(wide)] == [e.student for e in first]


def test_shards_are_of_about_one_size() -> None:
    entries = [entry(f"{20230000 + n}", f"{20230000 + n}") for n in range(2000)]
    sizes = [len(Shard(number, 8).own(entries)) for number in range(1, 9)]
    assert sum(sizes) == 2000 and min(sizes) > 190 and max(sizes) < 310


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "1/2/3", "-1/4", "１/2", ""])
def test_a_shard_that_is_none_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        main(["grade", str(EXAMPLES), "--out", str(tmp_path), f"--shard={text}"])
    assert error.value.code == 2 and "2/16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--secret-file"),
        (("--secret-file", "s", "--only", "alice_right"), "--only"),
    ],
)
def test_what_makes_no_sense_for_a_shard_is_refused_at_once(
    options: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("AUTOGRADER_SECRET", raising=False)
    line = ["grade", str(EXAMPLES), "--out", str(tmp_path / "out"), "--shard", "1/2", *options]
    assert main([*line, "--lang", "en"]) == 2
    said = capsys.readouterr().err
    assert "--shard: " in said and words in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "--resume"),
        (EngineError("the judge did not start"), 2, "the judge did not start"),
    ],
)
def test_a_shard_that_ends_before_anything_is_graded_says_so(
    error: BaseException,
    status: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def prepare(*_: object) -> None:
        raise error

    monkeypatch.setattr(hidden_cases, "hidden_cases", prepare)
    (tmp_path / "s").write_text("a secret for shards\n")
    out = tmp_path / "out"
    line = ["grade", str(EXAMPLES), "--out", str(out), "--secret-file", str(tmp_path / "s")]
    assert main([*line, "--shard", "1/1", "--lang", "en"]) == status
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said
    assert not (out / shards.NAME).exists() and not (out / "class.json").exists()


def test_parts_become_one_class(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("student_id,name\nalice,Alice Li\nbob,Bob\nyan,Yan\nzoe,Zoe\n")
    out = tmp_path / "out"
    assert merge(out, *reversed(parts), "--roster", roster) == 0
    made = json.loads((out / "class.json").read_text(encoding="utf-8"))
    assert [h["student"] for h in made["hand_ins"]] == ["alice", "bob", "zoe"]
    assert made["hand_ins"][0]["origin"]["students"][0]["name"] == "Alice Li"
    assert [one["id"] for one in made["missing"]] == ["yan"]
    assert made["isolation"]["level"] == "strong" and made["cases"] == {"public": 3, "hidden": 2}
    assert all((out / name / "report.html").exists() for name in ("alice", "bob", "zoe"))
    assert len(list((out / journal.FOLDER).iterdir())) == 3
    first = (out / "class.json").read_bytes()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert merge(out, *parts, "--roster", roster) == 0  # again, in another order
    assert (out / "class.json").read_bytes() == first
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert "Yan" in capsys.readouterr().out


def test_what_comes_later_changes_no_part(parts: list[Path], tmp_path: Path) -> None:
    out, secret = tmp_path / "out", tmp_path / "secret"
    secret.write_text("the secret of all parts")
    hidden_cases.find(secret, parts[0])
    merge(out, *parts)
    files = [parts[0] / journal.FOLDER / "alice.json", parts[0] / hidden_cases.CHECK]
    before = [path.read_bytes() for path in files]
    book = journal.Journal(out / journal.FOLDER, LAB, b"other")
    book.keep(Submission("alice", {}), graded("alice"))
    secret.write_text("the secret of a grading anew")
    hidden_cases.find(secret, out)
    assert [path.read_bytes() for path in files] == before
    assert (out / hidden_cases.CHECK).stat().st_mode & 0o777 == 0o600


def test_absent_shards_are_named_and_refused_unless_asked_for(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("student_id\nalice\nbob\nyan\n")
    out = tmp_path / "out"
    assert merge(out, parts[1]) == 2
    assert "absent: 1/2;" in capsys.readouterr().err and not out.exists()
    assert merge(out, parts[1], "--partial", "--roster", roster) == 1
    assert "1/2" in capsys.readouterr().err
    made = json.loads((out / "class.json").read_text(encoding="utf-8"))
    assert [h["student"] for h in made["hand_ins"]] == ["bob"]
    assert made["missing"] == []  # alice has handed in: she is in the absent shard


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("secret", "t", "another secret"),
        ("lab", "l", "another version of the lab"),
        ("lab_name", "lab3_kv_cache", "another lab"),
        ("grader", "h", "another version of the grader"),
        ("versions", {"python": "4"}, "other releases"),
        ("source", "d", "other hand-ins"),
        ("attempt", "best", "another --attempt"),
        ("shard", Shard(1, 2), "already in"),
        ("shard", Shard(2, 3), "overlaps"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(
    field: str,
    value: object,
    words: str,
    parts: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = written(tmp_path / "odd", replace(part(Shard(2, 2), "bob"), **{field: value}))
    assert merge(tmp_path / "out", parts[0], odd) == 2
    said = capsys.readouterr().err
    assert words in said and str(odd) in said and not (tmp_path / "out").exists()
    assert len(said.strip().splitlines()) == 1


def test_a_part_that_is_none_is_refused(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert merge(out, parts[0], tmp_path) == 2 and "--resume" in capsys.readouterr().err
    path = parts[1] / shards.NAME
    for text in ("{", "[]", "{}", path.read_text().replace('"strong"', "5")):
        path.write_text(text)
        assert merge(out, *parts) == 2 and str(path) in capsys.readouterr().err
    shutil.copy(parts[0] / shards.NAME, path)
    assert merge(out, parts[0], parts[0]) == 2 and "twice" in capsys.readouterr().err
    assert merge(parts[0], *parts) == 2
    capsys.readouterr()
    changed = replace(part(Shard(1, 1), "bob"), lab="another")
    assert merge(out, written(tmp_path / "three", changed)) == 2
    assert "lab.toml" in capsys.readouterr().err


def test_a_lost_record_is_named(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (parts[0] / journal.FOLDER / "zoe.json").unlink()
    assert merge(tmp_path / "out", *parts) == 2 and "zoe.json: absent" in capsys.readouterr().err


def test_the_least_isolation_is_the_one_of_the_class(parts: list[Path], tmp_path: Path) -> None:
    weak = replace(part(Shard(2, 2), "bob"), isolation=Isolation("weak", (), "spawn"))
    shards.write(parts[1], weak)
    merge(tmp_path / "out", *parts)
    made = json.loads((tmp_path / "out" / "class.json").read_text(encoding="utf-8"))
    assert made["isolation"] == {"level": "weak", "layers": [], "worker": "spawn"}


def test_a_part_reads_as_it_was_written(tmp_path: Path) -> None:
    made = replace(
        part(Shard(3, 5), "alice", "李雷"),
        remarks=(Message("intake.strays", {"count": 1, "names": "x"}),),
        no_weights=Message("check.weights_unusable", {"text": "no"}),
    )
    shards.write(tmp_path, made)
    assert shards.read(tmp_path) == made
    shards.forget(tmp_path)
    with pytest.raises(ShardError, match="absent"):
        shards.read(tmp_path)


def files_of(out: Path) -> dict[str, bytes]:
    """All that a class leaves for people, and the records."""
    shown = [*out.glob("*.*"), *out.glob("*/report.*"), *out.glob(".records/*")]
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in shown
        if path.is_file()
        and path.name not in (shards.NAME, "overrides.toml")
        and not path.name.startswith(".")
    }


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ["last", "best"])
def test_merged_shards_equal_one_run(attempt: str, tmp_path: Path) -> None:
    source, secret = tmp_path / "class", tmp_path / "secret"
    secret.write_text("a secret for shards\n")
    hand_ins = {
        "ann-1": "alice_right",
        "ann-2": "judy_untouched_stub",
        "ben-1": "judy_untouched_stub",
        "ben-2": "dan_tiled_kv_heads",
        "cem-1": "carol_norm_after_rope",
        "dee-1": "judy_untouched_stub",
        "eve-1": "judy_untouched_stub",
    }
    for name, example in hand_ins.items():
        shutil.copytree(EXAMPLES / example, source / name)
    (source / "stray.py").write_text("pass\n")
    roster = tmp_path / "roster.csv"
    roster.write_text("student_id,name\nann,Ann A\nben,Ben B\ncem,Cem C\nfay,Fay F\n")
    decided = tmp_path / "overrides.toml"
    check = next(check.name for check in LAB.checks if check.points)
    decided.write_text(
        f'[[override]]\nstudent = "ben"\ncheck = "{check}"\npoints = 1\n'
        'reason = "seen"\nby = "me"\n'
    )
    options = ("--secret-file", str(secret), "--pattern", PATTERN, "--attempt", attempt)
    known = ("--roster", str(roster), "--overrides", str(decided))
    whole = grade(source, tmp_path / "whole", *options, *known, "--keep-outputs")
    assert whole.status == 1 and len(whole.scores) == 5, whole.stderr
    graded_parts = []
    for number in (1, 2, 3, 4):  # of so few, one shard or another is empty
        folder = tmp_path / f"part{number}"
        run = grade(source, folder, *options, "--keep-outputs", "--shard", f"{number}/4")
        assert run.status in (0, 1), run.stderr
        graded_parts.append(str(folder))
    out = tmp_path / "merged"
    done = warm.run("merge", out, *graded_parts, *known)
    assert done.status == 1, done.stderr
    assert files_of(out) == files_of(whole.out)
    assert done.stdout == whole.stdout
    # And what one run would do next goes on from here.
    more = grade(source, out, *options, *known, "--resume", "--keep-outputs")
    assert files_of(out) == files_of(whole.out) and more.stdout == whole.stdout
    again = warm.rescore(out, "--secret-file", secret, "--overrides", decided)
    assert again.status == 0, again.stderr


@pytest.mark.slow
def test_the_slurm_scripts_grade_and_merge(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    shutil.copytree(ROOT / "examples" / "slurm", scripts)
    script = scripts / "grade.sbatch"
    text = script.read_text()
    assert "--array=1-16" in text and "count=16 " in text
    script.write_text(text.replace("count=16 ", "count=2 "))
    source, out = tmp_path / "class", tmp_path / "out"
    for name in ("ann", "ben", "cem"):
        shutil.copytree(EXAMPLES / "judy_untouched_stub", source / name)
    (tmp_path / "secret").write_text("a secret for a job array\n")
    known = os.environ | {"PYTHON": sys.executable, "LAB_LANG": "en", "SLURM_CPUS_PER_TASK": "1"}
    for task in ("1", "2"):
        line = ["bash", str(script), str(source), str(out), str(tmp_path / "secret")]
        environment = known | {"SLURM_ARRAY_TASK_ID": task}
        subprocess.run(line, cwd=ROOT, env=environment, check=True, capture_output=True)
    merging = ["bash", str(scripts / "merge.sh"), str(out)]
    done = subprocess.run(merging, cwd=ROOT, env=known, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = json.loads((out / "class" / "class.json").read_text(encoding="utf-8"))
    assert [h["student"] for h in made["hand_ins"]] == ["ann", "ben", "cem"]
