"""Methods, dtypes, and what a call costs: rows through projections, bytes that stay held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.student import Dtype, Student
from autograder.sandbox.transport import Reply
from autograder.wire.messages import pack, unpack
from autograder.worker import costs
from autograder.worker.session import Session

WIDTH, ROWS = 6, 10
MODULE = """
import torch
import torch.nn.functional as F
from torch import nn
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 4, bias=False), nn.Linear(6, 8, bias=False)
    def forward(self, x):
        {body}
"""
# Ways to send x through both projections; all of them right, all of them to be counted.
WAYS = {
    "modules": "return self.a(x), self.b(x)",
    "functional": "return F.linear(x, self.a.weight), F.linear(x, self.b.weight)",
    "matmul": "return x @ self.a.weight.T, torch.matmul(x, self.b.weight.mT)",
    "flat mm": "return x.reshape(-1, 6).mm(self.a.weight.t()), x.flatten(0, 1) @ self.b.weight.t()",
    "einsum": "return torch.einsum('btd,hd->bth', x, self.a.weight), "
    "torch.einsum('hd,btd->bth', self.b.weight, x)",
    "fused": "return F.linear(x, torch.cat([self.a.weight, self.b.weight])).split((4, 8), -1)",
    "per head": "return [F.linear(x, w) for w in self.a.weight.chunk(1)], self.b(x)",
    "bmm": "w = self.a.weight.T.expand(2, 6, 4)\n        return torch.bmm(x, w), self.b(x)",
    "hooks": "with torch.enable_grad():\n            y = x.clone().requires_grad_()\n"
    "            y.register_hook(lambda grad: [grad, self.a(x)][0])\n"
    "            torch.autograd.backward(y.sum())\n"
    "        return self.b(x)",
}


class Looped:
    """A session behind real messages."""

    def __init__(self, text: str) -> None:
        self.session = Session({"code.py": text})

    def exchange(self, request: dict[str, Any], tensors: dict[str, Any]) -> Reply:
        return unpack(pack(*self.session.execute(*unpack(pack(request, tensors)))))


@pytest.fixture
def hand_in() -> Iterator[Callable[[str], Student]]:
    made: list[Looped] = []

    def make(text: str) -> Student:
        made.append(Looped(text))
        return Student(made[-1])

    yield make
    for looped in made:
        looped.session.modules.remove()


Maker = Callable[[str], Student]
X = np.ones((2, ROWS // 2, WIDTH), np.float32)


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_counted_however_a_projection_is_written(hand_in: Maker, way: str) -> None:
    student = hand_in(MODULE.format(body=WAYS[way]))
    _, rows = student.call(student.new("code.M"), X, count=("a", "b")).value
    assert rows == {"a": ROWS, "b": ROWS}


def test_a_projection_inside_vmap_is_seen(hand_in: Maker) -> None:
    body = "return torch.func.vmap(lambda row: F.linear(row, self.a.weight))(x), self.b(x)"
    student = hand_in(MODULE.format(body=body))
    _, rows = student.call(student.new("code.M"), X, count=("a", "b")).value
    assert 0 < rows["a"] <= ROWS and rows["b"] == ROWS


def test_what_is_computed_again_counts_again(hand_in: Maker) -> None:
    again = "for _ in range(3): self.a(x)\n        return self.a(x[:, :1])"
    student = hand_in(MODULE.format(body=again))
    _, rows = student.call(student.new("code.M"), X, count=("a", "b")).value
    assert rows == {"a": 3 * ROWS + 2, "b": 0}


def test_what_came_out_of_a_projection_is_no_weight(hand_in: Maker) -> None:
    body = "y = self.a(x)\n        return y @ y.mT, y @ torch.ones(4, 4), x @ torch.ones(6, 2)"
    student = hand_in(MODULE.format(body=body))
    _, rows = student.call(student.new("code.M"), X, count=("a",)).value
    assert rows == {"a": ROWS}


def test_an_absent_submodule_is_the_students_error(hand_in: Maker) -> None:
    student = hand_in(MODULE.format(body="return x"))
    with pytest.raises(StudentError, match="AttributeError"):
        _ = student.call(student.new("code.M"), X, count=("c",)).value


HOLDER = """
import torch
class Cache:
    shared = None
    def __init__(self, dtype): self.dtype, self.parts, self.me = dtype, [], self
    def put(self, x, times=1):
        self.parts.append(x.to(self.dtype).repeat_interleave(times, dim=1))
        return len(self.parts)
    def view(self, x): self.seen = x.expand(50, -1, -1, -1)
    def part(self, x): self.half = torch.cat((x, x))[:2]
    def on_class(self, x): type(self).shared = x
    def inside(self, x): self.deep = {"k": (Slotted(x), [x, x.mT])}
class Slotted:
    __slots__ = ("x",)
    def __init__(self, x): self.x = x
