"""The tiny Qwen3 is a true Hugging Face checkpoint, and our loader agrees with transformers."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

from labs.given.checkpoint import CheckpointError, load_model, read_config
from tools import tiny_qwen3

ROOT = Path(__file__).resolve().parents[1]
TINY = ROOT / "labs" / "given" / "tiny_qwen3"
SOLUTIONS = ROOT / "solutions" / "lab2_qwen3_block"


def _solution(name: str) -> ModuleType:
    path = SOLUTIONS / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"lab2_solution_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ATTENTION = _solution("attention").Qwen3Attention
MLP = _solution("mlp").Qwen3MLP


def _ours(folder: Path) -> nn.Module:
    return load_model(folder, ATTENTION, MLP)


def _theirs(folder: Path) -> nn.Module:
    from transformers import AutoModelForCausalLM

    model: nn.Module = AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32, attn_implementation="sdpa"
    )
    return model.eval()


def _relative_error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    difference = (ours.double() - theirs.double()).norm()
    return float(difference / theirs.double().norm())


@torch.no_grad()
def _logit_error(folder: Path, tokens: torch.Tensor) -> float:
    return _relative_error(_ours(folder)(tokens), _theirs(folder)(tokens).logits)


def _held_out() -> torch.Tensor:
    text = (TINY / "heldout.txt").read_text(encoding="utf-8")
    ids = Tokenizer.from_file(str(TINY / "tokenizer.json")).encode(text).ids
    return torch.tensor(ids)


def test_tiny_checkpoint_gives_the_logits_of_transformers() -> None:
    assert _logit_error(TINY, _held_out()[: 2 * 150].view(2, 150)) <= 1e-5


def test_a_wrong_attention_would_be_seen() -> None:
    """The comparison above can fail: one mistake that leaves the text fluent shows in it."""
    names = tiny_qwen3.patched(tiny_qwen3.VARIANTS["q_norm and k_norm after RoPE"])
    wrong = load_model(TINY, names["Qwen3Attention"], names["Qwen3MLP"])
    tokens = _held_out()[None, :150]
    with torch.no_grad():
        assert _relative_error(wrong(tokens), _theirs(TINY)(tokens).logits) > 1e-2


def test_tokenizer_loads_with_transformers_and_gives_the_same_ids() -> None:
    text = "Call me Ishmael.\n\n“Aye, sir,” said Queequeg—“the whale!”  A naïve 鲸 £5."
    plain = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(TINY)
    assert theirs(text)["input_ids"] == plain.encode(text).ids
    assert theirs.decode(plain.encode(text).ids) == text
    assert plain.decode(plain.encode(text).ids) == text
    assert theirs.pad_token_id == theirs.eos_token_id == 0


def test_theta_arrives_in_transformers_old_and_new() -> None:
    raw = json.loads((TINY / "config.json").read_text(encoding="utf-8"))
    assert raw["rope_theta"] == raw["rope_parameters"]["rope_theta"] == 1e6
    head_dim = raw["head_dim"]
    wanted = 1e6 ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    model: Any = _theirs(TINY)
    torch.testing.assert_close(
        model.model.rotary_emb.inv_freq.double(), wanted, rtol=1e-6, atol=0.0
    )


def test_shape_hides_no_mistake() -> None:
    config = read_config(TINY)
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    assert heads * config.head_dim != config.hidden_size
    assert heads // kv_heads not in (1, kv_heads)
    assert config.tie_word_embeddings


def test_weights_are_bfloat16_and_the_folder_is_small() -> None:
    tensors = load_file(TINY / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert "lm_head.weight" not in tensors
    sizes = {path.name: path.stat().st_size for path in TINY.iterdir()}
    assert sum(sizes.values()) < 4_000_000
    assert sizes["heldout.txt"] <= 70_000
    norms = [name for name in tensors if name.endswith(("q_norm.weight", "k_norm.weight"))]
    assert norms and all(tensors[name].float().std() > 0.05 for name in norms)


@cache
def _measured(variant: str) -> tiny_qwen3.Row:
    return tiny_qwen3.measure(TINY, variant)


@pytest.mark.slow
def test_bits_per_byte_are_as_good_as_the_card_says() -> None:
    bits = _measured("right").bits_per_byte
    assert bits <= 1.95
    card = (TINY / "README.md").read_text(encoding="utf-8")
    found = re.search(r"\*\*([\d.]+) bits per byte\*\*", card)
    assert found and float(found[1]) == pytest.approx(bits, abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(tiny_qwen3.VARIANTS))
def test_mistakes_cost_what_the_card_says(name: str) -> None:
    factor = _measured(name).perplexity / _measured("right").perplexity
    card = (TINY / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(name)} \| ([\d.]+) \|", card, re.MULTILINE)
    assert found and float(found[1]) == pytest.approx(factor, rel=0.02)
    fluent = name in ("right", "no causal mask", "q_norm and k_norm after RoPE")
    assert factor < 1.5 if fluent else factor >= 3


def _make(folder: Path, *, tied: bool, dtype: torch.dtype, **save: Any) -> None:
    """Save a random Qwen3 of other sizes, every norm with weights of its own."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(7)
    settings: dict[str, Any] = tiny_qwen3.CONFIG | {
        "vocab_size": 83,
        "hidden_size": 40,
        "intermediate_size": 52,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 3e-4,
        "tie_word_embeddings": tied,
        "rope_theta": 5e5,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    model = Qwen3ForCausalLM(Qwen3Config(**settings))
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.uniform_(parameter, 0.5, 2.0)
        else:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    model.to(dtype=dtype).save_pretrained(folder, **save)  # type: ignore[call-arg]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shards", ["5GB", "20KB"], ids=["single", "sharded"])
def test_other_folders_agree_with_transformers(
    tmp_path: Path, tied: bool, dtype: torch.dtype, shards: str
) -> None:
    _make(tmp_path, tied=tied, dtype=dtype, max_shard_size=shards)
    assert (tmp_path / "model.safetensors").exists() == (shards == "5GB")
    assert len(list(tmp_path.glob("*.safetensors"))) == 1 or shards == "20KB"
    tokens = torch.randint(83, (2, 19), generator=torch.Generator().manual_seed(3))
    assert _logit_error(tmp_path, tokens) <= 1e-5


def _edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(raw | changes), encoding="utf-8")


