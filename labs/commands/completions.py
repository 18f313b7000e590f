"""Completions over HTTP in OpenAI's form: what is asked, what is refused, what is answered.

Reference: ``POST /v1/completions`` and ``GET /v1/models`` of https://platform.openai.com/docs/api-reference.
"""

from __future__ import annotations

import itertools
import json
import math
import queue
import random
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from autograder.course.records import Text
from labs.commands.desk import Desk, Seat, TextEnd
from labs.commands.engine_parts import ByteText, in_bytes

HERE = "127.0.0.1"
MOST_BYTES = 1 << 20  # of a body
MOST_PROMPTS = 32  # in one request
MOST_STOPS = 16
PATIENCE = 30.0  # seconds until a client that neither sends nor reads is left
# What a completion could ask for and does not get here, with the values that ask for nothing.
NOT_HERE = {"n": (1,), "best_of": (1,), "echo": (False,), "logprobs": (), "suffix": ("",)}
SERVER_ERROR = "server_error"


class Refusal(Exception):
    """A request that gets an error instead of a text."""

    def __init__(self, status: int, said: Text, param: str | None = None, code: str = "") -> None:
        super().__init__(said.en)
        self.status, self.said, self.param, self.code = status, said, param, code


@dataclass(frozen=True)
class CompletionRequest:
    """A request for completions, as it is served."""

    prompts: tuple[str, ...]
    max_tokens: int = 16
    temperature: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    stream: bool = False


def _bad(param: str, en: str, zh: str) -> Refusal:
    return Refusal(400, Text(f"{param}: {en}", f"{param}：{zh}"), param)


def read(body: bytes, model: str) -> CompletionRequest:
    """Read the body of a request.

    Raises:
        Refusal: it cannot be served; says why.
    """
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, Text("The body is not JSON.", "请求体不是 JSON。")) from None
    if not isinstance(raw, dict):
        raise Refusal(400, Text("The body is no JSON object.", "请求体不是 JSON 对象。"))
    given = {name: value for name, value in raw.items() if value is not None}
    if given.get("model", model) != model:
        said = Text(f"There is one model here: {model}.", f"这里只有一个模型：{model}。")
        raise Refusal(404, said, "model", "model_not_found")
    for name, allowed in NOT_HERE.items():
        if name in given and given[name] not in allowed:
            raise _bad(name, "not supported here.", "这里不支持。")
    stream = given.get("stream", False)
    if not isinstance(stream, bool):
        raise _bad("stream", "give true or false.", "请给 true 或 false。")
    return CompletionRequest(
        prompts=_texts(given, "prompt", MOST_PROMPTS),
        max_tokens=_whole(given, "max_tokens", 16, 1, 1 << 20),
        temperature=_temperature(given.get("temperature", 1.0)),
        seed=_whole(given, "seed", random.getrandbits(31), 0, (1 << 63) - 1),
        stop=_texts(given, "stop", MOST_STOPS) if given.get("stop", []) != [] else (),
        stream=stream,
    )


def _texts(given: dict[str, Any], name: str, most: int) -> tuple[str, ...]:
    value = given.get(name)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not 1 <= len(texts) <= most:
        raise _bad(
            name,
            f"give a string, or a list of 1 to {most}.",
            f"请给一个字符串，或 1 至 {most} 个。",
        )
    for text in texts:
        if not isinstance(text, str) or not text:
            raise _bad(name, "give strings that are not empty.", "请给非空的字符串。")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _bad(name, "holds half a character.", "含有不完整的字符。") from None
    return tuple(texts)


