"""Cases of loading: folders of the lab, and what has to be in the model afterwards."""

from __future__ import annotations

import json

from autograder.course.labfile import ROOT
from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from autograder.worker import real_weights

from .sizes import prefixed

FOLDERS = "labs/lab4_tinyllm/checkpoints"
HEAD = "lm_head.weight"


def _drafted(name: str, en: str, zh: str) -> Draft:
    found = real_weights.read(ROOT / FOLDERS / name, "")
    weights = {key: weight.float() for key, weight in found.items()}
    config = json.loads((ROOT / FOLDERS / name / "config.json").read_text(encoding="utf-8"))
    if config["tie_word_embeddings"]:
        weights.pop(HEAD, None)
    # The folder's own config.json counts; checks pass none.
    return draft(Text(en, zh), prefixed(weights), folder=f"{FOLDERS}/{name}")


@recipe(hidden=0)
def load_tied(draw: Draw) -> Draft:
    return _drafted("tied", "one file, a tied head", "单个文件，共享的输出头")


@recipe(hidden=0)
def load_repeated(draw: Draw) -> Draft:
    en = "a tied head that is stored once more"
    return _drafted("tied_repeated", en, "共享的输出头又存了一份")


@recipe(hidden=0)
def load_sharded(draw: Draw) -> Draft:
    """Beside them lie two files that the index does not name, as in many a real folder."""
    return _drafted("sharded", "three files and an index", "三个文件与一个索引")


@recipe(hidden=0)
def load_bfloat16(draw: Draw) -> Draft:
    return _drafted("bfloat16", "weights stored in bfloat16", "以 bfloat16 存储的权重")


@recipe(hidden=0)
def load_missing(draw: Draw) -> Draft:
    """A head that is tied to an embedding that is absent is no reason for another error."""
    names = ["model.layers.1.mlp.up_proj.weight", "model.norm.weight", "model.embed_tokens.weight"]
    about = Text("a folder without three weights", "缺少三个权重的文件夹")
    return draft(about, folder=f"{FOLDERS}/missing", names=names)


@recipe(hidden=0)
def load_missing_head(draw: Draw) -> Draft:
    """The embedding is no stand-in for a head that is not tied to it."""
    about = Text("a folder without its own head", "缺少独立输出头的文件夹")
    return draft(about, folder=f"{FOLDERS}/missing_head", names=[HEAD])


@recipe(hidden=0)
def load_unexpected(draw: Draw) -> Draft:
    names = ["model.layers.0.self_attn.q_proj.bias", "model.layers.2.mlp.up_proj.weight"]
    about = Text("a folder with two weights too many", "多出两个权重的文件夹")
    return draft(about, folder=f"{FOLDERS}/unexpected", names=names)
