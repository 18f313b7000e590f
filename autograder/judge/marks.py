"""Marks: reasons for a human to look at a hand-in. They never change a score.

Two of them come from what a hand-in names. *Forbidden* is what a lab asks students to write
themselves: not one function but its family, since torch has every kernel under several names.
*Outside model code* is what no model needs and where a function could run unseen: the grader
writes down which functions of torch run, and a thread, a compiled graph or torch's own switches
take them out of its sight. The second accuses nobody.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path as FilePath

from autograder.course.records import Lab, Message
from autograder.judge.names import Names
from autograder.judge.sources import Path, TooMuchError, Use
from autograder.sandbox.stacks import is_parsed, parsed

MAX_MARKS = 10  # of each kind
MAX_NAME = 80
# Marks that are made anew when kept answers are judged again.
OF_TEXT = (
    *("check.forbidden", "check.forbidden_kin", "check.forbidden_operator"),
    *("check.reaches_outside", "check.unread_source"),
)

_ATTENTION = (
    *("scaleddotproduct", "scaleddotattention", "flashattention", "efficientattention"),
    *("cudnnattention", "flexattention", "varlenattn", "multiheadattention"),
    *("transformerencoder", "transformerdecoder"),
)
# What does the work of a function has one of these in its name, underscores and capitals aside.
_FAMILIES = {
    "scaleddotproductattention": _ATTENTION,
    "multiheadattention": _ATTENTION,
    "softmax": ("softmax", "softmin"),
    "silu": ("silu",),
    "layernorm": ("layernorm", "groupnorm", "instancenorm", "batchnorm"),
    "rmsnorm": ("rmsnorm",),
}

# Modules that reach outside model code, and what of them is harmless in it.
_OUTSIDE: dict[Path, frozenset[str]] = {
    tuple(module.split(".")): frozenset(harmless.split())
    for module, harmless in {
        "_ctypes": "",
        "_thread": "",
        "asyncio": "",
        "autograder": "",
        "builtins": "",
        "cffi": "",
        "codeop": "",
        "concurrent": "",
        "ctypes": "",
        "gc": "collect disable enable freeze isenabled",
        "importlib": "reload metadata",
        "inspect": "Parameter Signature cleandoc getdoc getfullargspec getsource isclass "
        "isfunction ismethod ismodule signature",
        "marshal": "",
        "multiprocessing": "cpu_count",
        "pickle": "HIGHEST_PROTOCOL dump dumps",
        "runpy": "",
        "sys": "argv byteorder executable exit float_info getrecursionlimit getsizeof int_info "
        "intern maxsize path platform setrecursionlimit stderr stdin stdout version version_info",
        "threading": "Lock RLock current_thread get_ident local",
        "torch.classes": "",
        "torch.jit": "Final annotate export ignore is_scripting is_tracing unused",
        "torch.library": "",
        "torch.nn.parallel": "DistributedDataParallel",
        "torch.overrides": "has_torch_function has_torch_function_unary is_tensor_like",
        "torch.package": "",
        "torch.utils.cpp_extension": "",
        "types.CodeType": "",
        "types.FunctionType": "",
        "unittest.mock": "",
    }.items()
}
_DEEPEST = max(map(len, _OUTSIDE))
_BUILTINS = frozenset(("__builtins__", "__import__", "compile", "eval", "exec", "globals"))
# Attributes that reach there whatever they hang on.
_ATTRIBUTES = frozenset(
    (
        *("CompilationUnit", "DisableTorchFunction", "DisableTorchFunctionSubclass", "_C"),
        *("_disable_current_modes", "_getframe", "load_library", "apply_", "map_", "map2_"),
        *("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss"),
        *("f_back", "f_builtins", "f_globals", "f_locals", "tb_frame", "gi_frame", "cr_frame"),
    )
)
_DUNDERS = frozenset(
    (
        *("__builtins__", "__closure__", "__code__", "__globals__", "__loader__"),
        *("__subclasses__", "__torch_dispatch__", "__torch_function__"),
        *("__deepcopy__", "__del__", "__index__"),  # torch calls them where nobody looks on
    )
)
_HARMLESS_PRIVATE = frozenset(("_pytree", "_tensor"))
# Without one of these in a text (and without a forbidden name) nothing is looked for in it.
_ANY = "|".join({path[-1] for path in _OUTSIDE} | _BUILTINS | _ATTRIBUTES | _DUNDERS | {"setattr"})
_WORDS = re.compile(rf"\b(?:{_ANY})\b|(?<!\w)_[A-Za-z]")


def forbidden(
    lab: Lab,
    files: Mapping[str, str],
    operators: Collection[str],
    ran: Collection[str] | None = None,
) -> list[Message]:
    """Uses of what the lab asks students to write themselves, and of what lies outside models.

    Args:
        lab: names the forbidden functions, dotted.
        files: text of the hand-in by file name.
        operators: what its code dispatched; a name can hide from the syntax tree, not here.
        ran: names of the files that could be imported; None for all.
    """
    suspect = {file: text for file, text in files.items() if _is_suspect(lab, text)}
    trees, unread = {}, []
    for file, text in files.items():
        tree = parsed(text)
        if tree is not None:
            trees[file] = tree
        elif (ran is None or file in ran) and (file in suspect or is_parsed(text)):
            unread.append(file)
    named: dict[str, list[Use]] = {}
    outside: list[Message] = []
    if suspect or any(map(_changes_others, trees.values())):
        try:
            for file, found, attributes in _named_in(files, trees):
                named[file] = found
                outside += _outside(file, found, attributes)
        except TooMuchError:  # nobody knows where, nor what else they name
            unread = [file for file in files if ran is None or file in ran]
    unseen = unread or any(file not in trees and (ran is None or file in ran) for file in files)
    uses = [
        mark
        for file, found in named.items()
        for mark in _forbidden(lab, file, found, known=not (unseen or outside))
    ]
    if not uses:
        uses = list(_dispatched(lab, operators))
    said = [Message("check.unread_source", {"file": file}) for file in unread]
    return [*_first(uses), *_first(outside), *said]


def _named_in(
    files: Collection[str], trees: Mapping[str, ast.Module]
) -> Iterator[tuple[str, list[Use], Mapping[str, int]]]:
    """Names in each file that may come from elsewhere, and its own attributes."""
    module = {file: file.removesuffix(".py") for file in files}
    read = {module[file]: tree for file, tree in trees.items()}
    names = Names(read, module.values(), never_own=_ATTRIBUTES - {"_C"})  # a letter for a matrix
    for file in trees:
        yield file, list(names.uses(module[file])), names.sources[module[file]].attributes


def is_unread(files: Mapping[str, str], ran: Collection[str]) -> bool:
    """Say whether a file runs that is not to be parsed here: then it is not known what it keeps."""
    return any(file in ran and parsed(text) is None for file, text in files.items())


def _is_suspect(lab: Lab, text: str) -> bool:
    plain = _bare(text)
    return bool(_WORDS.search(text)) or any(
        part in plain for dotted in lab.forbidden for part in _family(dotted)
    )


def _changes_others(tree: ast.Module) -> bool:
    """Return whether an attribute of anything but ``self`` is bound: it may be a module's."""
    return any(
        isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
        for node in _nodes(tree)
    )


