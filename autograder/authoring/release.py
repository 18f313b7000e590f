"""``release``: the students' copy, as a folder for a template repository and as one zip.

It shows the course; the grader lies beside it as one wheel, which ``make setup`` installs.

Equal sources give equal bytes: times, modes and the order of the zip's entries are fixed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autograder.authoring import stubs, student_parts
from autograder.authoring.place import read
from autograder.authoring.stubs import solution_lines
from autograder.course import chart_labels, handed_out, labfile, suggestions

NAME = "qwen3-labs-student"
SOURCES = "student"  # what only students get: their README, AGENTS.md
ALIKE = ("LICENSE", "constraints.txt", "report_template.md", "report_template.zh-CN.md")
COURSE = "course.toml"
CLOSED = "# <instructors>"  # lines of the Makefile from here …
OPEN = "# </instructors>"  # … to here are not for students
EXTRAS = ("chat", "notebooks")
GRADER = "autograder/"  # what goes into the wheel
IGNORED = (
    *(".venv*/", "*.egg-info/", ".pytest_cache/", "__pycache__/", ".ipynb_checkpoints/"),
    *(".hints.json", ".spot.json"),
)
LINE_ENDS = ("*.py text eol=lf", "Makefile text eol=lf")  # on Windows, too
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold


class ReleaseError(ValueError):
    """The students' copy cannot be made, or would give something away; names the file."""


def run(out: Path, root: Path = labfile.ROOT, *, stubs_in: str = "en") -> int:
    """Write both into ``out`` and say where; docstrings of the stubs in that language.

    Returns:
        0.

    Raises:
        ReleaseError: a source is wrong, holds a line of a solution, or is not there.
    """
    files = sources(root, stubs_in)
    problems = [*leaks(files, root), *lacking(files)]
    if problems:
        raise ReleaseError("\n".join(problems))
    for path in write(bundle(files, root), version(root), out):
        print(f"written    {path}")
    return 0


def contents(root: Path, stubs_in: str = "en") -> dict[str, bytes]:
    """The students' folder: :func:`sources`, those of the grader in a wheel.

    Raises:
        ReleaseError, PartsError, ValueError: as :func:`sources`.
    """
    return bundle(sources(root, stubs_in), root)


def bundle(files: Mapping[str, bytes], root: Path) -> dict[str, bytes]:
    """These files, the grader's packed as a wheel."""
    project = tomllib.loads(read(root / "pyproject.toml"))["project"]
    ours = {path: blob for path, blob in files.items() if path.startswith(GRADER)}
    name = f"{project['name'].replace('-', '_')}-{project['version']}"
    others = {path: blob for path, blob in files.items() if path not in ours}
    packed = {f"grader/{name}-py3-none-any.whl": wheel(ours, name, project)}
    return dict(sorted((others | packed).items()))


def wheel(files: Mapping[str, bytes], name: str, project: Mapping[str, Any]) -> bytes:
    """A wheel of pure Python; equal files give equal bytes.

    Args:
        files: what it installs, by path.
        name: of the distribution, with its version.
        project: that table of ``pyproject.toml``; requirements, extras and commands are taken.
    """
    extras = {extra: project["optional-dependencies"][extra] for extra in EXTRAS}
    about = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    about += [f"Requires-Python: {project['requires-python']}"]
    about += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    for extra, needs in extras.items():
        about.append(f"Provides-Extra: {extra}")
        about += [f'Requires-Dist: {needed} ; extra == "{extra}"' for needed in needs]
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    entries = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), "")
    ]
    kind = ["Wheel-Version: 1.0", "Generator: qwen3-labs", "Root-Is-Purelib: true"]
    texts = {"METADATA": about, "WHEEL": [*kind, "Tag: py3-none-any"], "entry_points.txt": entries}
    whole = dict(files) | {
        f"{name}.dist-info/{file}": ("\n".join(lines) + "\n").encode()
        for file, lines in texts.items()
    }
    record = [f"{path},sha256={_digest(blob)},{len(blob)}" for path, blob in whole.items()]
    last = f"{name}.dist-info/RECORD"
    whole[last] = "\n".join([*record, f"{last},,", ""]).encode()
    made = io.BytesIO()
    _zip(made, whole)
    return made.getvalue()


