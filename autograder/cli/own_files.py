"""``reset``: a lab's files as they were handed out, in a student's language; work is kept."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

from autograder.course import handed_out, labfile
from autograder.course.atomic import write_atomic
from autograder.course.handed_out import is_untouched
from autograder.course.labfile import LabError
from autograder.course.messages import render
from autograder.course.records import Lab, Message
from autograder.report.next_step import command_of, number_of

BACKUPS = labfile.ROOT / "backups"
# Makes the files anew where the solutions are: a student's copy carries them instead.
STUBS = "autograder.authoring.stubs"


def run_reset(lab_name: str, folder: Path | None, match: str, language: str) -> int:
    """Put back the files of a lab, or those whose name holds ``match``.

    Returns:
        0, or 1 when there is nothing to put back with (the reason is on stderr).

    Raises:
        LabError: no lab, or none of its files, is called so.
    """
    lab = labfile.load(labfile.find_lab(lab_name))
    place = folder or lab.folder
    wanted = [name for name in lab.files if match in name]
    if not wanted:
        raise labfile.LabError(
            f"K={match}: no file of {lab.name}: {', '.join(lab.files)}",
            f"K={match}：{lab.name} 没有这个文件：{'、'.join(lab.files)}",
        )
    texts = _texts(lab, language)
    if texts is None:
        print(_say("no_originals", language, folder=lab.folder), file=sys.stderr)
        return 1
    backup = backup_of(lab)
    for name in wanted:
        path = place / name
        if path.is_file() and path.read_bytes() == texts[name].encode():
            print(_say("unchanged", language, file=path))
            continue
        if path.is_file() and not is_untouched(path.read_text("utf-8", errors="replace")):
            print(keep_copies(path, backup, language))
        write_atomic(path, texts[name])
        print(_say("put_back", language, file=path))
    print(render(Message("board.next", {"command": command_of(number_of(lab), "test")}), language))
    return 0


def backup_of(lab: Lab) -> Path:
    """A folder, not there yet, for all files that one command overwrites."""
    folder = BACKUPS / f"{lab.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in chain((folder,), numbered) if not path.exists())


def keep_copies(path: Path, backup: Path, language: str) -> str:
    """Copy a file that is about to be overwritten into ``backup``, and say so."""
    backup.mkdir(parents=True, exist_ok=True)
    (backup / path.name).write_bytes(path.read_bytes())
    return _say("kept", language, file=backup / path.name)


def _texts(lab: Lab, language: str) -> dict[str, str] | None:
    """The files as they were handed out, by name, with docstrings in ``language``."""
    kept = handed_out.load(lab.folder, language)
    if kept is None and importlib.util.find_spec(STUBS.rpartition(".")[0]) is not None:
        made: dict[str, str] = importlib.import_module(STUBS).stubs(lab, language=language)
        return made
    return kept


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"reset.{name}", values), language)


# ``carry``: takes a student's files of one lab along into another that builds on them.

Said = tuple[str, str]  # English, Chinese


class CarryError(LabError):
    """Nothing was carried; says why."""

    def __init__(self, said: Said) -> None:
        super().__init__(*said)


def run_carry(
    source: Lab, target: Lab, folders: tuple[Path, Path], language: str, *, force: bool
) -> int:
    """Copy the files that both labs have, all or none, and say what became of each.

    What ``force`` overwrites is kept, as ``reset`` keeps it.

    Args:
        source: the lab that is done.
        target: the lab that goes on.
        folders: where the student's files of the two lie.
        language: ``en`` or ``zh``.
        force: overwrite changed files of the target.

    Returns:
        0, or 1 when nothing was carried (the reason is on stderr).
    """
    backup = backup_of(target)

    def keep(path: Path) -> None:
        print(keep_copies(path, backup, language))

    try:
        carried = copy_files(source, target, *folders, keep if force else None)
    except CarryError as error:
        print(error.said.in_(language), file=sys.stderr)
        return 1
    for name, written in carried.items():
        print(_written(name, folders[1], written=written)[language == "zh"])
    print(_next(target)[language == "zh"])
    return 0


def copy_files(
    source: Lab, target: Lab, here: Path, there: Path, keep: Callable[[Path], None] | None
) -> dict[str, bool]:
    """Copy the files; by name, whether each had to be written.

    ``keep`` is called with a changed file before it is overwritten; None: nothing may be.

    Raises:
        CarryError: no file is common, one is absent or untouched, or one in the target's folder
            was changed. Nothing is written then.
    """
    common = [name for name in source.files if name in target.files]
    if not common:
        raise CarryError(
            (
                f"{source.name} and {target.name} have no file in common; carry FROM=2 TO=4 does.",
                f"{source.name} 与 {target.name} 没有相同的文件；可以用 FROM=2 TO=4。",
            )
        )
    found: dict[str, bytes] = {}
    for name in common:
        path = here / name
        if not path.is_file():
            raise CarryError((f"{path} is absent.", f"找不到 {path}。"))
        found[name] = path.read_bytes()
        if is_untouched(found[name].decode("utf-8", errors="replace")):
            raise CarryError(
                (
                    f"{path} is still as it was handed out; do that lab first.",
                    f"{path} 还是发下来时的样子；请先完成那个实验。",
                )
            )
    for name in common:
        lacking = _lacking(there / name, found[name])
        if lacking:
            raise CarryError(
                (
                    f"{target.name} does not build on {source.name}: its {name} has "
                    f"{', '.join(lacking)}; carry FROM=2 TO=4 does.",
                    f"{target.name} 不以 {source.name} 为基础：它的 {name} 中有 "
                    f"{'、'.join(lacking)}；可以用 FROM=2 TO=4。",
                )
            )
    changed = [name for name in common if _is_work(there / name, found[name])]
    if changed and keep is None:
        raise CarryError(
            (
                f"{', '.join(changed)} in {there} was changed and would be overwritten; add "
                "FORCE=1 (--force) to do so, or copy by hand.",
                f"{there} 中的 {'、'.join(changed)} 已被修改，会被覆盖；"
                "确定要覆盖请加 FORCE=1（--force），或手动复制。",
            )
        )
    written = {}
    for name, text in found.items():
        path = there / name
        written[name] = not path.is_file() or path.read_bytes() != text
        if written[name]:
            if keep is not None and name in changed:
                keep(path)
            path.write_bytes(text)
    return written


def _lacking(wanted: Path, text: bytes) -> list[str]:
    """Return what a file that was handed out defines and ``text`` does not."""
    if not wanted.is_file() or _is_work(wanted, text):
        return []  # somebody works in it, so it holds what they like
    try:
        return sorted(_defined(wanted.read_bytes()) - _defined(text))
    except (SyntaxError, ValueError):
        return []  # no Python yet; the checks will say where


def _defined(text: bytes) -> set[str]:
    """Functions and classes of a source."""
    body = ast.parse(text).body
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def _is_work(path: Path, wanted: bytes) -> bool:
    """Return whether a file holds something that copying ``wanted`` over it would lose."""
    if not path.is_file() or path.read_bytes() == wanted:
        return False
    return not is_untouched(path.read_text(encoding="utf-8", errors="replace"))


def _written(name: str, folder: Path, *, written: bool) -> Said:
    if written:
        return f"carried    {folder / name}", f"已带来    {folder / name}"
    return f"unchanged  {folder / name}", f"无变化    {folder / name}"


def _next(target: Lab) -> Said:
    command = command_of(number_of(target), "test")
    return (
        f"next: {command} (its README says what is still to be added)",
        f"下一步：{command}（还需要补充什么，见其 README）",
    )
