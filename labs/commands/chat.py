"""Lets a hand-in talk: its attention and MLP inside the tiny checkpoint, streamed as text."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from autograder.course.records import Lab, Text, ToldError
from autograder.worker.loader import StudentModules
from labs.commands import engine_chat, engine_parts, rank_chat
from labs.commands.engine_parts import ENGINE
from labs.commands.own_code import ChatError, class_of, explained, few_threads, importable, said_in

if TYPE_CHECKING:
    import torch
    from torch import nn


# Chat through a hand-in that has a model of its own: its loader, its ``generate``, its cache.

MODEL = "model.py"
TOKENIZER = "tokens.py"  # of a hand-in whose tokenizer is to be used
MEASURED = 256, 33  # tokens of the prompt, and new ones, on which speed is measured


class Decoder(Protocol):
    """The half of a tokenizer that writes."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""


class TokenStream:
    """Text as tokens bring it: what is new after each, once its characters are whole."""

    def __init__(self, tokenizer: Decoder, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._tokens = list(prompt)
        self._text = tokenizer.decode(self._tokens)
        self._shown = len(self._text)

    def add(self, token: int) -> str:
        """Take a token; the new text, empty while a character of several tokens is open."""
        self._tokens.append(token)
        self._text = self._tokenizer.decode(self._tokens)
        return "" if self._text.endswith("\ufffd") else self.rest()

    def rest(self) -> str:
        """Return what was held back."""
        piece, self._shown = self._text[self._shown :], max(self._shown, len(self._text))
        return piece


def talk(
    load: Callable[..., Any],
    generate: Callable[..., Any],
    parts: Sequence[Any],
    checkpoint: Path,
    streamed: TokenStream,
    prompt: str,
    tokens: Sequence[int],
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
) -> Text:
    """Continue a prompt and print the text as it comes.

    Args:
        load: the student's ``load_hf_checkpoint``.
        generate: the student's ``generate``.
        parts: attention and MLP class.
        checkpoint: folder in Hugging Face format.
        streamed: made of the same tokens.
        prompt: as text.
        tokens: as tokens.
        max_new_tokens: how many to add.
        temperature: of the student's sampling; 0 takes the likeliest token.
        seed: of chance.

    Returns:
        A line about speed, measured once more on a longer prompt when everything is warm: prefill
        is up to the first token, decode what follows.
    """
    import torch

    model = load(checkpoint, *parts)
    if isinstance(model, torch.nn.Module):
        model.register_forward_hook(_expect_finite)
    times = [perf_counter()]

    def heard(new: torch.Tensor) -> None:
        times.append(perf_counter())
        # The prompt waits for the first token: before that, an error may be all there is to say.
        head = prompt if len(times) == 2 else ""
        print(head + streamed.add(int(new.reshape(-1)[0])), end="", flush=True)

    try:
        with torch.no_grad():
            generate(
                model,
                torch.tensor([list(tokens)]),
                max_new_tokens,
                temperature=temperature,
                generator=torch.Generator().manual_seed(seed),
                eos=_eos(checkpoint),
                on_token=heard,
            )
    finally:
        if len(times) > 1:
            print(streamed.rest())
    if len(times) < 2:
        return Text("generate never called on_token", "generate 没有调用 on_token")
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    length = min(MEASURED[0], int(config.get("max_position_embeddings", 512)) - MEASURED[1])
    ids = torch.tensor([(list(tokens) * length)[: max(1, length)]])
    for new_tokens in (2, MEASURED[1]):  # what is loaded and tried out at first is not counted
        times[:] = [perf_counter()]
        with torch.no_grad():
            generate(model, ids, new_tokens, on_token=lambda new: times.append(perf_counter()))
    return _speed(ids.shape[1], times)


def _expect_finite(model: nn.Module, args: tuple[Any, ...], logits: Any) -> None:
    """Stop where the next token would be chosen among NaN, which no sampler complains about."""
    import torch

    if torch.is_tensor(logits) and not torch.isfinite(logits[:, -1]).all():
        raise ToldError(
            "The logits of your model hold NaN or infinity; does a mask block whole rows, or does "
            "a softmax overflow?",
            "你的模型的 logits 含有 NaN 或无穷大；是不是掩码屏蔽了整行，或 softmax 溢出？",
        )


def _eos(checkpoint: Path) -> int | None:
    """The token that ends a text, where ``config.json`` names one."""
    named = json.loads((checkpoint / "config.json").read_text(encoding="utf-8")).get("eos_token_id")
    return named if isinstance(named, int) else None


def _speed(prompt: int, times: Sequence[float]) -> Text:
    rate = prompt / (times[1] - times[0])
    en = f"prefill {prompt} tokens, {rate:.1f} tokens/s"
    zh = f"预填充 {prompt} 个 token，每秒 {rate:.1f} 个"
    decoded = len(times) - 2
    if decoded:
        rate = decoded / (times[-1] - times[1])
        en += f"; decode {decoded} tokens, {rate:.1f} tokens/s"
        zh += f"；解码 {decoded} 个 token，每秒 {rate:.1f} 个"
    return Text(f"[{en}]", f"[{zh}]")


# Where the two classes that the model is built from stand.
CLASSES = {"attention": "Qwen3Attention", "mlp": "Qwen3MLP"}


class Chance(TypedDict):
    """The rule by which the next token is drawn."""

    temperature: float
    seed: int


def can_talk(lab: Lab) -> bool:
    """Return whether a lab is tried out by chatting once it passes."""
    return lab.after == "chat"


def is_split(lab: Lab) -> bool:
    """Return whether a lab's checks ask for ranks."""
    checks = sorted((lab.folder / "checks").glob("*.py"))
    return any("student.ranks(" in path.read_text(encoding="utf-8") for path in checks)


def can_serve(lab: Lab) -> bool:
    """Return whether a lab has an engine, too, that serves many at once."""
    return can_talk(lab) and ENGINE in lab.files


def run(
    files: Mapping[str, str],
    checkpoint: Path,
    prompt: str,
    max_new_tokens: int,
    language: str = "",
    *,
    temperature: float = 0.0,
    seed: int = 0,
    split: bool = False,
    others: Sequence[str] = (),
) -> int:
    """Continue a prompt with a student's code and print the text as it comes.

    Args:
        files: file name in the lab (``attention.py``, ``mlp.py``) to the path of the student's;
            with a ``tokens.py`` among them, its tokenizer is used.
        checkpoint: folder in Hugging Face format with a ``tokenizer.json``.
        prompt: the text to continue.
        max_new_tokens: how many tokens to add.
        language: of messages; both languages for none.
        temperature: 0 takes the likeliest token, more lets less likely ones through.
        seed: of chance: equal ones give equal texts.
        split: the model is split over ranks, of which this process is one.
        others: more prompts, for a lab with an engine that serves all of them at once.

    Returns:
        0, or 1 after a friendly message on stderr, or 130 when interrupted by the keyboard.
    """
    try:
        if split:
            rank_chat.join()  # before student code is imported
        with importable(files) as modules:
            chance: Chance = {"temperature": temperature, "seed": seed}
            if ENGINE in files:
                _talk_side_by_side(
                    modules, checkpoint, (prompt, *others), max_new_tokens, language, chance
                )
            elif others:
                raise ChatError(
                    "This lab's chat continues one prompt; give --prompt once.",
                    "这个实验的聊天一次只续写一个提示；--prompt 请只给一次。",
                )
            else:
                _talk(modules, checkpoint, prompt, max_new_tokens, language, chance, split=split)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise  # the reader of our output has gone, which is nobody's mistake
    except ToldError as error:
        print(said_in(error.said, language), file=sys.stderr)
    except BaseException as error:  # a hand-in may raise anything, SystemExit too
        print(explained(error, files, language), file=sys.stderr)
    else:
        return 0
    return 1


def _talk(
    modules: StudentModules,
    checkpoint: Path,
    prompt: str,
    max_new_tokens: int,
    language: str,
    chance: Chance,
    *,
    split: bool,
) -> None:
    # Imported late: these take a second, and `--help` must not wait for torch.
    from labs.given.checkpoint import CheckpointError, load_model
    from labs.given.generate import GenerationError, generate

    tokenizer, tokens = tokenized(modules, checkpoint, prompt)
    _expect_both(modules)
    few_threads(checkpoint)
    attention_cls, mlp_cls = (class_of(modules, module, name) for module, name in CLASSES.items())
    if split:
        streamed = TokenStream(tokenizer, tokens)
        _talk_on_ranks(modules, checkpoint, streamed, prompt, tokens, max_new_tokens, chance)
        return
    if MODEL in modules.files.values():  # a lab whose model is the student's own
        streamed = TokenStream(tokenizer, tokens)
        load, own = (class_of(modules, "model", n) for n in ("load_hf_checkpoint", "generate"))
        parts = attention_cls, mlp_cls
        speed = talk(
            load, own, parts, checkpoint, streamed, prompt, tokens, max_new_tokens, **chance
        )
        print(said_in(speed, language))
        return
    try:
        model = load_model(checkpoint, attention_cls, mlp_cls)
    except CheckpointError as error:
        raise ChatError(*str(error).split("\n", 1)) from None
    if chance["temperature"]:
        model.register_forward_hook(_by_chance(**chance))
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


def _talk_side_by_side(
    modules: StudentModules,
    checkpoint: Path,
    prompts: Sequence[str],
    max_new_tokens: int,
    language: str,
    chance: Chance,
) -> None:
    tokens = [tokenized(modules, checkpoint, prompt)[1] for prompt in prompts]
    _expect_both(modules)
    parts = engine_parts.built(modules, checkpoint, engine_chat.SIZES)
    counts = engine_chat.talk(parts, prompts, tokens, max_new_tokens, **chance)
    print(said_in(counts, language))


def _expect_both(modules: StudentModules) -> None:
    missing = [name for name in CLASSES if f"{name}.py" not in modules.files.values()]
    if missing:
        raise ChatError(
            f"Chatting needs {' and '.join(f'{name}.py' for name in missing)} as well.",
            f"聊天还需要 {'、'.join(f'{name}.py' for name in missing)}。",
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no “ is no reason to stop


def tokenized(
    modules: StudentModules, checkpoint: Path, prompt: str
) -> tuple[Decoder, Sequence[int]]:
    """The tokenizer of a checkpoint, or the student's with the same vocabulary, and the prompt.

    Raises:
        ChatError: there is no tokenizer, or no token in the prompt.
    """
    tokenizer = tokenizer_of(modules, checkpoint)
    found = tokenizer.encode(prompt)
    tokens: Sequence[int] = getattr(found, "ids", found)
    if not len(tokens):
        raise ChatError(
            'The prompt is empty; give the model a few words, e.g. PROMPT="The whale".',
            '提示为空；请给模型几个词，例如 PROMPT="The whale"。',
        )
    return tokenizer, tokens


def tokenizer_of(modules: StudentModules, checkpoint: Path) -> Any:
    """The tokenizer of a checkpoint, or the student's with the same vocabulary."""
    vocabulary = checkpoint / "tokenizer.json"
    if not vocabulary.is_file():
        raise ChatError(
            f"{vocabulary} is absent; give a checkpoint folder with its tokenizer.",
            f"找不到 {vocabulary}；请给出带有分词器的检查点文件夹。",
        )
    if TOKENIZER in modules.files.values():
        from labs.given.tokenizer import load_vocabulary

        return class_of(modules, "tokens", "Tokenizer")(*load_vocabulary(checkpoint))
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ChatError(
            "Chatting needs the package 'tokenizers': run `pip install tokenizers`.",
            "聊天需要 tokenizers 这个包：请运行 `pip install tokenizers`。",
        ) from None
    try:
        return Tokenizer.from_file(str(vocabulary))
    except Exception as error:  # the package raises plain Exception
        raise ChatError(
            f"{vocabulary} cannot be read ({error}); fetch it again.",
            f"无法读取 {vocabulary}（{error}）；请重新获取。",
        ) from None


def _talk_on_ranks(
    modules: StudentModules,
    checkpoint: Path,
    streamed: TokenStream,
    prompt: str,
    tokens: Sequence[int],
    max_new_tokens: int,
    chance: Chance,
) -> None:
    model = class_of(modules, "model", "Qwen3ForCausalLM")
    named = (
        ("attention", "Qwen3Attention"), ("attention", "RowParallelLinear"),
        ("mlp", "Qwen3MLP"), ("mlp", "Qwen3DecoderLayer"), ("mlp", "RMSNorm"),
    )  # fmt: skip
    parts = [class_of(modules, *one) for one in named]
    rank_chat.talk(model, parts, checkpoint, streamed, prompt, tokens, max_new_tokens, **chance)


def _by_chance(temperature: float, seed: int) -> Callable[[Any, Any, torch.Tensor], torch.Tensor]:
    """A hook on a model's logits: the likeliest token of what it returns is one drawn by chance.

    Gumbel-max: the largest of logits / temperature + Gumbel noise is a sample of their softmax.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def hook(model: Any, args: Any, logits: torch.Tensor) -> torch.Tensor:
        noise = -torch.empty(logits.shape[-1]).exponential_(generator=generator).log()
        return logits + temperature * noise

    return hook


def stream_text(
    tokenizer: Decoder, prompt: Sequence[int], new_tokens: Iterable[int]
) -> Iterator[str]:
    """Turn tokens into text as they come.

    One character may be spread over several byte-level tokens; its bytes are held back until
    it is whole.
    """
    streamed = TokenStream(tokenizer, prompt)
    for token in new_tokens:
        piece = streamed.add(token)
        if piece:
            yield piece
    rest = streamed.rest()
    if rest:
        yield rest
