"""What a call costs, counted instead of timed: rows through projections, bytes that stay held.

Runs in the worker, beside student code; sees what reaches torch and what hangs on an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

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
        tensors = list(_tensors((*args, *kwargs.values())))
        marks = [self._names.get(_address(tensor), set()) for tensor in tensors]
        names = set().union(*marks)
        others = [tensor for tensor, mark in zip(tensors, marks, strict=True) if not mark]
        if names and not others:
            for made in _tensors((result,)):
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
    with _Rows(weights) as rows:
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


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, Tensor))


def _address(tensor: Tensor) -> int:
    """Where the memory of a tensor begins; 0 where it has none of its own (inside ``vmap``)."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0
