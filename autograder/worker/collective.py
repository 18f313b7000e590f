"""The process group of student code: ranks that meet at the judge, without a socket.

Student code writes ordinary ``torch.distributed`` calls. The default group is initialised when it
comes in: of size 1 in every worker, of more where a check asks for ranks. All collectives are
made of one primitive, "every rank gives bytes, every rank gets everybody's", and reduce here, in
torch, so the judge only has to hand bytes around. A group of size 1 asks nobody. What a call with
``async_op=True`` gives is there once its handle was waited for, and not before.

torch 2.13 calls ``_allgather_base`` ``all_gather_single``, ``_reduce_scatter_base``
``reduce_scatter_single`` and ``alltoall_base`` ``all_to_all_single``; the group answers to all.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed
import torch.distributed.nn  # its functions default to the group of when it is imported: to none
from torch import Tensor
from torch.distributed import distributed_c10d

from autograder.wire.messages import MAX_COLLECTIVE

# Annotated in part only, and differently in each release.
dist: Any = torch.distributed
c10d: Any = distributed_c10d
c10d_native: Any = torch._C._distributed_c10d
_Group: Any = dist.ProcessGroup

BACKEND = "ranks"
# What is called, what has to be the same on all ranks (in words), bytes -> everybody's bytes.
Ask = Callable[[str, str, bytes], Sequence[bytes]]

_REDUCTIONS: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.AVG: torch.add,  # and divided in the end
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}


def _alone(call: str, about: str, data: bytes) -> Sequence[bytes]:
    return [data]


_Arrival = tuple[Tensor, Tensor]  # a tensor of the caller's, and what it will hold


class _Handle(c10d_native.Work):  # type: ignore[misc]  # torch types it in no release alike
    """Of a collective call: what it gives arrives when somebody waits, or asks whether it has."""

    def __init__(self, result: Any, arriving: Iterable[_Arrival]) -> None:
        super().__init__()
        self._result, self.arriving = result, list(arriving)

    def wait(self, *_: Any, **__: Any) -> bool:
        with torch.no_grad():
            for place, value in self.arriving:
                place.copy_(value)
        self.arriving = []
        return True

    is_completed = is_success = synchronize = wait

    def result(self) -> Any:
        self.wait()
        return self._result

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self.result())
        return future


_asks: list[Ask] = [_alone]  # one: how the group that torch makes next reaches the others


class RankGroup(_Group):  # type: ignore[misc]  # torch types it in no release alike
    """A process group whose ranks reach each other through ``ask``."""

    def __init__(self, rank: int, world: int, ask: Ask) -> None:
        super().__init__(rank, world)
        self._own, self._world, self._ask = rank, world, ask

    def getBackendName(self) -> str:
        return BACKEND

    def allreduce(self, tensors: list[Tensor], options: Any = None) -> Any:
        reduction, arriving = _reduction(options), []
        for tensor in tensors:
            parts = self._meet("all_reduce", tensor, f" ({_name(reduction)})")
            arriving.append((tensor, _reduced(parts, reduction)))
        return _Handle(tensors, arriving)

    allreduce_coalesced = allreduce

    def allgather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], options: Any = None
    ) -> Any:
        arriving: list[_Arrival] = []
        for places, tensor in zip(outputs, inputs, strict=True):
            arriving += zip(places, self._meet("all_gather", tensor), strict=True)
        return _Handle(outputs, arriving)

    def all_gather_single(self, output: Tensor, tensor: Tensor, options: Any = None) -> Any:
        parts = self._meet("all_gather_into_tensor", tensor)
        # Either side by side or stacked: their memory is the same.
        return _Handle([output], [(output, torch.stack(parts).reshape(output.shape))])

    _allgather_base = all_gather_single

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], options: Any = None
    ) -> Any:
        handles = [
            self.reduce_scatter_single(output, torch.stack(list(parts)), options)
            for output, parts in zip(outputs, inputs, strict=True)
        ]
        return _Handle(outputs, [arrival for handle in handles for arrival in handle.arriving])

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, options: Any = None) -> Any:
        reduction = _reduction(options)
        parts = self._meet("reduce_scatter", tensor, f" ({_name(reduction)})")
        whole = _reduced(parts, reduction).reshape(self._world, *output.shape)
        return _Handle([output], [(output, whole[self._own])])

    _reduce_scatter_base = reduce_scatter_single

    def broadcast(self, tensors: list[Tensor], options: Any) -> Any:
        root = int(options.rootRank)
        about = f" from rank {root}"
        arriving = [(tensor, self._meet("broadcast", tensor, about)[root]) for tensor in tensors]
        return _Handle(tensors, arriving)

    def reduce(self, tensors: list[Tensor], options: Any) -> Any:
        reduction, root = _reduction(options), int(options.rootRank)
        about = f" ({_name(reduction)}) to rank {root}"
        arriving = [(t, _reduced(self._meet("reduce", t, about), reduction)) for t in tensors]
        return _Handle(tensors, arriving if self._own == root else [])

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], options: Any) -> Any:
        root = int(options.rootRank)
        parts = self._meet("gather", inputs[0], f" to rank {root}")
        arriving = zip(outputs[0], parts, strict=True) if self._own == root else ()
        return _Handle(outputs, arriving)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], options: Any) -> Any:
        root = int(options.rootRank)
        like = outputs[0].new_zeros((self._world, *outputs[0].shape))
        given = torch.stack(list(inputs[0])) if self._own == root else like
        parts = self._meet("scatter", given, f" from rank {root}")
        return _Handle(outputs, [(outputs[0], parts[root][self._own])])

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], options: Any = None) -> Any:
        parts = self._meet("all_to_all", torch.stack(list(inputs)))
        mine = [part[self._own] for part in parts]
        return _Handle(outputs, zip(outputs, mine, strict=True))

    def all_to_all_single(
        self,
        output: Tensor,
        tensor: Tensor,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        options: Any = None,
    ) -> Any:
        if len({*output_sizes}) > 1 or len({*input_sizes}) > 1:
            raise RuntimeError("parts of different lengths are not offered here: use all_to_all")
        parts = self._meet("all_to_all_single", tensor)
        mine = [part.chunk(self._world)[self._own] for part in parts]
        return _Handle([output], [(output, torch.cat(mine).reshape(output.shape))])

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Any:
        self._ask("barrier", "", b"")
        return _Handle([], ())

    def send(self, *_: Any) -> Any:
        raise RuntimeError("dist.send and dist.recv are not offered here: use a collective")

    recv = recv_anysource = send

    def _meet(self, call: str, tensor: Tensor, more: str = "") -> list[Tensor]:
        """Return what every rank gave, in the order of ranks: tensors like this one."""
        shape, dtype = tuple(tensor.shape), tensor.dtype
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        if len(data) > MAX_COLLECTIVE:
            raise RuntimeError(
                f"{call} of {len(data)} bytes; at most {MAX_COLLECTIVE} are taken here"
            )
        about = f"{str(dtype).removeprefix('torch.')} {list(shape)}{more}"
        return [_tensor(part, shape, dtype) for part in self._ask(call, about, data)]


def join(rank: int, world: int, ask: Ask = _alone) -> None:
    """Make this process one of ``world`` ranks: the default group of ``torch.distributed``."""
    leave()
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _make, devices=["cpu"])
    _asks[-1] = ask
    hook = sys.excepthook  # torch would put "[rank0]:" before every line of a traceback
    c10d_init(backend=BACKEND, store=dist.HashStore(), rank=rank, world_size=world)
    sys.excepthook = hook


def stand_alone() -> None:
    """Make this process a group of one, unless it is in a group."""
    if not dist.is_initialized():
        join(0, 1)


def leave() -> None:
    """Take this process out of its group, if it is in one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def explain_what_a_jail_denies() -> None:
    """Let calls that need sockets, or a second default group, say so in plain words."""
    for module in (dist, c10d):
        module.init_process_group = _initialised
        module.new_group = _new_group
        module.ProcessGroupGloo = _NoGloo