def _first(marks: list[Message]) -> list[Message]:
    """The first few; the same on one line is said once."""
    found: list[Message] = []
    for mark in marks:
        if mark not in found:
            found.append(mark)
        if len(found) == MAX_MARKS:
            break
    return found


def _bare(name: str) -> str:
    """``nn.MultiheadAttention`` calls ``multi_head_attention_forward``."""
    return name.replace("_", "").lower()


def _last(dotted: str) -> str:
    return dotted.rsplit(".", 1)[1]


def _family(dotted: str) -> tuple[str, ...]:
    bare = _bare(_last(dotted))
    return _FAMILIES.get(bare, (bare,))


@lru_cache(maxsize=2000)  # a class uses the same few names
def _relative(forbidden: tuple[str, ...], name: str) -> str | None:
    """The forbidden function that one of this name is, or whose work it does."""
    for dotted in forbidden:
        if _last(dotted) == name:
            return dotted
    bare = _bare(name)
    for dotted in forbidden:
        own = _bare(_last(dotted))
        if bare == own or (own in _FAMILIES and any(part in bare for part in _family(dotted))):
            return dotted
    return None


@lru_cache(maxsize=4)
def _asking(*folders: FilePath) -> str:
    """The texts of what asks hand-ins of a lab."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return "\n".join(path.read_text("utf-8", "replace") for path in paths)


def _is_asked(lab: Lab, module: str, name: str) -> bool:
    """Say whether the lab asks a file for this name, as ``file.name`` or, in a text, alone."""
    tests = (lab.folder.parents[1] / lab.tests,) if lab.tests else ()
    folders, alone = (lab.folder / "checks", *tests), r"\b" if lab.tests else "[\"'.}]"
    owners, stands = _mentions(folders, name, alone)
    asked = owners & {file.removesuffix(".py") for file in lab.files}
    return module in asked if asked else stands


@lru_cache(maxsize=2000)  # a class imports the same few names
def _mentions(folders: tuple[FilePath, ...], name: str, alone: str) -> tuple[frozenset[str], bool]:
    """Before which dots it stands in what asks hand-ins, and whether it stands there at all."""
    text = _asking(*folders)
    owners = frozenset(re.findall(rf"\b(\w+)\.{re.escape(name)}\b", text))
    return owners, not text or bool(re.search(rf"{alone}{name}\b", text))


def _forbidden(lab: Lab, file: str, uses: list[Use], *, known: bool) -> Iterator[Message]:
    """A mark for each use; ``known``: whether all is, by which an import could be reached."""
    for use in sorted(uses, key=lambda one: one.line):
        if use.builtin or not (use.runs or use.imports):
            continue
        if known and use.idle and not _is_asked(lab, file.removesuffix(".py"), use.idle):
            continue
        for name in use.path[1:] if use.foreign else use.path:
            dotted = _relative(lab.forbidden, name)
            if dotted is not None:
                values = {"file": file, "line": use.line, "name": dotted}
                if name == _last(dotted):
                    yield Message("check.forbidden", values)
                else:
                    used = ".".join(use.path)[:MAX_NAME]
                    yield Message("check.forbidden_kin", values | {"used": used})
                break


def _dispatched(lab: Lab, operators: Collection[str]) -> Iterator[Message]:
    # The lab's names, not the operators': those are the student's to choose, and could tell
    # what a hidden case holds.
    found = {_relative(lab.forbidden, operator.split(".", 1)[0]) for operator in operators}
    for dotted in sorted(name for name in found if name is not None):
        yield Message("check.forbidden_operator", {"name": dotted})


def _outside(file: str, uses: list[Use], attributes: Mapping[str, int]) -> Iterator[Message]:
    """One for each thing, at its first line. An import alone reaches nothing."""
    lines: dict[str, int] = {}
    for use in uses:
        what = _reached(use) if use.runs else ""
        if what:
            lines[what] = min(use.line, lines.get(what, use.line))
    for name in _DUNDERS & attributes.keys():
        lines.setdefault(name, attributes[name])
    for what, line in sorted(lines.items(), key=lambda pair: pair[1]):
        yield Message("check.reaches_outside", {"file": file, "line": line, "name": what})


def _reached(use: Use) -> str:
    """Return what a use reaches that lies outside model code, dotted; "" for nothing."""
    path = use.path
    if use.stored and path[:2] != ("torch", "backends"):  # switches that many set
        return _named(path)
    if use.builtin and path[0] in _BUILTINS:
        return path[0]
    for place, name in enumerate(path):
        if name in _DUNDERS or (name in _ATTRIBUTES and not use.builtin):
            return _named(path[: place + 1])
    if not use.foreign:
        return ""
    for place in range(len(path)):
        # `torch.sys` is sys, and so is `collections._sys`.
        part = path[place : place + _DEEPEST + 1]
        for module in (part, (part[0].lstrip("_"), *part[1:])):
            for length in range(1, len(module) + 1):
                harmless = _OUTSIDE.get(module[:length])
                if harmless is not None and not harmless & {*module[length : length + 1]}:
                    return _named(module[: length + 1])
    if path[0] == "torch" and path[1:2] != ("ops",):
        # Rooms of torch that are private; what is private and ends a path is a function, and seen.
        for place, name in enumerate(path[1:-1], 1):
            private = name.startswith("_") and not name.startswith("__")
            if private and name not in _HARMLESS_PRIVATE:
                return _named(path[: place + 1])
    return ""


def _named(path: Path) -> str:
    return ".".join(path)[:MAX_NAME]


# Whether code could keep something from one call to the next, as its text tells.
#
# Names what plain model code does not need: module-level containers, caches, assignments to
# attributes of anything but ``self``, other modules than torch's, access to the interpreter. Where
# nothing of it stands in a hand-in, running its checks in another order would show nothing new.

_MODULES = frozenset(
    (
        *("__future__", "torch", "math", "typing", "typing_extensions", "collections", "labs"),
        *("dataclasses", "functools", "itertools", "operator", "enum", "abc", "numbers"),
    )
)
_NAMES = frozenset(
    (
        *("setattr", "delattr", "globals", "locals", "vars", "exec", "eval", "compile", "open"),
        *("breakpoint", "input", "cache", "lru_cache", "cached_property", "modules", "data_ptr"),
        *("manual_seed", "seed", "library", "overrides", "serialization", "hub", "compiler"),
    )
)
_HARMLESS_CALLS = ("register_buffer", "register_parameter", "register_module")
_DUNDERS_CARRY = frozenset(("__init__", "__name__", "__all__", "__class__", "__call__", "__repr__"))
_SILENT = frozenset(("ctx", "op", "ops", "id", "attr", "name", "asname", "arg", "kind", "n", "s"))
_CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)


def may_keep_static_state(files: Mapping[str, str]) -> bool:
    """Return whether any of ``files`` (text by name) could; False for text that does not parse.

    What is too long to be parsed here is not looked at but suspected.
    """
    own = {name.rsplit(".", 1)[0] for name in files}
    if not all(map(is_parsed, files.values())):
        return True
    for text in files.values():
        tree = parsed(text)
        if tree is None:
            continue  # as a rule it never runs; see `marks.is_unread`
        nodes = _nodes(tree)
        if any(_keeps(node, own) for node in nodes) or any(_shared(tree, nodes)):
            return True
    return False


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes that tell anything; ``ast.walk`` takes six times as long over each hand-in."""
    found = [tree]
    for node in found:  # grows meanwhile
        kind = type(node)
        if kind is ast.Name or kind is ast.Constant:
            continue
        for field in kind._fields:
            if field in _SILENT:
                continue
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def _keeps(node: ast.AST, own: set[str]) -> bool:
    """Return whether one node of the syntax tree is among what the module's docstring names."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return True
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] not in _MODULES | own for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] not in _MODULES | own
    if isinstance(node, ast.Attribute):
        stored = not isinstance(node.ctx, ast.Load)
        by_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        return (stored and not by_self) or _risky(node.attr)
    if isinstance(node, ast.Name):
        return _risky(node.id)
    if isinstance(node, ast.arguments):
        return any(isinstance(default, _CONTAINERS) for default in node.defaults)
    return False


def _risky(name: str) -> bool:
    if name.startswith("__"):
        return name not in _DUNDERS_CARRY
    return name in _NAMES or (
        name.startswith(("set_", "register_")) and name not in _HARMLESS_CALLS
    )


def _shared(tree: ast.Module, nodes: Iterable[ast.AST]) -> Iterator[bool]:
    """Say whether statements of modules and classes make containers that their functions share."""
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(node.body for node in classes)):
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                yield isinstance(statement.value, _CONTAINERS)
