"""A hand-in's engine at work: two prompts side by side, and completions over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from autograder.authoring import styles
from autograder.course import labfile
from labs.commands import chat, engine_chat, own_code, serve
from labs.commands.completions import Server
from labs.commands.desk import Desk
from labs.commands.engine_parts import ByteText, EngineParts, Sizes, built, in_bytes
from labs.commands.own_code import importable
from labs.given.checkpoint import load_model
from labs.given.config import Qwen3Config
from labs.given.generate import generate
from labs.given.paged import LoadedMLP, PagedQwen3, Parts
from labs.given.serving import Request
from solutions.lab2_qwen3_block.attention import Qwen3Attention as PlainAttention
from solutions.lab2_qwen3_block.mlp import Qwen3MLP as FloatMLP
from solutions.lab7_engine import attention, engine, mlp
from tests import hand_ins

LAB = labfile.load(labfile.find_lab("7"))
SOLUTION = labfile.SOLUTIONS / LAB.name
TINY = labfile.LABS / "given" / "tiny_qwen3"
FILES = {name: str(SOLUTION / name) for name in LAB.files}
TOKENIZER = Tokenizer.from_file(str(TINY / "tokenizer.json"))
PARTS = attention.Qwen3Attention, attention.BlockPool, attention.BlockTable
PROMPTS = (*engine_chat.PROMPTS, "Call me", "The 鲸 —")
STYLES = styles.folders(LAB.name)


# ---------------------------------------------------------------- the model behind blocks


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """What each prompt is continued with where nothing is paged, with the solution's MLP."""
    whole = load_model(TINY, PlainAttention, LoadedMLP)
    for layer in whole.model.layers:
        layer.mlp = mlp.Qwen3MLP.from_float(layer.mlp.state_dict())
    texts = {}
    for prompt in PROMPTS:
        ids = TOKENIZER.encode(prompt).ids
        new = list(generate(whole, ids, 12))
        texts[prompt] = TOKENIZER.decode(ids + new).removeprefix(prompt)
    return texts


def said(parts: EngineParts, prompts: tuple[str, ...] = PROMPTS) -> dict[str, str]:
    """What an engine continues the prompts with, all of them at once."""
    requests = [
        Request(at, tuple(TOKENIZER.encode(prompt).ids), 12, at)
        for at, prompt in enumerate(prompts)
    ]
    texts = parts.engine(parts.model, parts.scheduler, parts.words).generate(requests)
    return {prompt: read(texts[at]) for at, prompt in enumerate(prompts)}


def read(text: str) -> str:
    reader = ByteText()
    return reader.add(text) + reader.rest()


@pytest.mark.parametrize("folder", STYLES, ids=lambda folder: folder.name)
def test_every_right_style_of_lab7_says_what_a_plain_model_says(
    folder: Path, tmp_path: Path, plain: dict[str, str]
) -> None:
    files = {}
    for name, text in styles.texts_of(folder, LAB.files).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        files[name] = str(tmp_path / name)
    with importable(files) as modules:
        parts = built(
            modules, TINY, Sizes(num_blocks=24, block_size=4, token_budget=8, max_running=3)
        )
        assert said(parts) == plain
        assert parts.scheduler.lost == 0
    assert parts.scheduler.reused == 8  # the second prompt begins as the first


