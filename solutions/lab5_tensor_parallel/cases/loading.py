"""Cases of load_weights: names of Hugging Face and the parameters that hold them."""

from __future__ import annotations

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe

# Hugging Face's name -> the parameter here and its part; None where there is no loader.
_NAMES: dict[str, tuple[str, str | int | None]] = {
    "self_attn.q_proj.weight": ("self_attn.qkv_proj.weight", "q"),
    "self_attn.k_proj.weight": ("self_attn.qkv_proj.weight", "k"),
    "self_attn.v_proj.weight": ("self_attn.qkv_proj.weight", "v"),
    "self_attn.q_norm.weight": ("self_attn.q_norm.weight", None),
    "mlp.gate_proj.weight": ("mlp.gate_up_proj.weight", 0),
    "mlp.up_proj.weight": ("mlp.gate_up_proj.weight", 1),
    "input_layernorm.weight": ("input_layernorm.weight", None),
}
_ROWS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")  # a loader, but no parts


def _drafted(draw: Draw, prefixes: tuple[str, ...], chosen: tuple[str, ...], about: Text) -> Draft:
    """Tensors by name, and what has to be noted or copied."""
    tensors, shapes, packed = {}, {}, []
    for prefix in prefixes:
        for name in chosen:
            shape = (draw.integer(2, 5),) if "norm" in name else (draw.integer(2, 5), 3)
            tensor = draw.normal(*shape)
            tensors[f"hf.{prefix}{name}"] = tensor
            own, shard = _NAMES.get(name, (name, None))
            own = prefix + own
            shapes[own] = list(shape)
            if shard is None and name not in _ROWS:
                tensors[f"want.{own}"] = tensor
                continue
            packed.append(own)
            note = own if shard is None else f"{own} shard_id={shard!r}"
            tensors[f"want.{note}"] = tensor
    return draft(about, tensors, shapes=shapes, packed=sorted(set(packed)))


@recipe()
def load_packed(draw: Draw) -> Draft:
    names = tuple(name for name, (_, shard) in _NAMES.items() if shard is not None)
    prefix = f"layers.{draw.integer(0, 9)}."
    about = Text("packed weights behind a prefix", "带前缀的打包权重")
    return _drafted(draw, (prefix,), names, about)


@recipe()
def load_bare(draw: Draw) -> Draft:
    """No prefix: the names begin with the module itself."""
    names = {"q_proj.weight": "q", "k_proj.weight": "k", "v_proj.weight": "v"}
    tensors = {f"hf.{name}": draw.normal(draw.integer(2, 5), 3) for name in names}
    want = {
        f"want.qkv_proj.weight shard_id={shard!r}": tensors[f"hf.{name}"]
        for name, shard in names.items()
    }
    about = Text("attention by itself, without a prefix", "单独的注意力，没有前缀")
    shapes = {"qkv_proj.weight": [2, 3]}
    return draft(about, {**tensors, **want}, shapes=shapes, packed=["qkv_proj.weight"])


@recipe()
def load_rows(draw: Draw) -> Draft:
    about = Text("weights with a loader and no parts", "有 loader 但不分部分的权重")
    return _drafted(draw, (f"layers.{draw.integer(0, 9)}.",), _ROWS, about)


@recipe()
def load_plain(draw: Draw) -> Draft:
    """Norms, which are copied; one of them has a name that holds a packed one's."""
    names = ("self_attn.q_norm.weight", "input_layernorm.weight", "up_projector.weight")
    return _drafted(draw, (f"layers.{draw.integer(0, 9)}.",), names, Text("norms", "归一化权重"))


@recipe()
def load_layers(draw: Draw) -> Draft:
    """Two layers at once: nothing of one may land in the other."""
    first = draw.integer(0, 7)
    prefixes = (f"layers.{first}.", f"layers.{first + 1}.")
    about = Text("two layers", "两层")
    return _drafted(draw, prefixes, (*_NAMES, *_ROWS), about)
