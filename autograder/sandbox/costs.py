"""What a call costs, counted instead of timed: live bytes, the largest tensor, FLOPs.

Runs in the worker, beside student code. Everything that torch dispatches is seen; what numpy, a
thread or other C code does is not, so whoever reads the counts asks whether enough was seen.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.sandbox import flops, rlimits

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
        self.flops += flops.of(name, args, made)
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
        with torch.no_grad(), rlimits.narrowed(FENCE * cap) as fenced, costs:
            result = function(*args, **kwargs)
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        costs.over = True
    return [None if costs.over else result, costs.table() | {"fenced": fenced}]


@functools.cache
def _is_composite(func: Any) -> bool:
    """Whether an operator is made of others, in C++.

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