def _whole(given: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _bad(
            name, f"give a whole number from {least} to {most}.", f"请给 {least} 到 {most} 的整数。"
        )
    return value


def _temperature(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(float(str(value))) or not 0 <= float(str(value)) <= 2:
        raise _bad("temperature", "give a number from 0 to 2.", "请给 0 到 2 的数。")
    return float(str(value))


@dataclass
class Service:
    """The parts that handlers of all requests share.

    Attributes:
        desk: where texts are made.
        encode: a tokenizer's half that reads.
        model: its name.
        say: one of the two languages.
    """

    desk: Desk
    encode: Callable[[str], Sequence[int]]
    model: str
    say: Callable[[Text], str]
    numbers: Iterator[int] = field(default_factory=itertools.count)


@dataclass
class _Choice:
    """One text on its way to a client."""

    seat: Seat
    prompt: int  # tokens
    text: ByteText
    ended: TextEnd | None = None


class Completion:
    """One request that is served: its prompts, each in line at the desk."""

    def __init__(self, service: Service, asked: CompletionRequest) -> None:
        """Put the prompts in line.

        Raises:
            Refusal: one of them is too long; none is in line then.
        """
        from labs.given.serving import Request

        self._service, self._heard = service, queue.SimpleQueue[tuple[int, str | TextEnd]]()
        self.id, self._created = f"cmpl-{next(service.numbers)}", int(time.time())
        encoded = [tuple(service.encode(prompt)) for prompt in asked.prompts]
        for ids in encoded:
            if not ids or len(ids) + asked.max_tokens > service.desk.longest:
                raise Refusal(
                    400,
                    Text(
                        f"The prompt has {len(ids)} tokens, and max_tokens is {asked.max_tokens}: "
                        f"together at most {service.desk.longest}, and at least one of the prompt.",
                        f"提示有 {len(ids)} 个 token，max_tokens 为 {asked.max_tokens}："
                        f"合计最多 {service.desk.longest} 个，提示至少一个。",
                    ),
                    "prompt",
                    "context_length_exceeded",
                )
        stop = (*map(in_bytes, asked.stop), *service.desk.end)
        self._choices = []
        for at, ids in enumerate(encoded):
            request = Request(0, ids, asked.max_tokens, 0, stop, asked.temperature, asked.seed)
            seat = service.desk.submit(request, partial(self._hear, at))
            self._choices.append(_Choice(seat, len(ids), ByteText()))

    def _hear(self, at: int, what: str | TextEnd) -> None:
        self._heard.put((at, what))

    def pieces(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield ``(choice, text, reason)`` as they come; a reason says that the choice is over.

        Raises:
            Refusal: student code has failed.
        """
        while any(choice.ended is None for choice in self._choices):
            at, what = self._heard.get()
            choice = self._choices[at]
            if isinstance(what, str):
                if text := choice.text.add(what):
                    yield at, text, None
            elif what.reason == "error":
                raise Refusal(503, Text(what.said, what.said), code="student_code_failed")
            else:
                choice.ended = what
                yield at, choice.text.rest(), what.reason

    def leave(self) -> None:
        """Nobody listens any more."""
        for choice in self._choices:
            choice.seat.gone = True

    def form(self, choices: Sequence[tuple[int, str, str | None]]) -> dict[str, Any]:
        """The JSON of texts, or of pieces of them."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self._created,
            "model": self._service.model,
            "choices": [
                {"index": at, "text": text, "finish_reason": reason, "logprobs": None}
                for at, text, reason in choices
            ],
        }

    def usage(self) -> dict[str, Any]:
        """How many tokens it took; ``cached`` are those that did not have to be computed."""
        prompt = sum(choice.prompt for choice in self._choices)
        ended = [choice.ended for choice in self._choices if choice.ended]
        new = sum(one.tokens for one in ended)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": new,
            "total_tokens": prompt + new,
            "prompt_tokens_details": {"cached_tokens": sum(one.reused for one in ended)},
        }


class Handler(BaseHTTPRequestHandler):
    """One connection of one client, in a thread of its own."""

    server: Server
    timeout = PATIENCE
    server_version, sys_version = "qwen3-labs", ""

    def do_GET(self) -> None:
        """Name the model."""
        service = self.server.service
        one = {"id": service.model, "object": "model", "created": 0, "owned_by": "you"}
        match self.path.partition("?")[0].rstrip("/").split("/")[1:]:
            case ["v1", "models"]:
                self._send(200, {"object": "list", "data": [one]})
            case ["v1", "models", service.model]:
                self._send(200, one)
            case _:
                self._refuse(self._nothing_here())

    def do_POST(self) -> None:
        """Complete prompts."""
        try:
            body = self._body()
            if self.path.partition("?")[0].rstrip("/") != "/v1/completions":
                raise self._nothing_here()
            asked = read(body, self.server.service.model)
            completion = Completion(self.server.service, asked)
        except Refusal as error:
            self._refuse(error)
            return
        try:
            (self._stream if asked.stream else self._whole)(completion)
        finally:
            completion.leave()  # whether it is over or the client has gone

    def _whole(self, completion: Completion) -> None:
        texts: dict[int, tuple[str, str | None]] = {}
        try:
            for at, text, reason in completion.pieces():
                if self._is_alone():
                    return
                texts[at] = texts.get(at, ("", None))[0] + text, reason
        except Refusal as error:
            self._refuse(error)
            return
        form = completion.form([(at, *texts[at]) for at in sorted(texts)])
        self._send(200, form | {"usage": completion.usage()})

    def _stream(self, completion: Completion) -> None:
        begun = False
        try:
            for piece in completion.pieces():
                if not begun:
                    begun = True
                    self._begin(200, "text/event-stream")
                self._event(json.dumps(completion.form([piece])))
        except Refusal as error:
            if begun:
                self._event(json.dumps(self._form(error)))
            else:
                self._refuse(error)
            return
        self._event("[DONE]")

    def _is_alone(self) -> bool:
        """Whether the client has closed the connection; who streams hears of it by writing."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            said = Text("The header Content-Length is missing.", "缺少请求头 Content-Length。")
            raise Refusal(400, said)
        if len(length) > 12 or int(length) > MOST_BYTES:
            # Read some of it all the same: who is still sending would not hear the answer.
            left = min(int(length), 16 * MOST_BYTES)
            while left > 0 and (part := self.rfile.read1(min(left, MOST_BYTES))):
                left -= len(part)
            said = Text(
                f"The body has more than {MOST_BYTES} bytes.", f"请求体超过 {MOST_BYTES} 字节。"
            )
            raise Refusal(413, said)
        return self.rfile.read(int(length))

    def _nothing_here(self) -> Refusal:
        return Refusal(
            404,
            Text(
                "Nothing is here; there are POST /v1/completions and GET /v1/models.",
                "这里什么也没有；可用的是 POST /v1/completions 和 GET /v1/models。",
            ),
        )

    def _form(self, error: Refusal) -> dict[str, Any]:
        kind = SERVER_ERROR if error.status >= 500 else "invalid_request_error"
        said = self.server.service.say(error.said)
        told = {"message": said, "type": kind, "param": error.param, "code": error.code or None}
        return {"error": told}

    def _refuse(self, error: Refusal) -> None:
        self._send(error.status, self._form(error))

    def _send(self, status: int, form: dict[str, Any]) -> None:
        body = json.dumps(form, ensure_ascii=False).encode("utf-8", "replace")
        self._begin(status, "application/json; charset=utf-8", len(body))
        self.wfile.write(body)

    def _begin(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _event(self, text: str) -> None:
        self.wfile.write(f"data: {text}\n\n".encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error of the standard library in the form of all others."""
        code = 405 if code == 501 else code  # another method than the two
        text = message or self.responses.get(code, ("error",))[0]
        self.close_connection = True
        self._refuse(Refusal(code, Text(text, text)))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for what is said there."""


class Server(ThreadingHTTPServer):
    """Listens on this machine alone."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, service: Service) -> None:
        """Listen; ``port`` 0 takes a free one.

        Raises:
            OSError: the port is taken, or nobody may take it.
        """
        self.service = service
        super().__init__((HERE, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing where a client has gone; its seat is let go of."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
