"""Ranks meet at the judge: every collective gives what torch promises, and nobody waits in vain."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from autograder.course.records import Limits
from autograder.sandbox import local as sandbox_local
from autograder.sandbox.links import Budget, Starter, StudentError, WorkerLost
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.ranks import Each, Group, OutOfStep, RankLost, RankRaised, RankWorkers
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Sources, WorkerTransport
from autograder.sandbox.workers import ForkedLink
from autograder.wire.messages import Tensor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
SOURCE = """
import os, time
import torch, torch.distributed as dist

R, W = dist.get_rank, dist.get_world_size

def who(): return R(), W()
def summed(x, op="SUM"):
    y = x.clone()
    dist.all_reduce(y, op=getattr(dist.ReduceOp, op))
    return y
def waited(x):
    y = x.clone()
    dist.all_reduce(y, async_op=True).wait()
    return y
def not_waited(x):
    y = x.clone()
    dist.all_reduce(y, async_op=True)
    return y
def polled(x):
    y = x.clone()
    work = dist.all_reduce(y, async_op=True)
    while not work.is_completed(): pass
    return y
def by_future(x): return dist.all_reduce(x.clone(), async_op=True).get_future().wait()[0]
def gathered(x):
    parts = [torch.empty_like(x) for _ in range(W())]
    dist.all_gather(parts, x)
    return torch.stack(parts)
def stacked(x):
    out = x.new_empty(W(), *x.shape)
    dist.all_gather_into_tensor(out, x)
    return out