def _digest(blob: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(blob).digest()).rstrip(b"=").decode()


def sources(root: Path, stubs_in: str = "en") -> dict[str, bytes]:
    """Everything that students get, by path, in order: modules of the grader one by one.

    Raises:
        ReleaseError: the Makefile's marks do not pair up.
        PartsError: a command of students imports what they must not get.
        ValueError: a lab cannot be read.
    """
    files = {f"{name}": (root / name).read_bytes() for name in ALIKE}
    for path in sorted((root / SOURCES).iterdir()):
        files[path.name] = path.read_bytes()
    if (root / COURSE).is_file():  # how a hand-in's zip is called
        files[COURSE] = (root / COURSE).read_bytes()
    files["Makefile"] = makefile(read(root / "Makefile")).encode()
    files["pyproject.toml"] = pyproject(read(root / "pyproject.toml")).encode()
    files[".gitignore"] = ("\n".join(IGNORED) + "\n").encode()
    files[".gitattributes"] = ("\n".join(LINE_ENDS) + "\n").encode()
    for path in _code(root):
        files[_shown(path, root)] = path.read_bytes()
    for path in (*(root / "notebooks").glob("*.ipynb"), *root.glob(chart_labels.FILE)):
        files[_shown(path, root)] = path.read_bytes()
    for path in _given(root):
        files[_shown(path, root)] = path.read_bytes()
    for toml in (root / "labs").glob("*/lab.toml"):
        files |= _lab(toml.parent, root, stubs_in)
    return dict(sorted(files.items()))


def lacking(files: Mapping[str, bytes]) -> Iterator[str]:
    """Labs without fingerprints, of whose mistakes none would be named."""
    for path in files:
        bank = path.removesuffix("lab.toml") + "fingerprints.bank"
        if path.startswith("labs/") and path.endswith("/lab.toml") and bank not in files:
            yield f"{bank} is absent; {suggestions.command('build')} makes it"


def _code(root: Path) -> Iterator[Path]:
    """The autograder's modules that students need, with the data that lies beside them."""
    for path in student_parts.parts(root).values():
        yield path
        if path.name == "__init__.py":
            yield from (one for one in path.parent.glob("*.toml"))


def _given(root: Path) -> Iterator[Path]:
    yield root / "labs" / "__init__.py"
    yield from (root / "labs").glob("*.md")
    for name in ("given", "commands"):
        yield from _files(root / "labs" / name)


