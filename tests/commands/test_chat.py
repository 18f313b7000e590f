"""Chatting with a hand-in: text where it works, one friendly message where it does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from autograder.cli.main import main
from labs.commands import chat
from labs.commands.chat import run, stream_text

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "labs" / "given" / "tiny_qwen3"
SOLUTIONS = ROOT / "solutions" / "lab2_qwen3_block"


def _hand_in(folder: Path, file: str = "", old: str = "", new: str = "") -> dict[str, str]:
    """Copy the reference solution, with one text replaced."""
    paths = {}
    for name in ("attention.py", "mlp.py"):
        text = (SOLUTIONS / name).read_text(encoding="utf-8")
        if name == file:
            assert old in text
            text = text.replace(old, new, 1)
        (folder / name).write_text(text, encoding="utf-8")
        paths[name] = str(folder / name)
    return paths


def test_a_right_hand_in_talks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_hand_in(tmp_path), TINY, "The whale", 12) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("The whale")
    assert len(shown.out) > len("The whale") + 12
    assert shown.err == ""


def test_what_a_shell_shows_before_a_command_is_not_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def run(files: object, checkpoint: object, prompt: str, *more: object, **kw: object) -> int:
        asked.append(prompt)
        return 0

    monkeypatch.setattr(chat, "run", run)
    monkeypatch.setenv("PROMPT", "$P$G")
    for name in ("AUTOGRADER_PROMPT", "AUTOGRADER_PROMPT2"):
        monkeypatch.delenv(name, raising=False)
    assert main(["chat", "--lab", "2"]) == 0
    monkeypatch.setenv("AUTOGRADER_PROMPT", "The sea")
    assert main(["chat", "--lab", "2"]) == 0
    assert asked == ["Call me", "The sea"]


def test_a_tokenizer_of_ones_own_gives_the_same_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = _hand_in(tmp_path)
    assert run(files, TINY, "The 鲸", 9) == 0
    of_the_checkpoint = capsys.readouterr().out
    own = files | {"tokens.py": str(SOLUTIONS.parent / "lab1_foundations" / "tokens.py")}
    assert run(own, TINY, "The 鲸", 9) == 0
    assert capsys.readouterr().out == of_the_checkpoint
    stub = files | {"tokens.py": str(ROOT / "labs" / "lab1_foundations" / "tokens.py")}
    assert run(stub, TINY, "The 鲸", 9, "en") == 1
    assert "fill in lab1.encode (tokens.py:" in capsys.readouterr().err


def test_files_import_each_other_and_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "from labs.given.config import Qwen3Config\n"
    files = _hand_in(tmp_path, "mlp.py", head, head + "from attention import rotate_half\n")
    before = (list(sys.path), list(sys.meta_path))
    assert run(files, TINY, "The whale", 1) == 0
    assert (list(sys.path), list(sys.meta_path)) == before
    assert not {"attention", "mlp"} & set(sys.modules)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.py", "mlp.py"]


def test_two_hand_ins_in_one_process_stay_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    gate = "F.silu(self.gate_proj(x)) * self.up_proj(x)"
    wrong = _hand_in(tmp_path / "wrong", "mlp.py", gate, "self.up_proj(x)")
    texts = []
    for files in (_hand_in(tmp_path / "right"), wrong, _hand_in(tmp_path / "right")):
        assert run(files, TINY, "The whale", 8) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[2] != texts[1]


ROTATE = "first, second = x.chunk(2, dim=-1)"
BROKEN = {
    "todo": (
        "attention.py",
        ROTATE,
        'raise NotImplementedError("TODO lab2.rotate_half: turn the pairs")',
        ["lab2.rotate_half (attention.py:26)", "请先完成 lab2"],
    ),
    "exception": (
        "attention.py",
        ROTATE,
        "first, second = x.chunk(3, dim=-1)",
        ["ValueError: ", "attention.py:", "first, second = x.chunk(3, dim=-1)", "出错"],
    ),
    "error inside torch": (
        "mlp.py",
        "* self.up_proj(x)",
        "@ self.up_proj(x)",
        ["RuntimeError: ", "mlp.py:", "@ self.up_proj(x)"],
    ),
    "syntax error": (
        "mlp.py",
        "class Qwen3MLP(nn.Module):",
        "class Qwen3MLP(nn.Module:",
        ["SyntaxError: ", "mlp.py:", "class Qwen3MLP(nn.Module:"],
    ),
    "exit": ("mlp.py", "from torch import nn\n", "raise SystemExit(0)\n", ["SystemExit: 0"]),
    "class renamed": ("mlp.py", "class Qwen3MLP", "class MyMLP", ["no class Qwen3MLP", "没有"]),
    "parameter renamed": (
        "attention.py",
        "self.q_norm = RMSNorm(head_dim, config.rms_norm_eps)",
        "self.norm_q = RMSNorm(head_dim, config.rms_norm_eps)",
        [
            "self_attn.q_norm.weight",
            "self_attn.norm_q.weight",
            "parameters as in Hugging Face",
            "bias=False",
        ],
    ),
    "wrong shape": (
        "attention.py",
        "return self.o_proj(mixed)",
        "return self.o_proj(mixed)[..., :7]",
        ["compare the shapes", "检查形状", "RuntimeError: "],
    ),
    "NaN": (
        "attention.py",
        "return self.o_proj(mixed)",
        "return self.o_proj(mixed) / 0 * 0",
        ["NaN or infinity", "无穷大"],
    ),
}


@pytest.mark.parametrize("file, old, new, words", BROKEN.values(), ids=list(BROKEN))
def test_what_breaks_is_said_without_a_traceback(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    old: str,
    new: str,
    words: list[str],
) -> None:
    assert run(_hand_in(tmp_path, file, old, new), TINY, "The whale", 3) == 1
    shown = capsys.readouterr()
    for word in words:
        assert word in shown.err
    assert "Traceback" not in shown.err + shown.out


def test_the_keyboard_ends_a_chat_quietly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = _hand_in(tmp_path, "attention.py", ROTATE, "raise KeyboardInterrupt")
    assert run(files, TINY, "The whale", 3) == 130
    assert capsys.readouterr() == ("", "")


def test_what_is_absent_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _hand_in(tmp_path)
    assert run(files | {"mlp.py": str(tmp_path / "gone.py")}, TINY, "The whale", 1) == 1
    assert "gone.py is absent" in capsys.readouterr().err
    assert run(files, tmp_path, "The whale", 1) == 1
    assert "tokenizer.json is absent" in capsys.readouterr().err
    assert run({"mlp.py": files["mlp.py"]}, TINY, "The whale", 1) == 1
    assert "needs attention.py" in capsys.readouterr().err
    assert run(files, TINY, "", 1) == 1
    assert "prompt is empty" in capsys.readouterr().err


def test_a_character_of_several_tokens_is_never_shown_broken() -> None:
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    prompt, new = tokenizer.encode("A ").ids, tokenizer.encode("鲸 — 鱼").ids
    assert len(new) > 5  # bytes stand alone
    pieces = list(stream_text(tokenizer, prompt, iter(new)))
    assert "".join(pieces) == "鲸 — 鱼"
    assert not any("\ufffd" in piece for piece in pieces)
    cut = list(stream_text(tokenizer, prompt, iter(new[:1])))
    assert cut == ["\ufffd"]  # what never becomes whole is shown at the end
