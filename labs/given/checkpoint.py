"""Loads a Hugging Face folder of Qwen3 weights into the model of these labs.

Only torch, safetensors and the standard library are needed. A fault in the folder, or a
parameter that a hand-in named differently, raises `CheckpointError` with a sentence in
English and one in Chinese.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from labs.given.config import Qwen3Config
from labs.given.model import AttentionClass, MLPClass, Qwen3ForCausalLM

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
# What `Qwen3Config` has no field for must have this value, or absent, to be computed rightly.
SUPPORTED = {"model_type": "qwen3", "hidden_act": "silu", "attention_bias": False}
SUPPORTED |= {"use_sliding_window": False, "rope_scaling": None}


class CheckpointError(ValueError):
    """The folder, or the model that should take it in, is not as it must be."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(f"{english}\n{chinese}")


def load_model(
    folder: str | Path, attention_cls: AttentionClass, mlp_cls: MLPClass
) -> Qwen3ForCausalLM:
    """Build the model of ``config.json`` from the two classes and load the weights.

    Returns:
        The model in float32 and in ``eval()`` mode; 16-bit weights are widened exactly.

    Raises:
        CheckpointError: see `read_config` and `load_weights`.
    """
    config = read_config(folder)
    model = Qwen3ForCausalLM(config, attention_cls, mlp_cls)
    load_weights(model, folder)
    return model.eval()


def read_config(folder: str | Path) -> Qwen3Config:
    """Read ``config.json``.

    Raises:
        CheckpointError: it is absent, broken, incomplete, or not of a dense Qwen3 with plain
            rotary positions.
    """
    path = Path(folder) / "config.json"
    raw = _read_json(path)
    for key, wanted in SUPPORTED.items():
        if raw.get(key, wanted) != wanted:
            raise CheckpointError(
                f"{path}: {key} is {raw[key]!r}, but these labs compute {wanted!r} only; "
                "choose the folder of a dense Qwen3.",
                f"{path}：{key} 是 {raw[key]!r}，但本课程只支持 {wanted!r}；"
                "请换成 Qwen3 稠密模型的文件夹。",
            )
    rope_type = (raw.get("rope_parameters") or {}).get("rope_type", "default")
    if rope_type != "default":
        raise CheckpointError(
            f"{path}: rope_parameters.rope_type is {rope_type!r}, but these labs compute "
            "'default' only; choose a checkpoint without long-context scaling.",
            f"{path}：rope_parameters.rope_type 是 {rope_type!r}，但本课程只支持 'default'；"
            "请换成没有长上下文缩放的检查点。",
        )
    try:
        return Qwen3Config.from_dict(raw)
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path}: {error}.", f"{path}：配置有误（{error}），请改正后再试。"
        ) from None


def load_weights(model: nn.Module, folder: str | Path) -> None:
    """Copy every tensor of the folder into the parameter of the same name.

    Strict: each parameter must be in the folder with the same shape, and the folder may hold
    nothing else. Buffers are left alone. A tied head needs no tensor of its own.

    Raises:
        CheckpointError: a name or shape differs, or a file is absent or broken.
    """
    # Both names of a tied matrix are wanted here, hence remove_duplicate=False.
    parameters = dict(model.named_parameters(remove_duplicate=False))
    tied = HEAD in parameters and parameters[HEAD] is parameters.get(EMBEDDING)
    loaded: set[str] = set()
    unexpected = []
    with torch.no_grad():
        for name, tensor, path in _tensors(Path(folder)):
            if name not in parameters:
                unexpected.append(name)
                continue
            have, want = tuple(tensor.shape), tuple(parameters[name].shape)
            if have != want:
                raise CheckpointError(
                    f"{name} is {list(have)} in {path} but {list(want)} in the model; compute the "
                    "sizes from config.json (head_dim is a key of its own).",
                    f"{name} 在 {path} 中的形状是 {list(have)}，在模型中是 {list(want)}；"
                    "请按 config.json 计算大小（head_dim 是单独的一项）。",
                )
            if tied and name in (HEAD, EMBEDDING) and loaded & {HEAD, EMBEDDING}:
                _check_equal(name, tensor, parameters[name], path)
            parameters[name].copy_(tensor)
            loaded.add(name)
    if tied and loaded & {HEAD, EMBEDDING}:
        loaded |= {HEAD, EMBEDDING}
    missing = [name for name in parameters if name not in loaded]
    if missing or unexpected:
        raise CheckpointError(
            f"The names in {folder} and in the model differ: only the folder has "
            f"{_listed(unexpected)}, only the model has {_listed(missing)}; name parameters as in "
            "Hugging Face, use bias=False, and check tie_word_embeddings in config.json.",
            f"{folder} 与模型的参数名不一致：只在文件夹里有 {_listed(unexpected)}，"
            f"只在模型里有 {_listed(missing)}；请使用与 Hugging Face 相同的名字，设置 bias=False，"
            "并检查 config.json 的 tie_word_embeddings。",
        )


