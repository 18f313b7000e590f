"""The students' copy: everything that they need, nothing that gives an answer away, equal bytes."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from autograder.authoring import release, student_parts
from autograder.authoring.place import read
from autograder.authoring.release import ReleaseError
from autograder.authoring.student_parts import PartsError
from autograder.course import handed_out, labfile
from autograder.course.labfile import ROOT

LABS = [labfile.load(path.parent) for path in sorted((ROOT / "labs").glob("*/lab.toml"))]
COMMANDS = (
    "test",
    "watch",
    "hint",
    "debug",
    "submit",
    "spot",
    "review",
    "chat",
    "serve",
    "carry",
    "reset",
    "report",
    "doctor",
)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """All that students get, modules of the grader one by one."""
    return release.sources(ROOT)


@pytest.fixture(scope="module")
def bundle(files: dict[str, bytes]) -> dict[str, bytes]:
    """Their folder, the grader as a wheel."""
    return release.bundle(files, ROOT)


@pytest.fixture(scope="module")
def written(
    bundle: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The folder and the zip."""
    return release.write(bundle, "1.0", tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def given(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files that hold lines of solutions by right."""
    return {path: blob for path, blob in files.items() if path.startswith("labs/given/")}


@cache
def modules() -> dict[str, Path]:
    return student_parts.parts(ROOT)


def test_nothing_in_it_gives_an_answer_away(files: dict[str, bytes]) -> None:
    assert list(release.leaks(files, ROOT)) == []


@pytest.mark.parametrize(
    "forbidden",
    [
        r"solutions/",
        r"tests/",
        r"benchmarks/",
        r"examples/",
        r"autograder/authoring/",
        r"autograder/reference/(oracle|hf|recipes|build|compat|interleaved)",
        r"autograder/grading/(trials|prepare|secret|report_)",
        r"autograder/cli/(grade|class_run|again|instructor|doctor\.py)",
        r".*(pairs\.bank|misconceptions\.toml|spot\.toml|report\.toml)$",
        r".*/?\.git/",
    ],
)
def test_what_is_not_for_students_is_not_there(files: dict[str, bytes], forbidden: str) -> None:
    kept = {f"autograder/course/messages/{name}.toml" for name in ("report", "spot")}  # sentences
    assert [path for path in files if re.match(forbidden, path) and path not in kept] == []


def test_everything_is_there_that_a_student_holds_in_hands(files: dict[str, bytes]) -> None:
    wanted = {"README.md", "README.zh-CN.md", "AGENTS.md", "Makefile", "pyproject.toml", "LICENSE"}
    wanted |= {"report_template.md", "report_template.zh-CN.md", "constraints.txt", ".gitignore"}
    wanted |= {".gitattributes"}
    wanted |= {f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    wanted |= {"notebooks/labels.zh.toml"}
    for lab in LABS:
        names = ("lab.toml", "README.md", "cases.safetensors", "fingerprints.bank", *lab.files)
        wanted |= {f"labs/{lab.name}/{name}" for name in names}
    assert wanted <= files.keys()


def test_the_files_to_work_in_are_as_they_are_handed_out(files: dict[str, bytes]) -> None:
    for lab in LABS:
        for name in lab.files:
            assert handed_out.is_untouched(files[f"labs/{lab.name}/{name}"].decode())


def test_the_same_files_in_chinese_differ_in_words_alone(files: dict[str, bytes]) -> None:
    chinese = release.sources(ROOT, "zh")
    changed = {path for path, blob in files.items() if chinese[path] != blob}
    assert changed == {f"labs/{lab.name}/{name}" for lab in LABS for name in lab.files}
    for path in changed:
        assert handed_out.is_untouched(chinese[path].decode())
        assert _bare(chinese[path]) == _bare(files[path])


def _bare(source: bytes) -> str:
    """The code without docstrings and without the words of its TODOs."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            del node.body[0]
    return re.sub(r"(TODO [\w.]+): [^']*", r"\1", ast.unparse(tree))


def test_a_solved_lab_in_the_checkout_is_handed_out_open(copy: Path) -> None:
    lab = LABS[1]
    shutil.copy(ROOT / "solutions" / lab.name / "mlp.py", copy / "labs" / lab.name)
    assert handed_out.is_untouched(release.contents(copy)[f"labs/{lab.name}/mlp.py"].decode())


def test_equal_sources_give_equal_bytes(
    files: dict[str, bytes], bundle: dict[str, bytes], written: tuple[Path, Path], tmp_path: Path
) -> None:
    made = release.bundle(dict(sorted(dict(reversed(files.items())).items())), ROOT)
    _, path = release.write(made, "1.0", tmp_path)
    assert path.read_bytes() == written[1].read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        names = [name.removeprefix(f"{release.NAME}/") for name in archive.namelist()]
    assert names == sorted(bundle)


def test_it_shows_the_course_and_the_grader_is_one_wheel(
    files: dict[str, bytes], bundle: dict[str, bytes]
) -> None:
    (wheel,) = (path for path in bundle if path.startswith("grader/"))
    assert not [path for path in bundle if path.startswith("autograder")]
    assert bundle.keys() - {wheel} == {p for p in files if not p.startswith("autograder/")}
    with zipfile.ZipFile(io.BytesIO(bundle[wheel])) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    about = {name.rpartition("/")[2] for name in inside if ".dist-info/" in name}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt"}
    modules = {name: blob for name, blob in inside.items() if ".dist-info/" not in name}
    assert modules == {p: blob for p, blob in files.items() if p.startswith("autograder/")}


def test_pip_installs_the_wheel_with_its_command_and_plugin(
    written: tuple[Path, Path], tmp_path: Path
) -> None:
    (wheel,) = (written[0] / "grader").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", wheel], check=True)
    (made,) = metadata.distributions(name="qwen3-labs", path=[str(tmp_path / "site")])
    points = {(point.group, point.value) for point in made.entry_points}
    assert ("console_scripts", "autograder.cli.main:main") in points
    assert ("pytest11", "autograder.cli.pytest_plugin") in points
    assert set(made.metadata.get_all("Provides-Extra")) == {"chat", "notebooks"}
    # In the course's folder, plain pytest: no option, nothing on the path but what is installed.
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only"],
        cwd=written[0],
        env=kept | {"PYTHONPATH": f"{tmp_path / 'site'}:{written[0]}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for lab in LABS:
        assert f"labs/{lab.name}/checks/" in done.stdout


def test_a_folder_that_is_no_release_stays(files: dict[str, bytes], tmp_path: Path) -> None:
    folder, _ = release.write({"pyproject.toml": b"", "x/y": b"1"}, "1.0", tmp_path)
    (folder / ".git").mkdir()
    with pytest.raises(ReleaseError, match="not a folder of a release"):
        release.write({"pyproject.toml": b""}, "1.0", tmp_path)
    assert (folder / "x" / "y").exists()


# ------------------------------------------------------------------------------ what would leak


def test_a_line_of_a_solution_is_found_wherever_it_stands(given: dict[str, bytes]) -> None:
    line = "return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))"
    assert line in read(ROOT / "solutions" / "lab2_qwen3_block" / "mlp.py")
    cell = '{"cells": [{"source": ["x = \\"1\\"\\n", "' + line + '"]}]}'
    for path, text in (("labs/lab9/README.md", line), ("notebooks/x.ipynb", cell)):
        (found,) = release.leaks({**given, path: text.encode()}, ROOT)
        assert path in found and line in found


@pytest.mark.parametrize(
    "path", ["solutions/reference/oracle_model.py", "autograder/authoring/build.py"]
)
def test_a_module_that_slips_in_is_named(given: dict[str, bytes], path: str) -> None:
    (found,) = release.leaks({**given, path: b""}, ROOT)
    assert found == f"{path}: students must not get it"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources that a release reads."""
    ignore = shutil.ignore_patterns("__pycache__", "*.bank", "cases.safetensors", "tiny_qwen3")
    for name in ("autograder", "labs", "solutions", "notebooks", "student"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    for name in (*release.ALIKE, "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_a_lab_without_fingerprints_is_not_handed_out(files: dict[str, bytes]) -> None:
    assert list(release.lacking(files)) == []
    bank = "labs/lab3_kv_cache/fingerprints.bank"
    without = {path: data for path, data in files.items() if path != bank}
    assert [bank in problem for problem in release.lacking(without)] == [True]


def test_an_import_of_what_students_must_not_get_is_refused(copy: Path) -> None:
    hint = copy / "autograder" / "cli" / "hint.py"
    inside = "\n\ndef more() -> None:\n    from solutions.reference.oracle_model import logits\n"
    hint.write_text(read(hint) + inside, encoding="utf-8")
    with pytest.raises(PartsError, match=r"cli\.hint imports solutions\.reference\.oracle_model"):
        student_parts.parts(copy)


def test_modules_come_by_import_by_name_and_by_what_checks_import(copy: Path) -> None:
    for name in ("one", "two", "three"):
        (copy / "autograder" / "course" / f"{name}.py").write_text("")
    hint = copy / "autograder" / "cli" / "hint.py"
    told = "\n\ndef more() -> str:\n    import autograder.course.one\n"
    told += "    return 'autograder.course.two'\n"
    hint.write_text(read(hint) + told, encoding="utf-8")
    check = next((copy / "labs" / LABS[0].name / "checks").glob("test_*.py"))
    check.write_text(read(check) + "\nfrom autograder.course import three\n", encoding="utf-8")
    found = student_parts.parts(copy)
    assert {f"autograder.course.{name}" for name in ("one", "two", "three")} <= found.keys()
    assert "autograder.course.one" not in modules()


# ------------------------------------------------------------------------------ the Makefile


def test_the_makefile_has_what_students_need_and_no_more(files: dict[str, bytes]) -> None:
    text = files["Makefile"].decode()
    rules = re.findall(r"^([a-z][\w -]*):", text, re.MULTILINE)
    targets = {name for rule in rules for name in rule.split()}
    own = {"has-core", "has-notebooks"}  # for environments of the user's own
    assert targets - own == {"menu", "help", "setup", "notebook", *COMMANDS}
    for word in ("READY_DEV", "$(RUN) grade", "solutions", "audit", "WEIGHTS=", "instructors>"):
        assert word not in text
    assert all(f"make {name}" in text for name in COMMANDS)


@pytest.mark.parametrize(
    "text", ["# <instructors>\na\n", "# </instructors>\n", "# <instructors>\n# <instructors>\n"]
)
def test_marks_that_do_not_pair_up_are_named(text: str) -> None:
    with pytest.raises(ReleaseError, match="Makefile"):
        release.makefile(text)


def test_students_install_the_core_and_their_extras(files: dict[str, bytes]) -> None:
    ours = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    theirs = tomllib.loads(files["pyproject.toml"].decode())["project"]
    assert theirs["dependencies"] == ours["dependencies"]
    assert set(theirs["optional-dependencies"]) == {"chat", "notebooks"}
    assert theirs["version"] == ours["version"] == release.version(ROOT)


# ------------------------------------------------------------------------------ it runs


def test_it_knows_the_commands_of_students_alone(
    written: tuple[Path, Path], tmp_path: Path
) -> None:
    (wheel,) = (written[0] / "grader").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    imported = [m for m in modules() if not m.endswith("__main__")]
    script = f"import importlib\nfor m in {imported!r}:\n    importlib.import_module(m)\n"
    for arguments in (["-c", script], ["-m", "autograder", "--help"]):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=written[0],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    shown = set(re.findall(r"^    ([a-z-]+) ", done.stdout, re.MULTILINE))
    assert shown == set(COMMANDS)


def test_assistants_are_told_in_both_languages(files: dict[str, bytes]) -> None:
    text = files["AGENTS.md"].decode()
    assert "body of a TODO" in text and "TODO 的内容" in text
