"""``submit``: one zip with a lab's files and the report, and what the public checks give for it.

The zip is read again as a grader reads it, and checked: what is said of it is said of what is
handed in. Equal files give equal bytes.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from urllib.parse import unquote

from autograder.cli.my_report import FIGURES, FILE, decoded
from autograder.cli.named_checks import chosen_checks
from autograder.cli.student import shown, tried
from autograder.course import course_file, labfile
from autograder.course.atomic import packed, write_atomic
from autograder.course.handed_out import is_untouched
from autograder.course.labfile import LabError
from autograder.course.messages import render
from autograder.course.records import Lab, Message
from autograder.grading.judge_process import EngineError
from autograder.report.next_step import command_of, number_of, submit_command
from autograder.report.terminal import readable
from autograder.report.view import rows_of

# Not in names of files on some system, or what the parts of a name are told apart by.
_UNFIT = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f]|^[.\s]|[.\s]$')
# Where a report's pictures lie: Markdown's links, with or without a title, and HTML's.
_LINK = re.compile(
    r"""(!?)\[[^\]\n]*\]\(\s*(?:<([^<>\n]+)>|((?:[^()\n]|\([^()\n]*\))+?))(?:\s+["'][^\n]*?)?\s*\)"""
    r"""|^ {0,3}\[[^\]\n]+\]:\s*(\S+)|(<img)\b[^>]*?\ssrc\s*=\s*["']([^"'\n]+)""",
    re.MULTILINE | re.IGNORECASE,
)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+:|//|#", re.IGNORECASE)  # a letter is a drive
PICTURES = ("png", "jpg", "jpeg", "svg", "gif", "pdf")
MAX_PICTURES_MIB = 16  # together: a grader reads no hand-in of any size


def run(
    lab_name: str,
    folder: Path | None,
    who: tuple[str, str],
    language: str,
    *,
    out: Path | None = None,
    force: bool = False,
) -> int:
    """Pack the files of a lab, say what is in the zip and what the public checks gave.

    Args:
        lab_name: which lab.
        folder: where the files lie; the lab's own folder for None.
        who: student number and name.
        language: ``en`` or ``zh``.
        out: folder for the zip; the working folder for None.
        force: pack although a file is missing or as it was handed out.

    Returns:
        0 when a zip was written, 2 when not.

    Raises:
        LabError: no such lab, or nobody is named whose hand-in it is.
        CourseError: the course's file cannot be read.
    """
    language = readable(language)
    lab = labfile.load(labfile.find_lab(lab_name))
    name = _name_of(lab, who)
    folder = folder or lab.folder
    files = {n: (folder / n).read_bytes() for n in lab.files if (folder / n).is_file()}
    missing = [n for n in lab.files if n not in files]
    untouched = [n for n, data in files.items() if is_untouched(data.decode("utf-8", "replace"))]
    for key, names in (("missing", missing), ("untouched", untouched)):
        if names:
            print(_say(key, language, names=", ".join(names)))
    if not files:
        print(_say("nothing", language, folder=shown(folder)))
        return 2
    if (missing or untouched) and not force:
        print(_say("not_packed", language, command=_forced(lab, *who)))
        return 2
    path = (out or Path.cwd()) / name
    report, absent = _report(Path.cwd())
    files |= report
    data = packed(files)
    write_atomic(path, data)
    print(_say("packed", language, path=shown(path), bytes=len(data)))
    for n, content in files.items():
        key = "picture" if _is_picture(n) else "file"
        lines = len(content.splitlines())
        print(_say(key, language, name=n, bytes=len(content), lines=lines))
    if absent:
        values = {"names": ", ".join(absent), "most": MAX_PICTURES_MIB, "file": FILE}
        print(_say("left_out", language, **values))
    _check(lab, path, language)
    print(_say("upload", language))
    return 0


def _report(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """``my_report.md`` with its pictures, and the links to pictures that cannot be packed."""
    if not (folder / FILE).is_file():
        return {}, []
    figures = sorted((folder / FIGURES).glob("*.svg"))
    names = [FILE, *(path.relative_to(folder).as_posix() for path in figures)]
    files = {name: (folder / name).read_bytes() for name in names}
    absent, left = [], MAX_PICTURES_MIB << 20
    for link in _pictures(files[FILE]):
        name = os.path.normpath(unquote(link).replace("\\", "/")).replace(os.sep, "/")
        path = folder / name
        try:
            inside = path.resolve().is_relative_to(folder.resolve()) and not name.startswith("../")
            size = path.stat().st_size if inside and path.is_file() else left + 1
        except (OSError, ValueError):
            size = left + 1
        if name in files:
            continue
        if not _is_picture(name) or os.path.isabs(name) or size > left:
            absent.append(link)
            continue
        files[name] = path.read_bytes()
        left -= size
    return files, absent


def _pictures(report: bytes) -> list[str]:
    """Paths that a report shows as a picture or links to as one, each once; nothing of the web."""
    found: dict[str, None] = {}
    for mark, angled, plain, referred, tag, source in _LINK.findall(decoded(report)):
        link = (angled or plain or referred or source).strip()
        if not _ELSEWHERE.match(link) and (mark or tag or _is_picture(link)):
            found[link] = None
    return list(found)


def _is_picture(name: str) -> bool:
    return name.lower().rpartition(".")[2] in PICTURES


def _check(lab: Lab, path: Path, language: str) -> None:
    """Say what the public checks give for the zip."""
    try:
        record = tried(lab, path)
    except EngineError as error:
        print(_say("unchecked", language, text=error))
        return
    rows = rows_of(record, chosen_checks(lab, ""))
    earned, total = (sum(row.points[part] for row in rows) for part in (0, 1))
    result = _say("result", language, earned=earned, total=total)
    print(result, *([] if labfile.of(lab.folder) == 0 else [_say("result_hidden", language)]))
    if names := ", ".join(row.name for row in rows if row.missed):
        print(_say("open", language, names=names, command=command_of(number_of(lab), "test")))


def _name_of(lab: Lab, who: tuple[str, str]) -> str:
    """The zip's name, by the pattern of the course.

    Raises:
        LabError: the number or the name is missing, or cannot be in a file's name.
    """
    if not all(part.strip() for part in who):
        given = (who[0] or "2024001", who[1] or "张三")
        raise _error("who", command=submit_command(number_of(lab), *given))
    for part in who:
        if _UNFIT.search(part.strip()) or len(part) > 60:
            raise _error("bad_name", text=part)
    number, name = (part.strip() for part in who)
    return course_file.zip_pattern().format(id=number, name=name, lab=number_of(lab))


def _forced(lab: Lab, number: str, name: str) -> str:
    command = submit_command(number_of(lab), number, name)
    return command + (" FORCE=1" if command.startswith("make ") else " --force")


def _error(key: str, **values: object) -> LabError:
    return LabError(*(render(Message(f"submit.{key}", values), lang) for lang in ("en", "zh")))


def _say(key: str, language: str, **values: object) -> str:
    return render(Message(f"submit.{key}", values), language)
