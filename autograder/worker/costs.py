"""Costs of a call, counted instead of timed: live bytes, the largest tensor, FLOPs, rows.

Runs in the worker, beside student code. Everything that torch dispatches is seen; what numpy, a
thread or other C code does is not, so whoever reads the counts asks whether enough was seen.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.worker import jail

# Modes that see also what student code calls in the middle of a function of torch.
#
# Torch leaves a mode while the function runs that the mode was told of. `Tensor.backward` is such a
# function, and it calls hooks and backward functions, on whichever thread autograd chooses.


class _Engine(torch._C._ImperativeEngine):
    """Autograd's engine, with a mode entered in all that it calls."""

    def __init__(self, engine: torch._C._ImperativeEngine, mode: TorchFunctionMode) -> None:
        super().__init__()
        self._engine, self._mode = engine, mode

    def run_backward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        depths = range(torch._C._len_torch_function_stack())
        if any(torch._C._get_function_stack_at(depth) is self._mode for depth in depths):
            return self._engine.run_backward(*args, **kwargs)
        with self._mode:
            return self._engine.run_backward(*args, **kwargs)


_Mode = TypeVar("_Mode", bound=TorchFunctionMode)


@contextmanager
def watching(mode: _Mode) -> Iterator[_Mode]:
    """Enter a mode that sees what runs inside the block, while autograd runs backward, too."""
    variable, engine = torch.autograd.Variable, torch.autograd.Variable._execution_engine
    variable._execution_engine = _Engine(engine, mode)
    try:
        with mode:
            yield mode
    finally:
        variable._execution_engine = engine


# What a call costs, counted instead of timed: rows through projections, bytes that stay held.
#
# Runs in the worker, beside student code; sees what reaches torch and what hangs on an object.

# Names under which torch multiplies by a matrix, whichever way student code spells it.
_PRODUCTS = frozenset(
    (
        *("linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm"),
        *("einsum", "tensordot", "inner", "dot", "mv"),
    )
)
_CONTAINERS = (Tensor, list, tuple, dict)
MAX_OBJECTS = 10_000  # looked at for tensors


class _Rows(TorchFunctionMode):
    """Counts the rows that are multiplied by each weight, or by what is made of weights alone.

    Not hooks of the submodules: projections that are fused, or written with einsum, count, too.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.rows = dict.fromkeys(weights, 0)
        self._width = {name: weight.shape[-1] for name, weight in weights.items()}
        self._names: dict[int, set[str]] = {}
        self._kept: list[Tensor] = []  # an address must not come back for another tensor
        for name, weight in weights.items():
            self._mark(weight, {name})

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = list(_tensors_counting((*args, *kwargs.values())))
        marks = [self._names.get(_address(tensor), set()) for tensor in tensors]
        names = set().union(*marks)
        others = [tensor for tensor, mark in zip(tensors, marks, strict=True) if not mark]
        if names and not others:
            for made in _tensors_counting((result,)):
                self._mark(made, names)
        elif names and getattr(func, "__name__", "") in _PRODUCTS:
            most = max(tensor.numel() for tensor in others)
            for name in names:
                self.rows[name] += most // self._width[name]
        return result

    def _mark(self, tensor: Tensor, names: set[str]) -> None:
        if address := _address(tensor):
            self._kept.append(tensor)
            self._names.setdefault(address, set()).update(names)


@contextmanager
def counted(module: Any, names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Rows that enter the linear submodules called ``names``, while the block runs.

    A row is one vector of the size that the submodule takes.

    Raises:
        AttributeError: ``module`` has no such submodule, or it has no weight.
    """
    weights = {name: module.get_submodule(name).weight for name in names}
    with watching(_Rows(weights)) as rows:
        yield rows.rows


def held(thing: Any) -> int:
    """Bytes of all tensors that can be reached from ``thing`` by attributes and containers.

    Memory that several views share counts once, and no view counts more than it shows: neither
    ``expand`` nor a view of a larger tensor makes a cache large.
    """
    views: dict[int, dict[tuple[Any, ...], int]] = {}
    sizes: dict[int, int] = {}
    for tensor in _reachable(thing):
        address = _address(tensor)
        sizes[address] = tensor.untyped_storage().nbytes()
        shown = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        views.setdefault(address, {})[shown] = tensor.numel() * tensor.element_size()
    return sum(min(size, sum(views[address].values())) for address, size in sizes.items())


