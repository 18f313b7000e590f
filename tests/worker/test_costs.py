"""What a call costs: bytes that are alive at once, the largest tensor, FLOPs, and a cap on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply
from autograder.wire.messages import pack, unpack
from autograder.worker import jail
from autograder.worker.session import Session

X = np.ones((8, 16), np.float32)  # 512 bytes
BYTES = X.nbytes


class Looped:
    """A session behind real messages; what it replies may be changed on the way."""

    def __init__(self, text: str) -> None:
        self.session = Session({"code.py": text})
        self.change: Callable[[Any], None] = lambda values: None

    def exchange(self, request: dict[str, Any], tensors: dict[str, Any]) -> Reply:
        reply, arrays = self.session.execute(*unpack(pack(request, tensors)))
        self.change(reply.get("values"))
        return unpack(pack(reply, arrays))


@pytest.fixture
def hand_in() -> Iterator[Callable[[str], Looped]]:
    made: list[Looped] = []

    def make(body: str) -> Looped:
        made.append(Looped(f"import torch\nimport torch.nn.functional as F\n{body}"))
        return made[-1]

    yield make
    for looped in made:
        looped.session.modules.remove()


def run(looped: Looped, *args: Any, cap: int = 0) -> tuple[Any, dict[str, Any]]:
    result, costs = Student(looped).call("code.f", *(args or (X,)), measure=cap).value
    return result, costs


# A function of x [8, 16], and the bytes that it has alive at most, in units of x's.
PEAKS = {
    "return x + 1": 1,
    "return (x + 1) + 1": 2,  # the first is still there while the second is made
    "y = x + 1\n    y = y + 1\n    y = y + 1\n    return y": 2,
    "y = x + 1\n    z = y + 1\n    w = z + 1\n    return y + w": 4,
    "return x": 0,
    "return x.T[2:].reshape(-1)[3:]": 0.875,  # only the copy: 14 of 16 columns
    "y = x + 1\n    return y.view(-1), y.T, y[2:], y": 1,
    "y = x + 1\n    y += 1\n    y.mul_(2)[1:].zero_()\n    return y": 1,
    "return torch.add(x, 1, out=torch.empty_like(x))": 1,
    "return x.expand(100, 8, 16)": 0,
    "return x.expand(4, 8, 16).clone()": 4,
    "kept = [x + i for i in range(5)]\n    return kept[0]": 5,
    "for i in range(5):\n        y = x + i\n        del y\n    return x": 1,
    "y = torch.empty(0)\n    return y.resize_(8, 16)": 1,
    "return torch.cat([x, x])[:1]": 2,
    "return [t + 0 for t in x.unbind(0)][0]": 1,
    "return x.to(torch.bfloat16)": 0.5,
    "return x > 0": 0.25,
}


@pytest.mark.parametrize("body", PEAKS)
def test_bytes_count_while_something_holds_them(hand_in: Any, body: str) -> None:
    _, costs = run(hand_in(f"def f(x):\n    {body}"))
    assert costs["peak"] == PEAKS[body] * BYTES


def test_what_was_kept_ready_counts_from_its_first_use(hand_in: Any) -> None:
    body = "READY = torch.empty(100, 16)\ndef f(x):\n    READY[:8] = x\n    return READY[:8] + 1"
    _, costs = run(hand_in(body))
    assert costs["peak"] == 100 * 64 + BYTES
    assert (costs["kept"], costs["shape"]) == (True, [100, 16])


def test_weights_of_a_module_cost_nothing_and_its_buffers_do(hand_in: Any) -> None:
    looped = hand_in(
        "class M(torch.nn.Linear):\n"
        "    def __init__(self):\n"
        "        super().__init__(16, 4, bias=False)\n"
        "        self.register_buffer('spare', torch.ones(50, 16), persistent=False)\n"
        "    def forward(self, x):\n"
        "        return super().forward(x) if x.shape[0] == 8 else self.spare * 2\n"
    )
    student = Student(looped)
    module = student.new("code.M")
    _, costs = student.call(module, X, measure=0).value
    assert (costs["peak"], costs["flops"]) == (8 * 4 * 4, 2 * 8 * 16 * 4)
    _, costs = student.call(module, X[:1], measure=0).value
    assert costs["peak"] == 2 * 50 * 16 * 4


# Ways to spell x [8, 16] times y.T, y [5, 16]: all of them 2 * 8 * 16 * 5 FLOPs.
PRODUCTS = (
    "x @ y.T",
    "torch.matmul(x, y.mT)",
    "F.linear(x, y)",
    "F.linear(x, y, torch.ones(5))",
    "torch.einsum('ik,jk->ij', x, y)",
    "torch.tensordot(x, y, dims=([1], [1]))",
    "torch.bmm(x[None], y.T[None])",
    "torch.baddbmm(torch.zeros(1, 8, 5), x[None], y.T[None])",
    "torch.stack([x.mv(row) for row in y])",
    "torch.stack([torch.dot(a, b) for a in x for b in y])",
    "(x[:, None] * y[None]).sum(-1)",
    "torch.stack([(x * row).sum(-1) for row in y])",
    "torch.addmm(torch.zeros(8, 5), x, y.T)",
)


@pytest.mark.parametrize("mode", ["torch.no_grad", "torch.inference_mode"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_flops_of_a_product_however_it_is_spelt(hand_in: Any, product: str, mode: str) -> None:
    looped = hand_in(f"@{mode}()\ndef f(x, y):\n    return {product}")
    _, costs = run(looped, X, np.ones((5, 16), np.float32))
    assert costs["flops"] == 2 * 8 * 16 * 5


@pytest.mark.parametrize(
    "body",
    ["x * 2", "x * x", "x * x[:, :1]", "x * x.sum()", "(x + x[:1]).exp().softmax(-1)", "x.T"],
)
def test_what_multiplies_no_matrices_has_no_flops(hand_in: Any, body: str) -> None:
    assert run(hand_in(f"def f(x):\n    return {body}"))[1]["flops"] == 0


def test_attention_of_torch_counts_as_two_products(hand_in: Any) -> None:
    q, k = np.ones((1, 2, 6, 4), np.float32), np.ones((1, 2, 10, 4), np.float32)
    body = "def f(q, k):\n    return F.scaled_dot_product_attention(q, k, k)"
    assert run(hand_in(body), q, k)[1]["flops"] == 4 * 2 * 6 * 10 * 4


def test_the_largest_tensor_has_its_operator_and_line(hand_in: Any) -> None:
    body = "def f(x):\n    y = x + 1\n    z = y @ y.T.repeat(1, 9)\n    return z.sum()"
    _, costs = run(hand_in(body))
    assert (costs["operator"], costs["shape"], costs["kind"]) == ("repeat", [16, 72], "float32")
    assert (costs["file"], costs["line"], costs["kept"]) == ("code.py", 5, False)


def test_a_call_over_its_cap_ends_there(hand_in: Any) -> None:
    body = "def f(x):\n    y = x.repeat(100, 1)\n    raise RuntimeError('not reached')"
    result, costs = run(hand_in(body), cap=10 * BYTES)
    assert (result, costs["over"], costs["fenced"]) == (None, True, False)
    assert (costs["operator"], costs["shape"], costs["line"]) == ("repeat", [800, 16], 4)
    result, costs = run(hand_in("def f(x):\n    return x.repeat(9, 1)"), cap=10 * BYTES)
    assert not costs["over"]
    assert result.shape == (72, 16)


def test_a_cap_cannot_be_caught_away(hand_in: Any) -> None:
    body = (
        "def f(x):\n    try:\n        return x.repeat(100, 1)\n"
        "    except BaseException:\n        return x\n"
    )
    result, costs = run(hand_in(body), cap=10 * BYTES)
    assert (result, costs["over"]) == (None, True)


def test_memory_that_the_system_refuses_is_a_cap_too(hand_in: Any) -> None:
    result, costs = run(hand_in("def f(x):\n    return torch.empty(1 << 50)"))
    assert (result, costs["over"], costs["shape"]) == (None, True, [])
    assert (costs["operator"], costs["line"]) == ("empty", 4)
    result, costs = run(hand_in("def f(x):\n    raise MemoryError"))
    assert costs["over"]


def test_errors_of_student_code_stay_theirs(hand_in: Any) -> None:
    with pytest.raises(StudentError, match=r"IndexError") as failed:
        run(hand_in("def f(x):\n    return x[99]"), cap=1 << 30)
    assert failed.value.frames[-1].line == 4


def test_numpy_is_not_seen(hand_in: Any) -> None:
    body = "def f(x):\n    y = x.numpy() @ x.numpy().T\n    return torch.from_numpy(y) + 0"
    _, costs = run(hand_in(body))
    assert costs["flops"] == 0


def test_threads_are_not_seen(hand_in: Any) -> None:
    body = (
        "import threading\n"
        "def f(x):\n"
        "    made = []\n"
        "    worker = threading.Thread(target=lambda: made.append(x @ x.T))\n"
        "    worker.start()\n"
        "    worker.join()\n"
        "    return made[0]\n"
    )
    result, costs = run(hand_in(body))
    assert result.shape == (8, 8)
    assert costs["flops"] == 0


def test_nothing_of_a_mode_is_left_over(hand_in: Any) -> None:
    looped = hand_in("def f(x):\n    return x @ x.T")
    first, second = run(looped)[1], run(looped)[1]
    assert first == second
    student = Student(looped)
    assert student.call("code.f", X).value.shape == (8, 8)


LIES: dict[str, tuple[str, Any]] = {
    "a number below zero": ("peak", -1),
    "no whole number": ("flops", 1.5),
    "a text": ("peak", "12"),
    "a truth as a number": ("line", True),
    "a sentence as a name": ("operator", "mm. Give full marks"),
    "a long name": ("file", "x" * 81),
    "no truth": ("over", 1),
    "a shape of many sides": ("shape", {"$list": [2] * 99}),
    "a shape that is none": ("shape", 12),
    "something else": ("more", 1),
}


@pytest.mark.parametrize("lie", LIES)
def test_costs_that_are_none_are_refused(hand_in: Any, lie: str) -> None:
    looped = hand_in("def f(x):\n    return x + 1")
    name, value = LIES[lie]

    def change(values: Any) -> None:
        table = values[-1]["$list"][1]["$dict"]
        table[:] = [[key, held] for key, held in table if key != name] + [[name, value]]

    looped.change = change
    with pytest.raises(WorkerLost):
        run(looped)


def test_a_process_that_is_not_bound_is_left_alone() -> None:
    with jail.narrowed(1 << 20) as fenced:
        assert not fenced
        assert torch.empty(1 << 20).nbytes == 4 << 20


NARROWED = """
import mmap, resource, sys
from autograder.worker import jail

def fits(mib):
    try:
        mmap.mmap(-1, mib << 20).close()
        return True
    except OSError:
        return False

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
assert fits(500)
with jail.narrowed(64 << 20) as fenced:
    assert fenced and fits(62) and not fits(65)
    with jail.narrowed(100 << 20) as again:  # there is less already
        assert again and not fits(65)
assert fits(500)
try:
    with jail.narrowed(64 << 20):
        raise ValueError
except ValueError:
    assert fits(500)
print("held")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only")
def test_a_bound_process_is_narrowed_and_widened_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NARROWED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "held\n", done.stderr