def test_with_float_weights_lab7s_engine_writes_what_transformers_generates() -> None:
    """In chunks, side by side, some of it computed twice: few blocks, and a small budget."""
    from transformers import AutoModelForCausalLM

    class Float(FloatMLP):
        @classmethod
        def from_float(cls, weights: Mapping[str, torch.Tensor]) -> Float:
            made = cls(config)
            made.load_state_dict(weights)
            return made

    config = Qwen3Config.from_json(TINY / "config.json")
    theirs: Any = AutoModelForCausalLM.from_pretrained(TINY, torch_dtype=torch.float32)
    cache = engine.PrefixCache(12, 4)
    words = [f"{number} " for number in range(config.vocab_size)]
    model = PagedQwen3(TINY, Parts(*PARTS, Float), 12, 4)
    ours = engine.Engine(model, engine.Scheduler(cache, 7, 3), words)
    prompts = [tuple(TOKENIZER.encode(prompt).ids) for prompt in PROMPTS]
    made = ours.generate([Request(at, ids, 12, at) for at, ids in enumerate(prompts)])
    for at, ids in enumerate(prompts):
        options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None}
        whole = theirs.eval().generate(torch.tensor([ids]), pad_token_id=0, **options)
        assert made[at] == "".join(words[token] for token in whole[0, len(ids) :].tolist())
    assert cache.available == 12


# ---------------------------------------------------------------- chat