def _reachable(thing: Any) -> Iterator[Tensor]:
    waiting, seen = [thing], set[int]()
    while waiting and len(seen) < MAX_OBJECTS:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (type, str, bytes, int, float)):
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += value
        elif type(value).__module__ in ("builtins", "types"):
            continue  # functions and modules reach everything
        else:
            waiting += getattr(value, "__dict__", {}).values()
            for cls in type(value).__mro__:
                slots = getattr(cls, "__slots__", ())
                names = (slots,) if isinstance(slots, str) else slots
                waiting += (getattr(value, name, None) for name in names)
                # What a class holds for all its objects, but none of its functions.
                waiting += (v for v in vars(cls).values() if isinstance(v, _CONTAINERS))


def _tensors_counting(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, Tensor))


def _address(tensor: Tensor) -> int:
    """Say where the memory of a tensor begins; 0 where it has none of its own (inside ``vmap``)."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


# FLOPs of matrix products, operator by operator: a product and its sum count as two.
#
# Only what multiplies matrices is counted, in whichever way it is spelt; adding, scaling and
# exponentials are not.

Arguments = Sequence[Any]


def _product(first: int) -> Callable[[Arguments, Tensor], int]:
    """Products whose left matrix ``[..., m, k]`` is argument ``first``: 2 k per number made."""
    return lambda args, made: 2 * made.numel() * int(args[first].shape[-1])


def _added_batch(args: Arguments, made: Tensor) -> int:
    return 2 * made.numel() * int(args[1].shape[0] * args[1].shape[-1])


def _dot(args: Arguments, made: Tensor) -> int:
    return 2 * int(args[0].numel())


def _outer(args: Arguments, made: Tensor) -> int:
    return 2 * made.numel()


def _attention(args: Arguments, made: Any) -> int:
    """Two products; a causal one skips half of them, as far as anybody outside can tell."""
    q, k, v = args[:3]
    pairs = math.prod(q.shape[:-1]) * k.shape[-2]
    causal = any(flag is True for flag in args[3:])
    return int(2 * pairs * (q.shape[-1] + v.shape[-1]) // (2 if causal else 1))


def _broadcast(args: Arguments, made: Tensor) -> int:
    """A multiplication that repeats a side: ``(q[:, None] * k[None]).sum(-1)`` is a product.

    One that only scales rows, ``x * factor[:, None]``, is none.
    """
    sides = [side for side in args[:2] if isinstance(side, Tensor)]
    if len(sides) < 2:
        return 0
    small, large = sorted(sides, key=Tensor.numel)
    scales = small.numel() <= 1 or (made.numel() == large.numel() and small.shape[-1] == 1)
    return 2 * made.numel() if small.numel() < made.numel() and not scales else 0


_COUNTED: Mapping[str, Callable[[Arguments, Any], int]] = {
    "mm": _product(0),
    "bmm": _product(0),
    "mv": _product(0),
    "addmm": _product(1),
    "addmm_": _product(1),
    "baddbmm": _product(1),
    "baddbmm_": _product(1),
    "addmv": _product(1),
    "addbmm": _added_batch,
    "dot": _dot,
    "vdot": _dot,
    "addr": _outer,
    "ger": _outer,
    "_grouped_mm": _product(0),
    "mul": _broadcast,
    "mul_": _broadcast,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
}


def of(name: str, args: Arguments, made: Any) -> int:
    """FLOPs of one call of the operator ``name`` (without ``aten::`` and overload)."""
    counted = _COUNTED.get(name)
    return counted(args, made) if counted else 0


_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
# Address space is more than live bytes: workspaces of products and holes in the heap take some
# 90 MiB of it in the one right style that needs most, at a cap of 64 MiB.
FENCE = 3
_NO_MEMORY = ("can't allocate memory", "not enough memory", "Cannot allocate memory")


class _OverCap(MemoryError):
    """A call wanted more bytes than it may have."""


class _Costs(TorchDispatchMode):
    """Counts while it is entered.

    A storage counts once, whatever views there are of it, from the call that makes it until
    nothing holds it any more. One that was there before counts from its first use on, unless it
    is ``given``: what somebody keeps ready is used, too.

    Args:
        given: tensors that cost nothing: the arguments, and the parameters of a module.
        files: names of student files by the path of their code.
        cap: live bytes beyond which the call ends; 0 means any number.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spares every worker the import of torch's compiler: 800 modules."""
        return False

    def __init__(self, given: Iterable[Tensor], files: Mapping[str, str], cap: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._files = files
        self._cap = cap
        self._sizes: dict[int, int] = {}  # bytes by the address of the storage's record
        self._watched: dict[int, weakref.ref[Any]] = {}
        self._given = [_storage(tensor) for tensor in given]  # held: no address comes back
        self._free = {key for key, _ in filter(None, self._given)}
        self._live = 0
        self.over = self.kept = False
        self.peak = self.alive = self.flops = self.largest = self.line = 0
        self.file = self.operator = ""
        self.shape: tuple[int, ...] = ()
        self.kind = ""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if _is_composite(func):  # inference_mode hands on einsum and softmax whole
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        name = func.overloadpacket.__name__
        for tensor in _tensors((*args, *kwargs.values())):
            self._see(tensor, name, kept=True)
        try:
            made = func(*args, **kwargs)
        except (MemoryError, RuntimeError) as error:
            if not _is_memory(error):
                raise
            self.over = True
            self._note(name, None, 0, kept=False)
            raise _OverCap from None
        for tensor in _tensors((made,)):
            self._see(tensor, name, kept=False)
        self.flops += of(name, args, made)
        if self._cap and self._live > self._cap:
            self.over = True
            raise _OverCap
        return made

    def _see(self, tensor: Tensor, operator: str, *, kept: bool) -> None:
        """Count the storage of a tensor, unless it counts already."""
        found = _storage(tensor)
        if found is None or found[0] in self._free:
            return
        key, storage = found
        size, known = storage.nbytes(), self._sizes.get(key)
        if known == size:
            return
        self._live += size - (known or 0)
        self._sizes[key] = size
        if known is None:
            gone = functools.partial(_Costs._forget, self, key)
            self._watched[key] = weakref.ref(storage, gone)
        if self._live > self.peak:
            self.peak, self.alive = self._live, len(self._sizes)
        if size > self.largest:
            self._note(operator, tensor, size, kept=kept)

    def _forget(self, key: int, _: object) -> None:
        self._live -= self._sizes.pop(key, 0)
        self._watched.pop(key, None)

    def _note(self, operator: str, tensor: Tensor | None, size: int, *, kept: bool) -> None:
        """Write down the largest tensor so far, and the line of the student's that asks for it.

        One that there was no memory for is the largest of all, and has no shape yet.
        """
        self.largest, self.operator, self.kept = size, operator, kept
        self.shape = () if tensor is None else tuple(tensor.shape)
        self.kind = "" if tensor is None else str(tensor.dtype).removeprefix("torch.")
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename not in self._files:
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            self.file, self.line = self._files[frame.f_code.co_filename], frame.f_lineno

    def table(self) -> dict[str, Any]:
        """Everything, as plain data."""
        numbers = ("peak", "alive", "flops", "over", "largest")
        names = (*numbers, "operator", "kind", "file", "line", "kept")
        return {name: getattr(self, name) for name in names} | {"shape": list(self.shape)}


def measure(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    files: Mapping[str, str],
    cap: int = 0,
) -> list[Any]:
    """Call, and count meanwhile.

    Args:
        function: a function or a module; the parameters of a module cost nothing.
        args: its arguments, which cost nothing.
        kwargs: more of them, by name.
        files: names of student files by the path of their code.
        cap: bytes that the call may have alive; 0 means any number. Where this process is bound
            by a limit of address space, ``FENCE`` times as much is left of it meanwhile, so that
            what is invisible here comes to an end, too.

    Returns:
        ``[result, table]``; the result is None where the call went over its cap. ``fenced`` in
        the table says whether the system kept the limit, too.
    """
    given = [t for value in (*args, *kwargs.values()) for t in _tensors((value,))]
    if isinstance(function, torch.nn.Module):
        given += function.parameters()
    costs, result, fenced = _Costs(given, files, cap), None, False
    try:
        with torch.no_grad(), jail.narrowed(FENCE * cap) as fenced, costs:
            result = function(*args, **kwargs)
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        costs.over = True
    return [None if costs.over else result, costs.table() | {"fenced": fenced}]


@functools.cache
def _is_composite(func: Any) -> bool:
    """Return whether an operator is made of others, in C++.

    Not ``func.decompose()``: that takes Python's decompositions first, for which a worker would
    import sympy.
    """
    found: bool = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE)
    return found


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments, also in lists of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())


def _storage(tensor: Tensor) -> tuple[int, Any] | None:
    """The record of a tensor's memory and its address; None where it has none of its own."""
    try:
        storage = tensor.untyped_storage()
        return storage._cdata, storage
    except (RuntimeError, NotImplementedError):  # sparse ones, and those inside vmap
        return None