"""
BYTES = X.nbytes


@pytest.mark.parametrize("method", ["view", "part", "on_class", "inside", "put"])
def test_memory_counts_once_and_no_more_than_is_shown(hand_in: Maker, method: str) -> None:
    student = hand_in(HOLDER)
    cache = student.new("code.Cache", Dtype("float32"))
    assert student.call(cache, X, method=method, held=cache).value[1] == BYTES


def test_copies_count_and_dtypes_arrive(hand_in: Maker) -> None:
    student = hand_in(HOLDER)
    cache = student.new("code.Cache", Dtype("bfloat16"))
    assert student.call(cache, X, 3, method="put", held=cache).value == [1, 3 * BYTES // 2]
    assert student.call(cache, X, method="put").value == 2
    assert student.call(cache, X, method="put", echo=True).value[0] == 3


def test_an_object_without_tensors_holds_nothing() -> None:
    class Loop:
        def __init__(self) -> None:
            self.me, self.text, self.function = self, "x", torch.ones

    assert costs.held(Loop()) == 0
    assert costs.held([torch.ones(3), [torch.ones(2)]]) == 20


def test_an_unknown_method_is_an_error_of_the_student(hand_in: Maker) -> None:
    student = hand_in(HOLDER)
    cache = student.new("code.Cache", Dtype("float32"))
    with pytest.raises(StudentError, match="reset"):
        _ = student.call(cache, method="reset").value


# What autograd calls, and when.
CALLED_BACK = {
    "a hook": "y.register_hook(hidden)\ny.sum().backward()",
    "a hook, by a function": "y.register_hook(hidden)\ntorch.autograd.backward(y.sum())",
    "a hook, by a gradient": "y.register_hook(hidden)\ntorch.autograd.grad(y.sum(), x)",
    "a hook of a node": "y.grad_fn.register_hook(lambda *_: [hidden(q), None][1])\n"
    "y.sum().backward()",
    "a hook of a gradient that is there": "x.register_post_accumulate_grad_hook("
    "lambda _: [hidden(q), None][1])\ny.sum().backward()",
    "what was packed": "with torch.autograd.graph.saved_tensors_hooks(lambda t: t, hidden):\n"
    "    y = x * x\ny.sum().backward()",
    "a backward function": "Own.apply(x, 0).sum().backward()",
    "one so deep that another thread runs it": "sys.setrecursionlimit(5000)\n"
    "Own.apply(x, 70).sum().backward()\nsys.setrecursionlimit(1000)",
}


@pytest.mark.parametrize("name", CALLED_BACK)
def test_what_autograd_calls_back_is_written_down(hand_in: Maker, name: str) -> None:
    body = "".join(f"        {line}\n" for line in CALLED_BACK[name].splitlines())
    text = """
import sys
import torch
def hidden(q): return getattr(torch.nn.functional, "scaled_dot_" + "product_attention")(q, q, q)
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        if not ctx.depth: return hidden(grad), None
        with torch.enable_grad():
            Own.apply(grad.clone().requires_grad_(), ctx.depth - 1).sum().backward()
        return grad, None
def f(q):
    with torch.enable_grad():
        x = q.clone().requires_grad_()
        y = 2 * x
"""
    student, engine = hand_in(text + body), torch.autograd.Variable._execution_engine
    _ = student.call("code.f", np.ones((1, 1, 2, 4), np.float32), operators=True).value
    assert any("scaled_dot_product" in one for one in student.operators)
    assert torch.autograd.Variable._execution_engine is engine


IN_ITS_CONSTRUCTOR = "    def __init__(self):\n        super().__init__()\n        "


@pytest.mark.parametrize("where", ["", IN_ITS_CONSTRUCTOR])
def test_what_is_called_before_a_call_is_written_down_with_it(hand_in: Maker, where: str) -> None:
    text = f"""
import torch
class M(torch.nn.Module):
    def forward(self, x): return x
{where}torch.Tensor.sin(torch.ones(2))
"""
    student = hand_in(text)
    assert student.call(student.new("code.M"), X, operators=True).value.shape == X.shape
    assert "sin" in student.operators


def test_older_requests_are_what_they_were() -> None:
    seen: list[dict[str, Any]] = []

    class Noting:
        def exchange(self, request: dict[str, Any], tensors: dict[str, Any]) -> Reply:
            seen.append(request)
            return {"values": [1]}, {}

    student = Student(Noting())
    assert student.call("code.f", 1).value == 1
    assert seen[0]["steps"][0].keys() == {"op", "target", "args", "kwargs", "echo", "operators"}


@pytest.mark.parametrize("cost", [-1, "3", None, {"$dict": [["a", 1.5]]}, {"$dict": [["a", True]]}])
def test_a_cost_is_a_whole_number(cost: Any) -> None:
    class Forged:
        def exchange(self, request: dict[str, Any], tensors: dict[str, Any]) -> Reply:
            return {"values": [{"$list": [1, cost]}]}, {}

    with pytest.raises(WorkerLost):
        _ = Student(Forged()).call("code.f", count=("a",)).value
