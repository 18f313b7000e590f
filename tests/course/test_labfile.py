"""lab.toml: what is right is read, and what is wrong is named with file, key and expectation."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.labfile import LabError, find_lab, load
from autograder.course.records import Text

TOML = """\
title = { en = "A lab", zh = "实验" }
files = ["work.py", "more.py"]

[limits]
cpu_seconds = 3

[[exercise]]
id = "lab9.double"
file = "work.py"
title = { en = "Double", zh = "加倍" }
hint = { en = "Add it to itself.", zh = "自己相加。" }
[[exercise.check]]
name = "test_runs"
points = 40
family = "shape"
[[exercise.check]]
name = "test_values"
points = 60
family = "numeric parity"
[[exercise.check]]
name = "test_more"
points = 0
family = "MLP"
needs = ["test_values"]
fresh = true
optional = true
"""
CHECKS = '''
def test_runs(student, case):
    """It runs
    and returns.

    能运行。
    """

def test_values(student, case):
    """Right.

    正确。

    What follows is for authors.
    """

def test_more(student, case):
    """More.

    更多。
    """

def test_undescribed(student, case):
    """  """

def helper(): ...
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "labs" / "lab9_doubling"
    (made / "checks").mkdir(parents=True)
    (made / "lab.toml").write_text(TOML, encoding="utf-8")
    (made / "checks" / "test_work.py").write_text(CHECKS, encoding="utf-8")
    return made


def test_what_is_not_translated_stands_in_english(folder: Path) -> None:
    toml = folder / "lab.toml"
    toml.write_text(TOML.replace(', zh = "实验"', ""), encoding="utf-8")
    assert load(folder).title == Text("A lab", "A lab")
    checks = folder / "checks" / "test_work.py"
    checks.write_text(CHECKS.replace("    能运行。\n", ""), encoding="utf-8")
    assert load(folder).checks[0].title == Text("It runs and returns.", "It runs and returns.")


def test_families_are_known_or_the_labs_own(folder: Path) -> None:
    toml = folder / "lab.toml"
    own = TOML.replace('"MLP"', '"gates"')
    toml.write_text(own, encoding="utf-8")
    with pytest.raises(LabError, match="family: must be one of shape"):
        load(folder)
    toml.write_text('families = ["gates"]\n' + own, encoding="utf-8")
    assert load(folder).checks[2].family == "gates"


def test_a_lab_is_read(folder: Path) -> None:
    lab = load(folder)
    assert (lab.name, lab.folder, lab.points) == ("lab9_doubling", folder, 100)
    assert lab.title == Text("A lab", "实验")
    assert (lab.files, lab.given, lab.forbidden) == (("work.py", "more.py"), (), ())
    assert (lab.limits.cpu_seconds, lab.limits.memory_mib) == (3, 1024)
    (exercise,) = lab.exercises
    assert exercise.hint.zh == "自己相加。"
    runs, values, more = lab.checks
    assert runs.title == Text("It runs and returns.", "能运行。")
    assert values.title == Text("Right.", "正确。")
    assert (runs.needs, values.needs) == ((), ("test_runs",))  # all build on "it runs"
    assert more.needs == ("test_runs", "test_values")
    assert (more.fresh, more.optional, runs.fresh, runs.optional) == (True, True, False, False)


WRONG = [
    ("points = 60", "points = 61", "the points sum to 101; a lab is worth 100"),
    (
        "points = 60",
        'points = "60"',
        "check test_values: points: is missing or not of the kind int",
    ),
    ("points = 60\n", "", "check test_values: points: is missing"),
    (
        "points = 60",
        "pionts = 60",
        "check test_values: pionts: unknown key; known are name, points",
    ),
    ('title = { en = "A', 'titel = { en = "A', "top level: titel: unknown key; known are title, "),
    ('title = { en = "A lab", zh = "实验" }\n', "", "top level: title: is missing or not of the"),
    ('en = "A lab", ', "", "top level: title: needs en, may have zh"),
    ("hint = { en", "hint = { fr", "exercise lab9.double: hint: needs en, may have zh"),
    ('hint = { en = "Add', 'hunt = { en = "Add', "exercise lab9.double: hunt: unknown key"),
    ('file = "work.py"', 'file = "word.py"', "double: file: must be one of work.py, more.py"),
    ("cpu_seconds", "cpu_second", "[limits]: cpu_second: unknown key; known are cpu_seconds, wall"),
    ('"MLP"', '"MPL"', "check test_more: family: must be one of shape, softmax, causal mask"),
    ('"test_more"', '"test_mroe"', "test_mroe: name: no test function in checks/ is called so"),
    ('"test_more"', '"helper"', "check helper: name: no test function in checks/"),
    ('"test_more"', '"test_undescribed"', "test_undescribed: name: its docstring is its title"),
    ('"test_more"', '"test_runs"', "lab9.double: name: test_runs stands twice"),
    ('["test_values"]', '["test_more"]', "test_more: needs: test_more must stand before it"),
    ('["test_values"]', '["test_vlaues"]', "test_more: needs: no check test_vlaues"),
    ("cpu_seconds = 3", 'cpu_seconds = "3"', "[limits]: cpu_seconds: is missing or not of the ki"),
    ("cpu_seconds = 3", "cpu_seconds = 0", "[limits]: cpu_seconds: must be above 0"),
    ("[limits]\ncpu_seconds = 3", "limits = 3", "limits: is missing or not of the kind dict"),
    ('en = "A lab"', "en = 3", "top level: title: en and zh must be texts"),
    ('"more.py"', "3", "top level: files: must hold texts only"),
    ("files =", 'given = "labs.given.norm"\nfiles =', "given: is missing or not of the kind list"),
    ("files =", 'folders = ["solutions"]\nfiles =', "folders: must hold folders under labs/"),
    ("files =", 'folders = ["labs/../solutions"]\nfiles =', "folders: must hold folders under"),
    ("files =", 'folders = ["labs/nowhere"]\nfiles =', "folders: must hold folders under labs/"),
    ("files =", 'tests = "labs/nowhere"\nfiles =', "tests: must hold folders under labs/"),
    ("points = 40", "points = -40", "check test_runs: points: must be 0 or more"),
    ("points = 40", "points = true", "check test_runs: points: is missing or not of the kind int"),
    ("points = 0", "points = 1", "check test_more: points: must be 0 or more, and 0 if the check"),
    ("fresh = true", 'fresh = "no"', "test_more: fresh: is missing or not of the kind bool"),
    ('["test_values"]', '"test_values"', "test_more: needs: is missing or not of the kind list"),
    (TOML[TOML.index("[limits]") :], "exercise = [1]", "exercise: must hold tables"),
    ("files = [", "files = ", "lab.toml: "),  # no TOML: tomllib says where
    ("points = 40", "points = " + "4" * 5000, "lab.toml: Exceeds the limit"),
    ("points = 40", "points = " + "[" * 5000, "lab.toml: maximum recursion depth"),
    ("cpu_seconds = 3", "cpu_seconds = nan", "cpu_seconds: must be above 0 and at most 1000000"),
    ("cpu_seconds = 3", "cpu_seconds = inf", "cpu_seconds: must be above 0 and at most 1000000"),
    ("cpu_seconds = 3", "memory_mib = 9999999999", "memory_mib: must be above 0 and at most"),
    ("cpu_seconds = 3", "lost_workers = 1.5", "lost_workers: is missing or not of the kind int"),
    ('"more.py"', '"more"', "files: must hold different names of modules, as x.py"),
    ('"more.py"', '"../more.py"', "files: must hold different names of modules, as x.py"),
    ('"more.py"', '"work.py"', "files: must hold different names of modules, as x.py"),
    ("files =", 'forbidden = ["softmax"]\nfiles =', "forbidden: must hold dotted names"),
]


@pytest.mark.parametrize("old, new, words", WRONG, ids=[words[:40] for _, _, words in WRONG])
def test_an_error_names_file_key_and_expectation(
    folder: Path, old: str, new: str, words: str
) -> None:
    assert old in TOML
    (folder / "lab.toml").write_text(TOML.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(LabError) as caught:
        load(folder)
    text = str(caught.value)
    assert text.startswith(f"{folder / 'lab.toml'}: ")
    assert words in text
    assert "\n" not in text


def test_no_lab_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"lab\.toml: .*No such file"):
        load(tmp_path)


def test_checks_are_read_without_running_them(folder: Path) -> None:
    path = folder / "checks" / "test_work.py"
    path.write_text("raise SystemExit\n" + CHECKS, encoding="utf-8")
    assert load(folder).points == 100


@pytest.mark.parametrize("name", ["9", "lab9", "lab9_doubling", "lab9_doubling/"])
def test_a_lab_goes_by_number_and_name(folder: Path, name: str) -> None:
    assert find_lab(name, folder.parent) == folder


@pytest.mark.parametrize("name", ["", "lab", "8", "99", "doubling", "../labs"])
def test_an_unknown_lab_is_named_beside_the_known_ones(folder: Path, name: str) -> None:
    with pytest.raises(LabError, match=r"no lab is called .*are: lab9_doubling$"):
        find_lab(name, folder.parent)


def test_nine_is_not_ninety(folder: Path) -> None:
    other = folder.parent / "lab90_other"
    other.mkdir()
    (other / "lab.toml").write_text("", encoding="utf-8")
    assert find_lab("9", folder.parent) == folder
    assert find_lab("90", folder.parent) == other


def test_a_name_that_two_labs_have_is_asked_for_whole(folder: Path) -> None:
    other = folder.parent / "lab9_other"
    other.mkdir()
    (other / "lab.toml").write_text("", encoding="utf-8")
    with pytest.raises(LabError, match="any of lab9_doubling, lab9_other; write the whole name"):
        find_lab("9", folder.parent)
    assert find_lab("lab9_other", folder.parent) == other


@pytest.mark.parametrize("name", [f.parent.name for f in labfile.LABS.glob("*/lab.toml")])
def test_the_labs_themselves_are_read(name: str) -> None:
    lab = load(labfile.LABS / name)
    assert lab.points == 100
    assert all(check.points == 0 for check in lab.checks if check.optional)


def test_two_exercises_of_one_name(folder: Path) -> None:
    extra = """
[[exercise]]
id = "lab9.double"
file = "work.py"
title = { en = "a", zh = "b" }
hint = { en = "a", zh = "b" }
check = []
"""
    (folder / "lab.toml").write_text(TOML + extra, encoding="utf-8")
    with pytest.raises(LabError, match=r"exercise lab9\.double: id: stands twice"):
        load(folder)


def test_checks_that_are_no_python_are_named(folder: Path) -> None:
    (folder / "checks" / "test_work.py").write_text("def (:\n", encoding="utf-8")
    with pytest.raises(LabError, match=r"test_work\.py: .*line 1"):
        load(folder)


@pytest.mark.parametrize("text", ["x = '\0'", "(" * 5000, "-" * 100_000 + "1"])
def test_checks_that_the_parser_cannot_take_are_named(folder: Path, text: str) -> None:
    (folder / "checks" / "test_work.py").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"test_work\.py: "):
        load(folder)


def test_another_encoding_is_named(folder: Path) -> None:
    (folder / "lab.toml").write_bytes(TOML.encode("gbk"))
    with pytest.raises(LabError, match=r"lab\.toml: 'utf-8' codec"):
        load(folder)
