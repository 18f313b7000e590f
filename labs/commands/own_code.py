"""A student's files as modules of this process, and what is said when they fail."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from autograder.course import labfile
from autograder.course.labfile import LabError
from autograder.course.records import Lab, Text, ToldError
from autograder.report.next_step import number_of
from autograder.worker.loader import StudentModules

SMALL = 512  # hidden size
# What Python says where a lab gives a cache to attention that was carried over without one.
NO_CACHE_YET = "got an unexpected keyword argument 'past'"


class ChatError(ToldError):
    """Something to tell the student: a sentence in English and one in Chinese."""


def not_in(lab: Lab, command: str, able: Callable[[Lab], bool]) -> LabError:
    """For a lab that lacks a command: which ones have it."""
    labs = (labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml")))
    have = [number_of(one) for one in labs if able(one)]
    en, zh = f"{lab.name} has no {command}", f"{lab.name} 没有 {command}"
    if have:
        line = f"make {command} LAB={have[0]}"
        which = f"labs {', '.join(have)} have" if len(have) > 1 else f"lab {have[0]} has"
        en, zh = f"{en}; {which} it: {line}", f"{zh}；实验 {'、'.join(have)} 有：{line}"
    return LabError(en, zh)


@contextmanager
def importable(files: Mapping[str, str]) -> Iterator[StudentModules]:
    """Make ``from attention import X`` find the student's file, and clean up afterwards."""
    sources = {}
    for name, path in files.items():
        if not Path(path).is_file():
            raise ChatError(f"The file {path} is absent.", f"找不到文件 {path}。")
        try:
            sources[name] = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ChatError(
                f"{path} is not UTF-8; save it as UTF-8.",
                f"{path} 不是 UTF-8 编码；请另存为 UTF-8。",
            ) from None
    names = [name.removesuffix(".py") for name in files]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    modules = StudentModules(sources, dict(files)).install()
    try:
        yield modules
    finally:
        modules.remove()
        sys.modules.update(before)


def few_threads(checkpoint: Path) -> None:
    """Let torch use one thread for a small model, whose threads only wait for each other."""
    import torch

    # What is wrong with the file is said where the model is loaded.
    with suppress(OSError, ValueError, AttributeError, TypeError):
        config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
        if config.get("hidden_size") < SMALL:
            torch.set_num_threads(1)


def class_of(modules: StudentModules, module: str, name: str) -> Any:
    """A class or function of one of the student's files; ChatError where there is none."""
    found = getattr(modules.module(f"{module}.py"), name, None)
    if found is None:
        kind = "class" if name[0].isupper() else "function"
        raise ChatError(
            f"{module}.py has no {kind} {name}; it must keep the name it had in the hand-out.",
            f"{module}.py 里没有 {name}；请保留发下来时的名字。",
        )
    return found


def said_in(text: Text, language: str) -> str:
    """A text in ``language``; in both for none."""
    return text.in_(language) if language else f"{text.en}\n{text.zh}"


def explained(error: BaseException, files: Mapping[str, str], language: str) -> str:
    """Say in a few lines what went wrong, and at which line of the student."""
    place = _place(error, files)
    text = str(error)
    todo = ""
    if isinstance(error, NotImplementedError) and text.startswith("TODO lab"):
        where = f" ({place.splitlines()[0]})" if place else ""
        todo = text.removeprefix("TODO ").split(":")[0] + where
    elif isinstance(error, TypeError) and text.endswith(NO_CACHE_YET):
        todo = "lab4.past"
    if todo:
        not_yet = Text(
            f"Not yet: fill in {todo}, then come back.",
            f"还没有写完：请先完成 {todo}，然后再来。",
        )
        return said_in(not_yet, language)
    said = f"{type(error).__name__}: {text}"
    if place:
        here = Text("Your code stopped here:", "你的代码在这里出错：")
        return f"{said_in(here, language)}\n{place}\n{said}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    around = Text(
        "Your code ran, but the model around it could not go on with what it returned; "
        "compare the shapes with the docstrings.",
        "你的代码运行完了，但外层模型无法使用它返回的结果；请对照文档字符串检查形状。",
    )
    where = f"{Path(last.filename).name}:{last.lineno}: {last.line}"
    return f"{said_in(around, language)}\n{where}\n{said}"


def _place(error: BaseException, files: Mapping[str, str]) -> str:
    """``file:line`` and the text of the student's innermost line; empty if none took part."""
    own = {str(Path(path).resolve()): name for name, path in files.items()}
    if isinstance(error, SyntaxError) and error.filename:
        name = own.get(str(Path(error.filename).resolve()))
        if name:
            return f"{name}:{error.lineno}\n    {(error.text or '').strip()}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = own.get(str(Path(frame.filename).resolve()))
        if name:
            return f"{name}:{frame.lineno}\n    {frame.line}"
    return ""
