"""``carry``: takes a student's files of one lab along into another that builds on them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

from autograder.cli import reset
from autograder.course.handed_out import is_untouched
from autograder.course.labfile import LabError
from autograder.course.records import Lab
from autograder.report.next_step import command_of, number_of

Said = tuple[str, str]  # English, Chinese


class CarryError(LabError):
    """Nothing was carried; says why."""

    def __init__(self, said: Said) -> None:
        super().__init__(*said)


def run(source: Lab, target: Lab, folders: tuple[Path, Path], language: str, *, force: bool) -> int:
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
    backup = reset.backup_of(target)

    def keep(path: Path) -> None:
        print(reset.keep(path, backup, language))

    try:
        carried = carry(source, target, *folders, keep if force else None)
    except CarryError as error:
        print(error.said.in_(language), file=sys.stderr)
        return 1
    for name, written in carried.items():
        print(_written(name, folders[1], written=written)[language == "zh"])
    print(_next(target)[language == "zh"])
    return 0


def carry(
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
    """What a file that was handed out defines and ``text`` does not."""
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
    """Whether a file holds something that copying ``wanted`` over it would lose."""
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