def _lab(folder: Path, root: Path, stubs_in: str) -> dict[str, bytes]:
    """A lab as it lies there, its TODOs open whatever somebody has written into them."""
    lab = labfile.load(folder)
    texts = {one: stubs.stubs(lab, root / "solutions", one) for one in ("en", "zh")}
    own = {_shown(path, root): path.read_bytes() for path in _files(folder)}
    own |= {_shown(folder / name, root): text.encode() for name, text in texts[stubs_in].items()}
    original = handed_out.dump(texts)
    return own | {_shown(folder / handed_out.FILE, root): original.encode()}


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder but hidden ones and what Python leaves behind."""
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(p.startswith((".", "__pycache__")) for p in parts):
            yield path


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def makefile(text: str) -> str:
    """The Makefile without what stands between the marks.

    Raises:
        ReleaseError: marks do not pair up.
    """
    kept, closed = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() in (CLOSED, OPEN):
            if closed == (line.strip() == CLOSED):
                raise ReleaseError(f"Makefile:{number}: {CLOSED} and {OPEN} have to alternate")
            closed = not closed
        elif not closed:
            kept.append(line)
    if closed:
        raise ReleaseError(f"Makefile: the last {CLOSED} is not closed by {OPEN}")
    return "\n".join(kept) + "\n"


def pyproject(text: str) -> str:
    """Return what students install: the core, and the extras that are for them."""
    whole = tomllib.loads(text)
    project = whole["project"]
    extras = {name: project["optional-dependencies"][name] for name in EXTRAS}
    # A setuptools of 2022 will do: what comes with Python 3.11.
    lines = ["[build-system]", 'requires = ["setuptools>=64"]']
    lines += ['build-backend = "setuptools.build_meta"', ""]
    # Of the grader's own name only the wheel is; the course beside it makes `labs` importable.
    lines += ["[project]", f"name = {_toml(project['name'] + '-course')}"]
    kept = ("version", "description", "requires-python", "dependencies")
    lines += [f"{key} = {_toml(project[key])}" for key in kept]
    lines += ["", "[project.optional-dependencies]"]
    lines += [f"{name} = {_toml(needed)}" for name, needed in extras.items()]
    lines += ["", "[tool.setuptools]", 'packages = ["labs"]', ""]
    lines += ["[tool.pytest.ini_options]", 'testpaths = ["labs"]']
    return "\n".join([*lines, 'addopts = ["--import-mode=importlib"]', ""])


def _toml(value: str | list[str]) -> str:
    """A string or a list of strings: TOML writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def version(root: Path) -> str:
    """The release, as ``pyproject.toml`` has it."""
    return str(tomllib.loads(read(root / "pyproject.toml"))["project"]["version"])


def leaks(files: Mapping[str, bytes], root: Path) -> Iterator[str]:
    """Lines of any lab's solution in any text, and modules that no student may have."""
    for path in files:
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if path.endswith(".py") and student_parts.is_never(module):
            yield f"{path}: students must not get it"
        elif path.startswith("solutions/"):
            yield f"{path}: it is a part of the solutions"
    texts = {path: text for path, blob in files.items() if (text := _text(path, blob))}
    given = "\n".join(text for path, text in texts.items() if path.startswith("labs/given/"))
    secret = {
        line: _shown(path, root)
        for toml in sorted((root / "labs").glob("*/lab.toml"))
        for name in labfile.load(toml.parent).files
        for path in [root / "solutions" / toml.parent.name / name]
        for line in solution_lines(read(path), name)
        if line not in given
    }
    whole = "\0".join(texts.values())
    for line in sorted(line for line in secret if line in whole):
        where = next(path for path, text in texts.items() if line in text)
        yield f"{where} holds a line of {secret[line]}: “{line}”; say it in words instead"


def _text(path: str, blob: bytes) -> str:
    """Return what a reader sees; empty for what is no text."""
    try:
        text = blob.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    if not path.endswith((".ipynb", ".json")):
        return text
    return text + "\n" + "\n".join(_strings(json.loads(text)))


def _strings(tree: object) -> Iterator[str]:
    """Texts inside JSON, where quotes and line ends are escaped."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, (list, dict)):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _strings(one)


def write(files: Mapping[str, bytes], release: str, out: Path) -> tuple[Path, Path]:
    """The folder, which replaces an older one, and the zip.

    Raises:
        ReleaseError: the folder holds something that no release has written.
    """
    folder, packed = out / NAME, out / f"{NAME}-{release}.zip"
    if folder.exists():
        if not (folder / "pyproject.toml").is_file() or (folder / ".git").exists():
            raise ReleaseError(f"{folder}: not a folder of a release; move it away first")
        shutil.rmtree(folder)
    for path, blob in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(blob)
    _zip(packed, {f"{NAME}/{path}": blob for path, blob in files.items()})
    return folder, packed


def _zip(target: Path | io.BytesIO, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, blob in files.items():
            entry = zipfile.ZipInfo(path, _TIME)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix, whatever machine writes it
            archive.writestr(entry, blob, zipfile.ZIP_DEFLATED, 9)