c10d_init = c10d.init_process_group
c10d_new_group = c10d.new_group
_NO_GLOO = (
    "{0} needs sockets, which are denied here: use the default group, which is initialised "
    "already, without naming a backend"
)


@functools.wraps(c10d_init)
def _initialised(*_: Any, **__: Any) -> None:
    raise RuntimeError(
        "the process group is initialised already, by the grader: call dist.all_reduce and the "
        "others as they are; init_process_group (gloo, nccl) needs sockets, which are denied here"
    )


class _NoGloo:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError(_NO_GLOO.format("gloo"))


@functools.wraps(c10d_new_group)
def _new_group(
    ranks: Any = None, timeout: Any = None, backend: Any = None, *more: Any, **named: Any
) -> Any:
    """Newer releases of torch look for a named backend in a table, before they would make it."""
    if str(backend).lower() in ("gloo", "nccl", "mpi", "ucc"):
        raise RuntimeError(_NO_GLOO.format(backend))
    return c10d_new_group(ranks, timeout, backend, *more, **named)


def _make(store: Any, rank: int, world: int, timeout: Any) -> RankGroup:
    """Return what torch calls for a new group of our backend."""
    default = c10d.GroupMember.WORLD
    if isinstance(default, RankGroup) and default.size() != world:
        raise RuntimeError("groups of some ranks only are not offered here: use the default group")
    return RankGroup(rank, world, _asks[-1])


def _tensor(data: bytes, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _reduction(options: Any) -> Any:
    """The reduction that is asked for; a sum where nothing is said."""
    found = getattr(options, "reduceOp", dist.ReduceOp.SUM)
    return getattr(found, "op", found)


def _name(reduction: Any) -> str:
    return str(reduction).rpartition(".")[2].lower()


def _reduced(parts: Sequence[Tensor], reduction: Any) -> Tensor:
    """All parts as one, in the order of ranks, so that every rank gets the same bits."""
    how = _REDUCTIONS.get(reduction)
    if how is None:
        raise RuntimeError(f"the reduction {_name(reduction)} is not offered here")
    whole = functools.reduce(how, parts)
    return whole / len(parts) if reduction == dist.ReduceOp.AVG else whole