def _listed(names: list[str]) -> str:
    return (", ".join(names[:2]) or "-") + (f", … ({len(names)})" if len(names) > 2 else "")


def _check_equal(name: str, tensor: torch.Tensor, other: torch.Tensor, path: Path) -> None:
    """A folder may repeat a tied matrix under its second name, but only unchanged."""
    if not torch.equal(tensor.to(other.dtype), other):
        raise CheckpointError(
            f"{path}: {name} differs between head and embedding, yet tie_word_embeddings in "
            "config.json is true; set it to false.",
            f"{path}：输出头与词嵌入不同（见 {name}），但 config.json 中 tie_word_embeddings "
            "为 true；请改成 false。",
        )


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor, Path]]:
    """Yield ``(name, tensor, file)`` of every tensor, one file open at a time."""
    single = folder / SINGLE_FILE
    if single.is_file():
        yield from _tensors_of(single, None)
        return
    index = folder / INDEX_FILE
    if not index.is_file():
        raise CheckpointError(
            f"{folder} holds neither {SINGLE_FILE} nor {INDEX_FILE}; give a folder with "
            "Hugging Face weights.",
            f"{folder} 里既没有 {SINGLE_FILE} 也没有 {INDEX_FILE}；"
            "请给出 Hugging Face 权重文件夹。",
        )
    shards: dict[str, set[str]] = {}
    for name, file in (_read_json(index).get("weight_map") or {}).items():
        shards.setdefault(str(file), set()).add(name)
    for file, names in sorted(shards.items()):
        if Path(file).name != file or "\\" in file:  # a shard never lies outside its folder
            raise CheckpointError(
                f"{index}: weight_map names {file!r}; only plain file names are allowed.",
                f"{index}：weight_map 中的 {file!r} 不是普通文件名。",
            )
        yield from _tensors_of(folder / file, names)


def _tensors_of(path: Path, names: set[str] | None) -> Iterator[tuple[str, torch.Tensor, Path]]:
    """Yield the tensors of one file; with ``names``, exactly these must be in it."""
    try:
        with safe_open(path, framework="pt") as opened:
            found = list(opened.keys())
            if names is not None and names != set(found):
                odd = ", ".join(sorted(names ^ set(found))[:3])
                raise CheckpointError(
                    f"{path} and {INDEX_FILE} disagree about {odd}; download both again.",
                    f"{path} 与 {INDEX_FILE} 不一致（{odd}）；请重新下载。",
                )
            for name in found:
                tensor = opened.get_tensor(name)
                if not tensor.is_floating_point() or tensor.element_size() < 2:
                    raise CheckpointError(
                        f"{path}: {name} is {tensor.dtype}, expected float32, float16 or "
                        "bfloat16; choose a checkpoint that is not quantised.",
                        f"{path}：{name} 是 {tensor.dtype}，应为 float32、float16 或 bfloat16；"
                        "请选择未量化的检查点。",
                    )
                yield name, tensor, path
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}); is it complete, and no Git LFS pointer?",
            f"无法读取 {path}（{error}）；文件是否完整？是否只是 Git LFS 指针？",
        ) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise CheckpointError(
            f"{path} cannot be read; give a folder in Hugging Face format.",
            f"无法读取 {path}；请给出 Hugging Face 格式的文件夹。",
        ) from None
    except ValueError as error:
        raise CheckpointError(
            f"{path} is not JSON ({error}); download it again.",
            f"{path} 不是合法的 JSON（{error}）；请重新下载。",
        ) from None
    if not isinstance(raw, dict):
        raise CheckpointError(
            f"{path} must hold a JSON object; download it again.",
            f"{path} 的内容应为 JSON 对象；请重新下载。",
        )
    return raw