def talked(
    capsys: pytest.CaptureFixture[str], *prompts: str, tokens: int = 12, language: str = "en"
) -> list[str]:
    assert chat.run(FILES, TINY, prompts[0], tokens, language, others=prompts[1:]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out.splitlines()


def columns(rows: list[str], at: int) -> str:
    cells = (row.split(engine_chat.BETWEEN)[at].strip() for row in rows if row.count(" | ") >= at)
    return " ".join(cell for cell in cells if cell)


def test_two_prompts_side_by_side_are_what_each_is_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, plain: dict[str, str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, second = engine_chat.PROMPTS
    *rows, counts = talked(capsys, first, second)
    assert columns(rows, 0) == " ".join((first + plain[first]).split())
    assert columns(rows, 1) == " ".join((second + plain[second]).split())
    assert max(map(len, rows)) < 80
    assert counts == "[13 steps, 36 tokens computed, 8 reused, blocks lost: 0]"
    assert talked(capsys, first, second, language="zh")[-1].endswith("丢失的块：0]")


def test_a_narrow_terminal_gets_one_text_below_the_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, plain: dict[str, str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    *rows, _ = talked(capsys, "Call me", "The 鲸 —")
    for number, prompt in enumerate(("Call me", "The 鲸 —"), 1):
        own = [row[4:] for row in rows if row.startswith(f"{number} |")]
        assert " ".join(" ".join(own).split()) == " ".join((prompt + plain[prompt]).split())
    assert max(map(len, rows)) < 30


def test_a_column_never_changes_a_row_and_cuts_only_what_is_too_long() -> None:
    text = "one two three-and-a-half fourfourfourfourfour\n\n鲸鱼鲸鱼鲸鱼鲸鱼 end"
    whole = engine_chat.Column(10)
    whole.add(text)
    whole.end()
    slow, seen = engine_chat.Column(10), []
    for character in text:
        slow.add(character)
        assert slow.rows[: len(seen)] == seen
        seen = list(slow.rows)
    slow.end()
    assert slow.rows == whole.rows and "" in whole.rows
    assert all(engine_chat.width(row) <= 10 for row in whole.rows)
    assert "".join(whole.rows).replace(" ", "") == "".join(text.split())


def changed(folder: Path, file: str, old: str, new: str) -> dict[str, str]:
    """The solution with one text replaced."""
    files = {}
    for name in LAB.files:
        text = (SOLUTION / name).read_text(encoding="utf-8")
        assert name != file or old in text
        path = folder / name
        path.write_text(text.replace(old, new, 1) if name == file else text, encoding="utf-8")
        files[name] = str(path)
    return files


BROKEN = {
    "todo": ("mlp.py", "return self.down_proj(", 'raise NotImplementedError("TODO lab7.mlp: x")',
             "Not yet: fill in lab7.mlp (mlp.py:"),
    "exception": ("attention.py", "most = max(", "most = len(", "Your code stopped here:"),
    "renamed": ("engine.py", "class Engine:", "class Motor:", "engine.py has no class Engine"),
    "NaN": ("attention.py", "return self.o_proj(mixed.flatten(1))",
            "return self.o_proj(mixed.flatten(1)) / 0 * 0", "NaN or infinity"),
    "never works": ("engine.py", "return Batch(tuple(works))", "return Batch()",
                    "batches of your scheduler in a row are empty"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "words"), BROKEN.values(), ids=list(BROKEN))
def test_what_breaks_is_said_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, words: str
) -> None:
    if "down_proj" in old:
        new += "\n        return self.down_proj("
    files = changed(tmp_path, file, old, new)
    assert chat.run(files, TINY, "Call me", 3, "en", others=["The"]) == 1
    shown = capsys.readouterr()
    assert words in shown.err and "Traceback" not in shown.err and shown.out == ""


def test_too_long_a_text_and_one_prompt_too_many_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert chat.run(FILES, TINY, "Call me", 600, "en", others=["The"]) == 1
    assert "the model can do 512" in capsys.readouterr().err
    older = {n: str(labfile.SOLUTIONS / "lab2_qwen3_block" / n) for n in ("attention.py", "mlp.py")}
    assert chat.run(older, TINY, "Call me", 3, "en", others=["The"]) == 1
    assert "continues one prompt" in capsys.readouterr().err


# ---------------------------------------------------------------- completions


class Client:
    """Asks a server that runs in this process."""

    def __init__(self, server: Server, desk: Desk) -> None:
        self.server, self.desk = server, desk

    def send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, **asked: Any) -> tuple[int, Any]:
        status, body = self.send("POST", "/v1/completions", json.dumps(asked).encode())
        return status, json.loads(body)

    def text(self, **asked: Any) -> str:
        status, answer = self.ask(**asked)
        assert status == 200, answer
        return answer["choices"][0]["text"]

    def streamed(self, **asked: Any) -> tuple[str, str]:
        """The text and the reason of its end, piece by piece."""
        body = json.dumps({**asked, "stream": True}).encode()
        status, answer = self.send("POST", "/v1/completions", body)
        *events, done, rest = answer.decode().split("\n\n")
        assert (status, done, rest) == (200, "data: [DONE]", "")
        choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
        reasons = [choice["finish_reason"] for choice in choices]
        assert len(choices) > 3 and not any(reasons[:-1])
        return "".join(choice["text"] for choice in choices), reasons[-1]

    def counted(self) -> tuple[int, int]:
        """Steps, and blocks that somebody owns."""
        found = re.findall(r"\d+", self.desk.counts().en)
        return int(found[0]), int(found[-1])


@contextmanager
def serving(files: dict[str, str]) -> Iterator[Client]:
    with (
        importable(files) as modules,
        serve.listening(modules, files, TINY, 0, "en") as (server, desk),
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield Client(server, desk)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(FILES) as made:
        yield made
        assert made.counted()[1] == 0


def test_twenty_at_once_are_what_each_is_alone(client: Client) -> None:
    asked = [
        {"prompt": prompt, "max_tokens": 8 + 2 * seed, "temperature": 0.2 * seed, "seed": seed,
         "stop": ["ship", "."]}
        for seed in range(5)
        for prompt in PROMPTS
    ]  # fmt: skip
    alone = [client.text(**one) for one in asked]
    before, _ = client.counted()
    with ThreadPoolExecutor(len(asked)) as pool:
        together = list(pool.map(lambda one: client.text(**one), asked))
        streamed = list(pool.map(lambda one: client.streamed(**one)[0], asked[8:]))
    assert together == alone and streamed == alone[8:]
    assert client.counted()[0] - before < 5 * 16  # one by one they take more steps
    assert client.counted()[1] == 0
    assert len(set(alone)) > 10 and not any("." in text or "ship" in text for text in alone)


def test_an_answer_is_in_openais_form(client: Client, plain: dict[str, str]) -> None:
    asked = {"model": "tiny_qwen3", "prompt": list(PROMPTS), "max_tokens": 12, "temperature": 0}
    for cached in (False, True):
        status, answer = client.ask(**asked)
        assert (status, answer["object"], answer["model"]) == (200, "text_completion", "tiny_qwen3")
        assert [choice["text"] for choice in answer["choices"]] == list(plain.values())
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
        usage = answer["usage"]
        prompt = sum(len(TOKENIZER.encode(prompt).ids) for prompt in PROMPTS)
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (prompt, 4 * 12)
        assert usage["prompt_tokens_details"]["cached_tokens"] >= 16 * cached
    first = plain[PROMPTS[0]]
    stop = first.split()[2]
    _, answer = client.ask(prompt=PROMPTS[0], max_tokens=12, temperature=0, stop=stop)
    assert answer["choices"][0]["text"] == first.split(stop)[0]
    assert answer["choices"][0]["finish_reason"] == "stop"
    whole = client.streamed(prompt="The 鲸 —", max_tokens=12, temperature=0)
    assert whole == (plain["The 鲸 —"], "length")
    assert json.loads(client.send("GET", "/v1/models")[1])["data"][0]["id"] == "tiny_qwen3"
    assert client.send("GET", "/v1/models/tiny_qwen3")[0] == 200


REFUSED: list[tuple[int, Any]] = [
    (400, b"{"), (400, b"[1]"), (400, b"[" * 99_999), (400, b"\xff"), (413, b" " * 3_000_000),
    (400, {}), (400, {"prompt": ""}), (400, {"prompt": [1, 2]}), (400, {"prompt": []}),
    (400, {"prompt": ["x"] * 99}), (400, {"prompt": {"a": 1}}), (400, {"prompt": "\ud800"}),
    (400, {"prompt": "x", "max_tokens": 0}), (400, {"prompt": "x", "max_tokens": True}),
    (400, {"prompt": "x", "max_tokens": 512}), (400, {"prompt": "x", "max_tokens": 1e9}),
    (400, {"prompt": "x", "temperature": "hot"}), (400, {"prompt": "x", "temperature": -1}),
    (400, b'{"prompt": "x", "temperature": NaN}'), (400, {"prompt": "x", "temperature": 10**400}),
    (400, {"prompt": "x", "seed": -1}), (400, {"prompt": "x", "seed": 2**64}),
    (400, {"prompt": "x", "stop": [""]}), (400, {"prompt": "x", "stop": 5}),
    (400, {"prompt": "x", "stream": "yes"}), (400, {"prompt": "x", "n": 2}),
    (404, {"prompt": "x", "model": "gpt-4"}),
]  # fmt: skip


def test_what_cannot_be_served_gets_an_error_in_openais_form(client: Client) -> None:
    for wanted, body in REFUSED:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = client.send("POST", "/v1/completions", raw)
        error = json.loads(answer)["error"]
        assert status == wanted, (body, error)
        assert error["message"] and error["type"] == "invalid_request_error"
    for method, path, wanted in (
        ("GET", "/", 404), ("GET", "/v1/models/x", 404), ("POST", "/v1/chat/completions", 404),
        ("PUT", "/v1/completions", 405), ("DELETE", "/v1/models", 405),
    ):  # fmt: skip
        status, answer = client.send(method, path, b"" if method == "POST" else None)
        assert (status, set(json.loads(answer))) == (wanted, {"error"})
    assert client.text(prompt="x", max_tokens=3)


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_stops_nobody_and_is_served_no_longer(
    client: Client, plain: dict[str, str], stream: bool
) -> None:
    before, _ = client.counted()
    body = json.dumps({"prompt": "The sea", "max_tokens": 500, "stream": stream}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", client.server.server_port)) as gone:
        gone.sendall(head + body)
        assert not stream or gone.recv(20).startswith(b"HTTP/1.0 200")
    assert client.text(prompt="Call me", max_tokens=12, temperature=0) == plain["Call me"]
    patience = time.monotonic() + 20
    while client.counted()[1] and time.monotonic() < patience:
        time.sleep(0.01)
    steps, lost = client.counted()
    assert lost == 0 and steps - before < 400


DRAWN = [
    {"prompt": prompt, "max_tokens": 12, "temperature": 0.7, "seed": seed, "stop": "wh"}
    for seed, prompt in enumerate(PROMPTS)
]


@pytest.fixture(scope="module")
def alone(client: Client) -> list[str]:
    """What the solution answers to each of them, one by one."""
    return [client.text(**one) for one in DRAWN]


@pytest.mark.parametrize(
    "folder", [one for one in STYLES if (one / "engine.py").is_file()], ids=lambda one: one.name
)
def test_every_style_of_lab7s_engine_takes_requests_while_it_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: list[str]
) -> None:
    """In so few blocks that some go back to the line, and are computed again."""
    text = styles.text_of(folder, "engine.py")
    monkeypatch.setattr(serve, "Sizes", lambda: Sizes(8, 4, token_budget=8, max_running=3))
    with serving(changed(tmp_path, "engine.py", "", "") | written(tmp_path, text)) as made:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda one: made.text(**one), DRAWN)) == alone
        assert made.counted()[1] == 0


