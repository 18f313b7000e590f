"""Tools for notebooks: a student's code as the files are now, ``%check`` and ``%hint``.

``%check lab2``, ``%check lab2 rotary`` and ``%hint`` do what ``make test`` and ``make hint`` do,
in a process of their own: what is checked is what is saved, whatever the notebook has in memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from inspect import unwrap
from types import SimpleNamespace
from typing import Any

from autograder.course import chart_labels, labfile, messages
from autograder.worker.loader import StudentModules, read_sources

TODO = "TODO · 尚未完成"  # how the sentence of a cell begins whose code is not written yet
RIGHT = "as expected · 符合预期"
WRONG = "NOT as expected · 与预期不符"

# What tells a student how to go on.
_COMMAND = re.compile(
    r"(?:'[^'\n]+'|\S+) -m autograder (?P<verb>test|hint)"
    r" --lab (?P<lab>\d+)(?: -k (?P<name>[\w.]+))?"
)
# Fonts that have Chinese characters, on Linux, macOS and Windows.
_CHINESE = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
)
_last = "2"  # the lab that this notebook used last: what %check and %hint mean without a name


@contextmanager
def your_code(lab_name: str) -> Iterator[SimpleNamespace]:
    """Everything that your files of a lab define, as they are on disk now.

    Where the block meets a TODO, one sentence says so in place of a traceback, and the rest of
    the block is left out, with the figure it had begun. Random numbers begin anew: a cell shows
    the same every time. No gradients are kept.

    Args:
        lab_name: ``lab2``, say.

    Raises:
        LabError: no lab goes by that name.
    """
    import torch

    global _last
    lab = labfile.load(labfile.find_lab(lab_name))
    _last = lab_name
    torch.manual_seed(0)
    modules = StudentModules(*read_sources(lab.folder, lab.files)).install()
    names: dict[str, Any] = {}
    try:
        for file in lab.files:
            names |= vars(modules.module(file))
        with torch.no_grad():
            yield SimpleNamespace(**names)
    except NotImplementedError as error:
        if not str(error).startswith("TODO lab"):
            raise
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        print(_open(str(error).removeprefix("TODO ").split(":")[0], lab.name))
    finally:
        modules.remove()


def verdict(right: bool) -> str:
    """The last word of an experiment."""
    return RIGHT if right else WRONG


def draw_chinese() -> None:
    """Let charts take Chinese characters from a font of this machine: without one, they are boxes.

    Where a font is found and the language is Chinese, labels that the course's table holds are
    drawn in Chinese. Everything else is drawn as before. Does nothing where no charts are drawn.
    """
    if "matplotlib" not in sys.modules:
        return
    from matplotlib import font_manager, rcParams

    here = {font.name for font in font_manager.fontManager.ttflist}
    found = next((name for name in _CHINESE if name in here), None)
    if found is not None and found not in rcParams["font.family"]:
        rcParams["font.family"] = [*rcParams["font.family"], found]
    if found is not None and messages.language() == "zh":
        _label_in_chinese(chart_labels.load(labfile.ROOT))


def _label_in_chinese(table: Mapping[str, str]) -> None:
    """Let matplotlib show each text as ``table`` has it."""
    import matplotlib.text

    text: Any = matplotlib.text.Text
    set_text = unwrap(text.set_text)  # loaded twice: not one around the other
    known = cache(lambda label: chart_labels.in_chinese(label, table))

    @wraps(set_text)
    def shown(self: object, s: object) -> None:
        set_text(self, known(s) if isinstance(s, str) else s)

    text.set_text = shown


def add_magics(shell: Any) -> None:
    """Register ``%check`` and ``%hint`` with an IPython shell."""
    shell.register_magic_function(check, "line", "check")
    shell.register_magic_function(hint, "line", "hint")


def check(line: str) -> None:
    """``%check [LAB] [NAME]``: run the public checks on your saved files."""
    _run("test", line)


def hint(line: str) -> None:
    """``%hint [LAB] [NAME]``: a hint for the first open exercise; asked again it says more."""
    _run("hint", line)


def _run(command: str, line: str) -> None:
    """Print what a command of the command line says about ``[LAB] [NAME]``."""
    lab, match = _asked(line.split())
    words = [sys.executable, "-m", "autograder", command, "--lab", lab]
    done = subprocess.run(
        [*words, *(("-k", match) if match else ())],
        cwd=labfile.ROOT,
        env=os.environ | {"PYTHONUTF8": "1", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    print(_COMMAND.sub(_magic, done.stdout).rstrip())


def _magic(command: re.Match[str]) -> str:
    """A command for the terminal as what a cell says for it."""
    verb = "check" if command["verb"] == "test" else "hint"
    return " ".join(filter(None, (f"%{verb}", f"lab{command['lab']}", command["name"])))


def _asked(words: list[str]) -> tuple[str, str]:
    """The lab and the name; without a lab it is the one that was used last."""
    global _last
    # lab2.mlp, with its dot, is an exercise.
    if words and re.fullmatch(r"\d+|lab\w+", words[0]):
        _last = words.pop(0)
    return _last, words[0] if words else ""


def _open(exercise: str, lab_name: str) -> str:
    return (
        f"{TODO}: {exercise}. Write it in labs/{lab_name}, save, and run this cell again.\n"
        f"请在 labs/{lab_name} 中写好 {exercise} 并保存，再重新运行本单元。"
    )
