"""Chatting through a student's whole model: the text of lab 2's way, and how fast it came."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from autograder.course import labfile
from autograder.worker import real_weights
from autograder.worker.loader import StudentModules, read_sources
from labs.commands.chat import run
from labs.given.config import Qwen3Config
from solutions.reference import oracle_model

TINY = labfile.LABS / "given" / "tiny_qwen3"
LAB = labfile.load(labfile.find_lab("4"))
SOLUTION = labfile.SOLUTIONS / LAB.name
SPEED = re.compile(r"\[prefill \d+ tokens, [\d.]+ tokens/s; decode (\d+) tokens, [\d.]+ tokens/s\]")


def files(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    return {name: str(folder / name) for name in names}


def loaded(folder: Path) -> Any:
    """The solution's model of a checkpoint folder."""
    modules = StudentModules(*read_sources(SOLUTION, LAB.files)).install()
    try:
        attention, mlp, model = (modules.module(name) for name in LAB.files)
        return model.load_hf_checkpoint(folder, attention.Qwen3Attention, mlp.Qwen3MLP)
    finally:
        modules.remove()


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.double() - want.double()).norm() / want.double().norm())


def test_it_says_what_lab_2_says_and_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files(SOLUTION, LAB.files), TINY, "The whale", 14, "en") == 0
    shown = capsys.readouterr()
    text, speed = shown.out.rstrip("\n").rsplit("\n", 1)
    found = SPEED.fullmatch(speed)
    assert (
        found is not None and found[1] == "32"
    )  # of 33 on a prompt of its own; the first is prefill's
    older = files(labfile.SOLUTIONS / "lab2_qwen3_block", ("attention.py", "mlp.py"))
    assert run(older, TINY, "The whale", 14) == 0
    assert text == capsys.readouterr().out.rstrip("\n")
    assert shown.err == ""


def test_what_breaks_is_said_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in LAB.files:
        shutil.copy(SOLUTION / name, tmp_path)
    model = tmp_path / "model.py"
    text = model.read_text(encoding="utf-8")
    model.write_text(text.replace("on_token(chosen)", "pass"), encoding="utf-8")
    assert run(files(tmp_path, LAB.files), TINY, "The whale", 3) == 0
    assert "never called on_token" in capsys.readouterr().out
    model.write_text(text.replace("def generate(", "def generated("), encoding="utf-8")
    assert run(files(tmp_path, LAB.files), TINY, "The whale", 3) == 1
    assert "model.py has no function generate" in capsys.readouterr().err
    model.write_text(text, encoding="utf-8")
    shutil.copy(labfile.SOLUTIONS / "lab2_qwen3_block" / "attention.py", tmp_path)
    assert run(files(tmp_path, LAB.files), TINY, "The whale", 3, "en") == 1  # carried, no cache yet
    assert "Not yet: fill in lab4.past, then" in capsys.readouterr().err
    shutil.copy(SOLUTION / "attention.py", tmp_path)
    model.write_text(text.replace("self.lm_head(", "torch.inf * 0 * self.lm_head("), "utf-8")
    assert run(files(tmp_path, LAB.files), TINY, "The whale", 3, "en") == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("The logits of your model hold NaN") and shown.out == ""
    stub = files(LAB.folder, LAB.files)
    assert run(stub, TINY, "The whale", 3) == 1
    assert "fill in lab4.load" in capsys.readouterr().err


def test_the_tiny_checkpoint_has_the_logits_of_the_reference() -> None:
    config = Qwen3Config.from_json(TINY / "config.json")
    weights = {name: weight.float() for name, weight in real_weights.read(TINY, "").items()}
    ids = torch.tensor([Tokenizer.from_file(str(TINY / "tokenizer.json")).encode("The whale").ids])
    with torch.no_grad():
        assert error(loaded(TINY)(ids), oracle_model.logits(config, weights, ids)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_folder_of_transformers_talks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tied: bool, dtype: torch.dtype
) -> None:
    """Folders that ``save_pretrained`` writes: sharded, tied or not, 16 bits or 32."""
    from dataclasses import replace

    from solutions.reference import hf

    config = replace(Qwen3Config.from_json(TINY / "config.json"), tie_word_embeddings=tied)
    torch.manual_seed(1)
    theirs: Any = hf.modeling().Qwen3ForCausalLM(hf.hf_config(config)).eval()
    for parameter in theirs.parameters():  # all norms of one would hide what is not loaded
        parameter.data.add_(torch.randn_like(parameter) * 0.05)
    theirs.to(dtype).save_pretrained(tmp_path, max_shard_size="300KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    shutil.copy(TINY / "tokenizer.json", tmp_path)
    stored = {name: weight.float() for name, weight in theirs.state_dict().items()}
    if tied:
        stored.pop("lm_head.weight", None)
    ids = torch.tensor([[5, 99, 300, 7, 1]])
    with torch.no_grad():
        wanted = hf.hf_logits(config, stored, ids)
        assert error(loaded(tmp_path)(ids), wanted) <= 1e-5
    assert run(files(SOLUTION, LAB.files), tmp_path, "The whale", 5) == 0
    assert SPEED.search(capsys.readouterr().out)