def _edit_tensors(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


NORM, EMBEDDING = "model.norm.weight", "model.embed_tokens.weight"
Breaker = Callable[[Path], object]
BREAKERS: dict[str, tuple[Breaker, str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json cannot be read"),
    "config no JSON": (lambda f: (f / "config.json").write_text("{"), "config.json is not JSON"),
    "config no object": (lambda f: (f / "config.json").write_text("[]"), "JSON object"),
    "other model": (lambda f: _edit_config(f, model_type="qwen2"), "model_type is 'qwen2'"),
    "attention bias": (lambda f: _edit_config(f, attention_bias=True), "attention_bias is True"),
    "long context": (
        lambda f: _edit_config(f, rope_parameters={"rope_type": "yarn", "rope_theta": 1e6}),
        "rope_type is 'yarn'",
    ),
    "two thetas": (lambda f: _edit_config(f, rope_theta=1e4), "make them equal"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "holds neither"),
    "pointer": (lambda f: (f / "model.safetensors").write_text("version 1"), "cannot be read"),
    "tensor absent": (
        lambda f: _edit_tensors(f, lambda t: t.pop(NORM)),
        f"only the model has {NORM};",
    ),
    "tensor too many": (
        lambda f: _edit_tensors(f, lambda t: t.update(extra=torch.ones(2))),
        "only the folder has extra,",
    ),
    "wrong shape": (
        lambda f: _edit_tensors(f, lambda t: t.update({NORM: torch.ones(3)})),
        f"{NORM} is [3]",
    ),
    "quantised": (
        lambda f: _edit_tensors(f, lambda t: t.update({NORM: torch.ones(160).to(torch.int8)})),
        "torch.int8",
    ),
    "tied but different": (
        lambda f: _edit_tensors(f, lambda t: t.update({"lm_head.weight": t[EMBEDDING] + 1})),
        "set it to false",
    ),
    "untied without head": (
        lambda f: _edit_config(f, tie_word_embeddings=False),
        "only the model has lm_head.weight;",
    ),
}


@pytest.mark.parametrize("breaker, words", BREAKERS.values(), ids=list(BREAKERS))
def test_a_broken_folder_is_named_in_both_languages(
    tmp_path: Path, breaker: Breaker, words: str
) -> None:
    for name in ("config.json", "model.safetensors"):
        shutil.copy(TINY / name, tmp_path / name)
    breaker(tmp_path)
    with pytest.raises(CheckpointError) as caught:
        _ours(tmp_path)
    english, chinese = str(caught.value).split("\n")
    assert words in english
    assert re.search("[\u4e00-\u9fff]", chinese)


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    _make(tmp_path, tied=True, dtype=torch.float32, max_shard_size="20KB")
    index = tmp_path / "model.safetensors.index.json"
    whole = index.read_text(encoding="utf-8")
    raw = json.loads(whole)
    shard = raw["weight_map"][NORM]
    raw["weight_map"][NORM] = "../" + shard
    index.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(CheckpointError, match="only plain file names"):
        _ours(tmp_path)
    del raw["weight_map"][NORM]
    index.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(CheckpointError, match=f"disagree about {NORM}"):
        _ours(tmp_path)
    index.write_text(whole, encoding="utf-8")
    (tmp_path / shard).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        _ours(tmp_path)


def test_a_repeated_tied_head_is_accepted(tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path, dirs_exist_ok=True)
    _edit_tensors(tmp_path, lambda t: t.update({"lm_head.weight": t[EMBEDDING].clone()}))
    tokens = _held_out()[None, :20]
    with torch.no_grad():
        assert torch.equal(_ours(tmp_path)(tokens), _ours(TINY)(tokens))
