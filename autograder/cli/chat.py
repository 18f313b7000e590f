"""Lets a hand-in talk: its attention and MLP inside the tiny checkpoint, streamed as text."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.cli import chat_whole
from autograder.course import labfile
from autograder.course.labfile import LabError
from autograder.course.load_lab import StudentModules
from autograder.course.records import Lab
from autograder.course.text import Text, ToldError
from autograder.report.next_step import number_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Where the two classes that the model is built from stand.
CLASSES = {"attention": "Qwen3Attention", "mlp": "Qwen3MLP"}

# What Python says where a lab gives a cache to attention that was carried over without one.
NO_CACHE_YET = "got an unexpected keyword argument 'past'"


class ChatError(ToldError):
    """Something to tell the student: a sentence in English and one in Chinese."""


def can_talk(lab: Lab) -> bool:
    """Whether a lab builds both classes: then its checks make them by these very names.

    Where they are split over ranks, no single process can talk.
    """
    checks = [p.read_text(encoding="utf-8") for p in sorted((lab.folder / "checks").glob("*.py"))]
    named = [f"{module}.{name}" for module, name in CLASSES.items()]
    split = any("student.ranks(" in text for text in checks)
    return not split and all(any(name in text for text in checks) for name in named)


def nobody_to_talk_to(lab: Lab) -> LabError:
    """For a lab that has no chat: which ones have."""
    labs = (labfile.load(path.parent) for path in sorted(labfile.LABS.glob("*/lab.toml")))
    able = [number_of(one) for one in labs if can_talk(one)]
    return LabError(
        f"{lab.name} has no chat; labs {', '.join(able)} have: make chat LAB={able[0]}",
        f"{lab.name} 没有聊天功能；实验 {'、'.join(able)} 有：make chat LAB={able[0]}",
    )


def run(
    files: Mapping[str, str],
    checkpoint: Path,
    prompt: str,
    max_new_tokens: int,
    language: str = "",
) -> int:
    """Continue a prompt greedily with a student's code and print the text as it comes.

    Args:
        files: file name in the lab (``attention.py``, ``mlp.py``) to the path of the student's.
        checkpoint: folder in Hugging Face format with a ``tokenizer.json``.
        prompt: the text to continue.
        max_new_tokens: how many tokens to add.
        language: of messages; both languages for none.

    Returns:
        0, or 1 after a friendly message on stderr, or 130 when interrupted by the keyboard.
    """
    try:
        with _importable(files) as modules:
            _talk(modules, checkpoint, prompt, max_new_tokens, language)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise  # the reader of our output has gone, which is nobody's mistake
    except ToldError as error:
        print(_in(error.said, language), file=sys.stderr)
    except BaseException as error:  # a hand-in may raise anything, SystemExit too
        print(_explain(error, files, language), file=sys.stderr)
    else:
        return 0
    return 1


def _talk(
    modules: StudentModules, checkpoint: Path, prompt: str, max_new_tokens: int, language: str
) -> None:
    # Imported late: these take a second, and `--help` must not wait for torch.
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ChatError(
            "Chatting needs the package 'tokenizers': run `pip install tokenizers`.",
            "聊天需要 tokenizers 这个包：请运行 `pip install tokenizers`。",
        ) from None
    from labs.given.checkpoint import CheckpointError, load_model
    from labs.given.generate import GenerationError, generate

    vocabulary = checkpoint / "tokenizer.json"
    if not vocabulary.is_file():
        raise ChatError(
            f"{vocabulary} is absent; give a checkpoint folder with its tokenizer.",
            f"找不到 {vocabulary}；请给出带有分词器的检查点文件夹。",
        )
    try:
        tokenizer = Tokenizer.from_file(str(vocabulary))
    except Exception as error:  # the package raises plain Exception
        raise ChatError(
            f"{vocabulary} cannot be read ({error}); fetch it again.",
            f"无法读取 {vocabulary}（{error}）；请重新获取。",
        ) from None
    tokens = tokenizer.encode(prompt).ids
    if not tokens:
        raise ChatError(
            'The prompt is empty; give the model a few words, e.g. PROMPT="The whale".',
            '提示为空；请给模型几个词，例如 PROMPT="The whale"。',
        )
    missing = [name for name in CLASSES if f"{name}.py" not in modules.files.values()]
    if missing:
        raise ChatError(
            f"Chatting needs {' and '.join(f'{name}.py' for name in missing)} as well.",
            f"聊天还需要 {'、'.join(f'{name}.py' for name in missing)}。",
        )
    attention_cls, mlp_cls = (_class(modules, module, name) for module, name in CLASSES.items())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no “ is no reason to stop
    if chat_whole.MODEL in modules.files.values():  # a lab whose model is the student's own
        streamed = chat_whole.Streamed(tokenizer, tokens)
        load, own = (_class(modules, "model", n) for n in ("load_hf_checkpoint", "generate"))
        parts = attention_cls, mlp_cls
        speed = chat_whole.talk(
            load, own, parts, checkpoint, streamed, prompt, tokens, max_new_tokens
        )
        print(_in(speed, language))
        return
    try:
        model = load_model(checkpoint, attention_cls, mlp_cls)
    except CheckpointError as error:
        raise ChatError(*str(error).split("\n", 1)) from None
    pieces = stream_text(tokenizer, tokens, generate(model, tokens, max_new_tokens))
    try:
        # The prompt waits for the first piece: before that, an error may be all there is to say.
        print(prompt + next(pieces, ""), end="", flush=True)
        try:
            for piece in pieces:
                print(piece, end="", flush=True)
        finally:
            print()
    except GenerationError as error:
        raise ChatError(*str(error).split("\n", 1)) from None


def stream_text(
    tokenizer: Tokenizer, prompt: Sequence[int], new_tokens: Iterable[int]
) -> Iterator[str]:
    """Turn tokens into text as they come.

    One character may be spread over several byte-level tokens; its bytes are held back until
    it is whole.
    """
    streamed = chat_whole.Streamed(tokenizer, prompt)
    for token in new_tokens:
        piece = streamed.add(token)
        if piece:
            yield piece
    rest = streamed.rest()
    if rest:
        yield rest


@contextmanager
def _importable(files: Mapping[str, str]) -> Iterator[StudentModules]:
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


def _class(modules: StudentModules, module: str, name: str) -> Any:
    found = getattr(modules.module(f"{module}.py"), name, None)
    if found is None:
        kind = "class" if name[0].isupper() else "function"
        raise ChatError(
            f"{module}.py has no {kind} {name}; it must keep the name it had in the hand-out.",
            f"{module}.py 里没有 {name}；请保留发下来时的名字。",
        )
    return found


def _in(text: Text, language: str) -> str:
    return text.in_(language) if language else f"{text.en}\n{text.zh}"


def _explain(error: BaseException, files: Mapping[str, str], language: str) -> str:
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
            f"Not yet: fill in {todo}, then come back to chat.",
            f"还差一步：请先完成 {todo}，然后再来聊天。",
        )
        return _in(not_yet, language)
    said = f"{type(error).__name__}: {text}"
    if place:
        here = Text("Your code stopped here:", "你的代码在这里出错：")
        return f"{_in(here, language)}\n{place}\n{said}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    around = Text(
        "Your code ran, but the model around it could not go on with what it returned; "
        "compare the shapes with the docstrings.",
        "你的代码运行完了，但外层模型无法使用它返回的结果；请对照文档字符串检查形状。",
    )
    where = f"{Path(last.filename).name}:{last.lineno}: {last.line}"
    return f"{_in(around, language)}\n{where}\n{said}"


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
