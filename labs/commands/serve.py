"""``serve``: a hand-in's engine as a server of completions, on this machine alone."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from autograder.course.records import Text, ToldError
from autograder.worker.loader import StudentModules
from labs.commands import chat
from labs.commands.completions import HERE, Server, Service
from labs.commands.desk import Desk
from labs.commands.engine_parts import EngineParts, Sizes, built
from labs.commands.own_code import ChatError, explained, importable, said_in

GRACE = 10.0  # seconds for what runs when the server ends


def run(files: Mapping[str, str], checkpoint: Path, port: int, language: str = "") -> int:
    """Serve until the keyboard ends it.

    Args:
        files: file name in the lab to the path of the student's.
        checkpoint: folder in Hugging Face format with a ``tokenizer.json``.
        port: where to listen; 0 takes a free one.
        language: of messages; both languages for none.

    Returns:
        0, or 1 after a friendly message on stderr.
    """
    try:
        with importable(files) as modules:
            _serve(modules, files, checkpoint, port, language)
    except KeyboardInterrupt:
        return 130  # before anybody could be served
    except BaseException as error:  # a hand-in may raise anything, SystemExit too
        print(_said(error, files, language), file=sys.stderr)
        return 1
    return 0


def _said(error: BaseException, files: Mapping[str, str], language: str) -> str:
    if isinstance(error, ToldError):
        return said_in(error.said, language)
    return explained(error, files, language)


def _serve(
    modules: StudentModules, files: Mapping[str, str], checkpoint: Path, port: int, language: str
) -> None:
    with listening(modules, files, checkpoint, port, language) as (server, desk):
        welcome = _welcome(server.server_port, server.service.model)
        print(said_in(welcome, language), flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    print("\n" + said_in(desk.counts(), language), flush=True)


@contextmanager
def listening(
    modules: StudentModules, files: Mapping[str, str], checkpoint: Path, port: int, language: str
) -> Iterator[tuple[Server, Desk]]:
    """A server that listens, and the desk behind it, whose engine runs in a thread of its own.

    Raises:
        ChatError: the checkpoint, the port, or a name in the hand-in is not as it must be.
    """
    tokenizer = chat.tokenizer_of(modules, checkpoint)

    def encode(text: str) -> Sequence[int]:
        found = tokenizer.encode(text)
        ids: Sequence[int] = getattr(found, "ids", found)
        return ids

    def build() -> EngineParts:
        return built(modules, checkpoint, Sizes())

    desk = Desk(build, lambda error: _said(error, files, language))
    say = partial(said_in, language=language)
    service = Service(desk, encode, checkpoint.name, say)
    try:
        server = Server(port, service)
    except (OSError, OverflowError) as error:
        raise ChatError(
            f"Port {port} is not to be had ({error}); take another: PORT=8001 (--port 8001)",
            f"端口 {port} 不可用（{error}）；请换一个：PORT=8001（--port 8001）",
        ) from None
    thread = threading.Thread(target=desk.run, daemon=True)
    thread.start()
    try:
        yield server, desk
    finally:
        server.server_close()
        desk.close()
        thread.join(GRACE)


def _welcome(port: int, model: str) -> Text:
    url = f"http://{HERE}:{port}/v1"
    body = json.dumps({"model": model, "prompt": "The whale", "max_tokens": 40, "stream": True})
    curl = f"curl -N {url}/completions -H 'Content-Type: application/json' -d '{body}'"
    return Text(
        f"Your engine serves at {url} (Ctrl-C ends it). In another terminal:\n{curl}",
        f"你的引擎已在 {url} 提供服务（按 Ctrl-C 结束）。在另一个终端里运行：\n{curl}",
    )
