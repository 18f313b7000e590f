"""``reset``: a lab's files as they were handed out; what stood there is kept."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from itertools import chain, count
from pathlib import Path

from autograder.course import handed_out, labfile
from autograder.course.atomic import write_atomic
from autograder.course.messages import render
from autograder.course.records import Lab, Message
from autograder.report.next_step import command_of, number_of

BACKUPS = labfile.ROOT / "backups"
# Makes the files anew where the solutions are: a student's copy carries them instead.
STUBS = "autograder.authoring.stubs"


def run(lab_name: str, folder: Path | None, match: str, language: str) -> int:
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
    texts = _texts(lab)
    if texts is None:
        print(_say("no_originals", language, folder=lab.folder), file=sys.stderr)
        return 1
    backup = backup_of(lab)
    for name in wanted:
        path = place / name
        if path.is_file() and path.read_bytes() == texts[name].encode():
            print(_say("unchanged", language, file=path))
            continue
        if path.is_file():
            print(keep(path, backup, language))
        write_atomic(path, texts[name])
        print(_say("put_back", language, file=path))
    print(render(Message("board.next", {"command": command_of(number_of(lab), "test")}), language))
    return 0


def backup_of(lab: Lab) -> Path:
    """A folder, not there yet, for all files that one command overwrites."""
    folder = BACKUPS / f"{lab.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    numbered = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(path for path in chain((folder,), numbered) if not path.exists())


def keep(path: Path, backup: Path, language: str) -> str:
    """Copy a file that is about to be overwritten into ``backup``, and say so."""
    backup.mkdir(parents=True, exist_ok=True)
    (backup / path.name).write_bytes(path.read_bytes())
    return _say("kept", language, file=backup / path.name)


def _texts(lab: Lab) -> dict[str, str] | None:
    """The files as they were handed out, by name."""
    kept = handed_out.load(lab.folder)
    if kept is None and importlib.util.find_spec(STUBS.rpartition(".")[0]) is not None:
        made: dict[str, str] = importlib.import_module(STUBS).stubs(lab)
        return made
    return kept


def _say(name: str, language: str, **values: object) -> str:
    return render(Message(f"reset.{name}", values), language)