def scattered(x):
    out = x.new_empty(x.shape[0] // W())
    dist.reduce_scatter_tensor(out, x)
    return out
def scattered_list(x):
    out = x.new_empty(x.shape[0] // W())
    dist.reduce_scatter(out, list(x.chunk(W())))
    return out
def told(x):
    y = x.clone()
    dist.broadcast(y, 1)
    return y
def reduced(x):
    y = x.clone()
    dist.reduce(y, 1)
    return y
def objects():
    found = [None] * W()
    dist.all_gather_object(found, {"rank": R()})
    return [one["rank"] for one in found]
def exchanged(x):
    parts = list(torch.empty_like(x).chunk(W()))
    dist.all_to_all(parts, list(x.chunk(W())))
    return torch.cat(parts)
def exchanged_whole(x):
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x)
    return out
def gathered_with_gradient(x):
    import torch.distributed.nn.functional as F
    return torch.stack(F.all_gather(x))
def all_of_them():
    group = dist.new_group(list(range(W())))
    y = torch.ones(1)
    dist.all_reduce(y, group=group)
    dist.barrier()
    return y
def skip(x): return x if R() == 1 else summed(x)
def differ(x): return summed(x[:1] if R() == 1 else x)
def other(x): return gathered(x) if R() == 1 else summed(x)
def die(x):
    if R() == 1: os.abort()
    return summed(x)
def leave(x):
    if R() == 1: os._exit(0)
    return summed(x)
def spin(x):
    while R() == 1: pass
    return summed(x)
def sleep(x):
    if R() == 1: time.sleep(60)
    return summed(x)
def fail(x):
    if R() == 1: raise ValueError("rank one says no")
    return summed(x)
def fail_all(x): raise ValueError("all say no")
def fail_unlike(x): raise ValueError(f"{R()} says no")
def prints(): print("same"); print(R())
def prints_same(): print("same")
def for_ever(x):
    while True: summed(x)
def huge(x): return summed(x.new_zeros(9 << 20))
def gloo(): dist.new_group(backend="gloo")
def initialise(): dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500")
def some(): dist.new_group([0])
def sent(x): dist.send(x, 1 - R())
"""
LIMITS = Limits(cpu_seconds=0.5, wall_seconds=60)
X = Tensor.of(np.array([1.0, -2.0, 3.0, 8.0], np.float32))


@pytest.fixture(scope="module")
def start() -> Starter:
    return sandbox_local.starter()


@pytest.fixture(scope="module")
def kept(start: Starter) -> Iterator[WorkerTransport]:
    """Ranks that stay from test to test, as they do from check to check."""
    transport = WorkerTransport(start, Sources({"attention.py": SOURCE}), LIMITS)
    yield transport
    transport.renew()


@pytest.fixture
def transport(start: Starter) -> Iterator[WorkerTransport]:
    made = WorkerTransport(start, Sources({"attention.py": SOURCE}), LIMITS)
    yield made
    made.renew()


def ranks(transport: object, count: int = 2) -> Group:
    return Student(transport).ranks(count)  # type: ignore[arg-type]


def different(world: int) -> Each:
    return Each([Tensor.of(X.array * (rank + 1)) for rank in range(world)])


@pytest.mark.parametrize("world", [1, 2, 4])
def test_each_rank_knows_its_place(kept: WorkerTransport, world: int) -> None:
    result = ranks(kept, world).call("attention.who")
    assert [one.value for one in result] == [(rank, world) for rank in range(world)]


def test_a_worker_that_is_no_rank_is_a_group_of_one(kept: WorkerTransport) -> None:
    student = Student(kept)
    assert student.call("attention.who").value == (0, 1)
    assert student.call("attention.summed", X).value == X
    ranks(kept).call("attention.who").settle()
    assert Student(kept).call("attention.who").value == (0, 1)


SUMS = X.array * 10
EXPECTED = {
    "summed": lambda rank: SUMS,
    "waited": lambda rank: SUMS,
    "not_waited": lambda rank: X.array * (rank + 1),
    "polled": lambda rank: SUMS,
    "by_future": lambda rank: SUMS,
    "gathered": lambda rank: np.stack([X.array * n for n in (1, 2, 3, 4)]),
    "stacked": lambda rank: np.stack([X.array * n for n in (1, 2, 3, 4)]),
    "scattered": lambda rank: SUMS[rank : rank + 1],
    "scattered_list": lambda rank: SUMS[rank : rank + 1],
    "told": lambda rank: X.array * 2,
    "reduced": lambda rank: SUMS if rank == 1 else X.array * (rank + 1),
    "exchanged": lambda rank: X.array[rank] * np.arange(1, 5),
    "exchanged_whole": lambda rank: X.array[rank] * np.arange(1, 5),
    "gathered_with_gradient": lambda rank: np.stack([X.array * n for n in (1, 2, 3, 4)]),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_collectives_give_what_torch_promises(kept: WorkerTransport, name: str) -> None:
    result = ranks(kept, 4).call(f"attention.{name}", different(4), counted=True)
    assert len(result.calls) == 1
    for rank, one in enumerate(result):
        np.testing.assert_array_equal(one.value.array, EXPECTED[name](rank))


@pytest.mark.parametrize(
    ("op", "want"), [("AVG", X.array * 1.5), ("MAX", np.maximum(X.array, 2 * X.array))]
)
def test_other_reductions(kept: WorkerTransport, op: str, want: np.ndarray) -> None:
    result = ranks(kept, 2).call("attention.summed", different(2), op)
    np.testing.assert_array_equal(result[1].value.array, want)


def test_objects_and_groups_of_all(kept: WorkerTransport) -> None:
    group = ranks(kept, 4)
    assert [one.value for one in group.call("attention.objects")] == [[0, 1, 2, 3]] * 4
    assert group.call("attention.all_of_them")[3].value.array.tolist() == [4.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "bool", "uint8"])
def test_any_dtype_travels(kept: WorkerTransport, dtype: str) -> None:
    x = Tensor("bfloat16", (2,), b"\x80?\x00@") if dtype == "bfloat16" else None
    x = x or Tensor.of(np.array([0, 1], dtype))
    result = ranks(kept, 2).call("attention.gathered", x)
    assert (result[1].value.dtype, result[1].value.shape) == (dtype, (2, 2))
    assert bytes(result[1].value.data) == bytes(x.data) * 2


def ends_quickly(group: Group, name: str, *args: object) -> Exception:
    """The exception of a call; where nothing runs it has to come long before the wall cap."""
    started = time.monotonic()
    with pytest.raises((StudentError, RankLost)) as caught:
        group.call(f"attention.{name}", *args).settle()
    if name not in ("sleep", "spin", "for_ever"):
        assert time.monotonic() - started < 30
    return caught.value


def test_a_rank_that_returns_is_named_at_once(kept: WorkerTransport) -> None:
    error = ends_quickly(ranks(kept, 4), "skip", X)
    assert isinstance(error, OutOfStep)
    assert error.gone == (1,) and set(error.waiting) == {0, 2, 3}
    assert set(error.waiting.values()) == {"all_reduce float32 [4] (sum)"}


@pytest.mark.parametrize("name", ["differ", "other"])
def test_calls_that_do_not_match_are_named(kept: WorkerTransport, name: str) -> None:
    error = ends_quickly(ranks(kept), name, X)
    assert isinstance(error, OutOfStep)
    assert error.gone == () and len(set(error.waiting.values())) == 2


@pytest.mark.parametrize(
    ("name", "text", "timed_out"),
    [("die", "signal SIGABRT", False), ("leave", "exit status 0", False), ("spin", "0.5", True)],
)
def test_a_rank_that_is_lost_is_named(
    kept: WorkerTransport, name: str, text: str, timed_out: bool
) -> None:
    before = kept.lost
    error = ends_quickly(ranks(kept, 4), name, X)
    assert isinstance(error, RankLost)
    assert (str(error), error.rank, error.world, error.timed_out) == (text, 1, 4, timed_out)
    assert set(error.waiting) == {0, 2, 3}
    assert kept.lost == before + 1
    assert ranks(kept, 4).call("attention.who")[3].value == (3, 4)  # and the next ones are there


@pytest.mark.slow
def test_a_rank_that_sleeps_is_stopped_by_the_wall_cap(start: Starter) -> None:
    limits = Limits(cpu_seconds=1, wall_seconds=3)
    transport = WorkerTransport(start, Sources({"attention.py": SOURCE}), limits)
    error = ends_quickly(ranks(transport), "sleep", X)
    assert isinstance(error, RankLost) and (error.clock, error.rank) == ("wall", 1)
    transport.renew()


def test_a_rank_that_raises_is_named_unless_all_do(kept: WorkerTransport) -> None:
    one = ends_quickly(ranks(kept), "fail", X)
    assert isinstance(one, StudentError) and one.text == "[rank 1] rank one says no"
    both = ends_quickly(ranks(kept), "fail_all", X)
    assert isinstance(both, StudentError) and both.text == "all say no"
    unlike = ends_quickly(ranks(kept), "fail_unlike", X)
    assert isinstance(unlike, StudentError) and unlike.text == "[rank 0] 0 says no"


@pytest.mark.slow
def test_endless_and_huge_collectives_are_stopped(transport: WorkerTransport) -> None:
    error = ends_quickly(ranks(transport), "for_ever", X)
    assert isinstance(error, RankLost)
    error = ends_quickly(ranks(transport), "huge", X)
    assert isinstance(error, StudentError) and "bytes" in error.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gloo", "gloo needs sockets"),
        ("initialise", "initialised already"),
        ("some", "groups of some ranks"),
        ("sent", "use a collective"),
    ],
)
def test_what_cannot_be_had_says_so(kept: WorkerTransport, name: str, words: str) -> None:
    error = ends_quickly(ranks(kept), name, *([X] if name == "sent" else []))
    assert isinstance(error, StudentError) and words in error.text


def test_prints_are_told_apart_where_they_differ(kept: WorkerTransport) -> None:
    kept.take_prints()
    ranks(kept).call("attention.prints_same").settle()
    assert kept.take_prints() == "same\n"
    ranks(kept).call("attention.prints").settle()
    lines = ["[rank 0] same", "[rank 0] 0", "[rank 1] same", "[rank 1] 1"]
    assert kept.take_prints().splitlines() == lines


def test_ranks_run_module_code_once_in_a_process_where_it_has_to_be(start: Starter) -> None:
    text = f"import torch\ntorch.set_num_interop_threads(1)\n{SOURCE}"
    transport = WorkerTransport(start, Sources({"attention.py": text}), LIMITS)
    for _ in range(3):
        result = ranks(transport).call("attention.summed", X)
        np.testing.assert_array_equal(result[1].value.array, 2 * X.array)
    transport.renew()


def test_no_descriptor_stays_open(start: Starter) -> None:
    before = set(os.listdir("/proc/self/fd"))
    transport = WorkerTransport(start, Sources({"attention.py": SOURCE}), LIMITS)
    for name in ("summed", "skip", "die", "fail", "summed"):
        try:
            ranks(transport, 4).call(f"attention.{name}", X).settle()
        except (StudentError, RankLost):
            continue
    transport.renew()
    assert set(os.listdir("/proc/self/fd")) == before


def test_what_both_sides_know_travels_to_a_rank_once(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    begin = ForkedLink.begin

    def noted(self: ForkedLink, blob: bytes, budget: Budget) -> None:
        sizes.append(len(blob))
        begin(self, blob, budget)

    transport = WorkerTransport(start, Sources({"attention.py": SOURCE}), LIMITS)
    known = replace(Tensor.of(np.ones(10_000, np.float32)), key="known")
    ranks(transport, 2).call("attention.summed", known).settle()
    monkeypatch.setattr(ForkedLink, "begin", noted)
    for world in (2, 2, 4):
        result = ranks(transport, world).call("attention.summed", known)
        np.testing.assert_array_equal(result[world - 1].value.array, world * known.array)
    assert sum(size > known.array.nbytes for size in sizes) == 2  # the two that came anew
    transport.renew()


def test_what_a_rank_says_of_itself_is_checked(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that speaks another language costs its group, and nothing else."""

    transport = WorkerTransport(start, Sources({"attention.py": SOURCE}), LIMITS)
    gang = RankWorkers(transport._begin, Budget(1, 5))
    gang.fill(1)
    liar = transport._begin()
    monkeypatch.setattr(liar, "finish", lambda: b"\x08" + bytes(7) + b"garbage!")
    gang._links.append(liar)
    hub = gang.exchange([({"steps": [], "fresh": True}, {})] * 2)
    with pytest.raises(RankLost) as caught:
        hub.end()
    assert caught.value.rank == 1
    gang.close()
    transport.renew()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_first_rank_runs_in_this_process_when_debugged(world: int) -> None:
    local = LocalTransport(Sources({"attention.py": SOURCE}))
    try:
        group = ranks(local, world)
        assert [v.value for v in group.call("attention.who")] == [(r, world) for r in range(world)]
        result = group.call("attention.summed", different(world), counted=True)
        assert len(result.calls) == 1
        factor = world * (world + 1) / 2
        np.testing.assert_array_equal(result[0].value.array, X.array * factor)
        assert Student(local).call("attention.who").value == (0, 1)
    finally:
        local.close()


def test_faults_of_ranks_are_the_same_when_debugged(kept: WorkerTransport) -> None:
    local = LocalTransport(Sources({"attention.py": SOURCE}))
    try:
        for name in ("skip", "differ", "other", "fail", "fail_all", "fail_unlike"):
            here = ends_quickly(ranks(local), name, X)
            there = ends_quickly(ranks(kept), name, X)
            assert (type(here), str(here)) == (type(there), str(there)), name
            assert getattr(here, "text", "") == getattr(there, "text", ""), name
    finally:
        local.close()


def test_a_debugged_rank_sees_what_another_raised() -> None:
    local = LocalTransport(Sources({"attention.py": SOURCE}), debug=True)
    try:
        with pytest.raises(RankRaised, match="rank one says no"):
            ranks(local).call("attention.fail", X).settle()
    finally:
        local.close()


# Writes collective calls to its judge without waiting for what the others gave.
IN_ADVANCE = """
import json, os, stat, struct, time
def in_advance(count, size):
    for fd in range(3, 40):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): break
        except OSError:
            continue
    said = json.dumps({"call": "all_reduce", "about": "x"})
    head = {"__metadata__": {"m": said}}
    head["b"] = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    blob = struct.pack("<Q", len(text)) + text + b"x" * size
    rest = (struct.pack("<Q", len(blob)) + blob) * count
    while rest:
        rest = rest[os.write(fd, rest):]
    time.sleep(60)
"""


def test_collectives_in_advance_end_at_once(start: Starter) -> None:
    transport = WorkerTransport(start, Sources({"attention.py": IN_ADVANCE}), LIMITS)
    with pytest.raises(RankLost, match="before it had the answer"):
        ranks(transport, 4).call("attention.in_advance", 3000, 20_000).settle()
    transport.renew()


def test_messages_that_keep_coming_end_with_the_time(
    transport: WorkerTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = transport._begin()
    assert isinstance(link, ForkedLink)
    monkeypatch.setattr(link, "_message", lambda: b"one more")
    link.start(Budget(1, 0.05))
    assert link.finish() == b"one more"
    time.sleep(0.06)
    with pytest.raises(WorkerLost, match=r"0\.05") as caught:
        link.finish()
    assert (caught.value.timed_out, caught.value.clock) == (True, "wall")
    link.close()