def written(folder: Path, text: str) -> dict[str, str]:
    (folder / "engine.py").write_text(text, encoding="utf-8")
    return {"engine.py": str(folder / "engine.py")}


def test_student_code_that_fails_is_said_to_whoever_asked_and_the_server_goes_on(
    tmp_path: Path, plain: dict[str, str]
) -> None:
    head = "texts = {request.id: _Text(request) for request in requests}"
    trap = f"{head}\n        raise_at = {{t.request.max_new_tokens for t in texts.values()}}"
    trap += "\n        if raise_at == {7}: raise SystemExit('seven')"
    with serving(changed(tmp_path, "engine.py", head, trap)) as made:
        for stream in (False, True):
            status, answer = made.ask(prompt="Call me", max_tokens=7, stream=stream)
            assert (status, answer["error"]["type"]) == (503, "server_error")
            said = answer["error"]["message"]
            assert "Your code stopped here:\nengine.py:" in said and "SystemExit: seven" in said
        assert made.text(prompt="Call me", max_tokens=12, temperature=0) == plain["Call me"]
        assert made.counted()[1] == 0


def test_a_taken_port_and_a_lab_without_an_engine_are_said(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.run(FILES, TINY, client.server.server_port, "en") == 1
    assert "take another: PORT=8001" in capsys.readouterr().err
    assert serve.run(FILES, TINY, 99_999, "zh") == 1
    assert "端口 99999 不可用" in capsys.readouterr().err
    other = labfile.load(labfile.find_lab("2"))
    assert chat.can_serve(LAB) and chat.can_talk(LAB) and not chat.can_serve(other)
    assert "lab 7 has it: make serve LAB=7" in str(own_code.not_in(other, "serve", chat.can_serve))
    assert str(own_code.not_in(other, "sing", lambda lab: False)) == f"{other.name} has no sing"


def test_bytes_of_a_character_come_together_again() -> None:
    reader = ByteText()
    assert [reader.add(piece) for piece in in_bytes("鲸!")] == ["", "", "鲸", "!"]
    assert reader.add(in_bytes("鱼")[:2]) == "" and reader.rest() == "\ufffd"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_keyboard_ends_it_cleanly() -> None:
    command = [sys.executable, "-m", "autograder", "serve", "--lab", "7", "--port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--folder", str(SOLUTION), "--lang", "en"], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=labfile.ROOT,
        preexec_fn=hand_ins.heed_interrupts,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/v1 ", process.stdout.readline())
        assert found and process.stdout.readline().startswith("curl -N ")
        body = json.dumps({"prompt": "The sea", "max_tokens": 500, "stream": True}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("POST", "/v1/completions", body)
        assert connection.getresponse().readline().startswith(b"data: ")
        process.send_signal(signal.SIGINT)  # in the middle of a text
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and error == "" and out.endswith("blocks lost: 0]\n")
