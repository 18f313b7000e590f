"""Requests on student code: what comes back as a value, what is said about an error.

The session runs in this process; every request and reply still travels as bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from autograder.checks.expect import config
from autograder.sandbox.links import StudentError, WorkerLost
from autograder.sandbox.student import MAX_TEXT, Literal, Other, Student, decode
from autograder.sandbox.transport import Reply
from autograder.wire.messages import Tensor, pack, unpack
from autograder.worker.session import Session

SIZES = {
    "vocab_size": 9, "hidden_size": 4, "intermediate_size": 5, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2,
}  # fmt: skip


class Looped:
    """A session behind real messages."""

    def __init__(self, sources: Mapping[str, str], paths: Mapping[str, str] | None = None) -> None:
        self.session = Session(sources, paths)

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        return unpack(pack(*self.session.execute(*unpack(pack(request, dict(tensors))))))


Maker = Callable[..., Student]


@pytest.fixture
def hand_in() -> Iterator[Maker]:
    """Makes a student of file texts; all are taken out of this process again."""
    made: list[Looped] = []

    def make(text: str = "", *, paths: Mapping[str, str] | None = None, **files: str) -> Student:
        sources = {f"{name}.py": body for name, body in ({"code": text} | files).items()}
        made.append(Looped(sources, paths))
        return Student(made[-1])

    yield make
    for looped in made:
        looped.session.modules.remove()


def another(student: Student) -> Student:
    """The next check on the same worker: a fresh namespace."""
    return Student(student._transport)


def failure(student: Student, target: str = "code.f", *args: Any) -> StudentError:
    with pytest.raises(StudentError) as error:
        _ = student.call(target, *args).value
    return error.value


def described(student: Student, text: str) -> str:
    value = student.call("code.f").value
    assert isinstance(value, Other), f"{text} came through as {value!r}"
    return value.description


# ---------------------------------------------------------------- values


def test_data_and_tensors_come_back_in_their_form(hand_in: Maker) -> None:
    student = hand_in("def f(*a, **k): return {'a': list(a), 'k': (k, None, 1.5, 'x', True)}")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = student.call("code.f", array, [1, "two"], key={"deep": array}).value
    (first, listed), (keywords, *rest) = value["a"], value["k"]
    assert np.array_equal(first.array, array) and listed == [1, "two"]
    assert np.array_equal(keywords["key"]["deep"].array, array)
    assert rest == [None, 1.5, "x", True] and isinstance(value["k"], tuple)


def test_bytes_and_keys_come_back_as_they_are_or_as_their_repr(hand_in: Maker) -> None:
    student = hand_in("def f(n): return [b'\\xff' * n, {b'a': 1, 2: b''}, list(range(900))]")
    short, pairs, many = student.call("code.f", 3).value
    assert (short, pairs, many) == (b"\xff" * 3, {"b'a'": 1, "2": b""}, list(range(900)))
    assert len(student.call("code.f", 900).value[0]) == MAX_TEXT


def test_a_literal_arrives_as_it_is(hand_in: Maker) -> None:
    student = hand_in("def f(v): return [repr(v), type(v).__name__]")
    for value in ({b"a": 1, (2, 3): {"x"}}, [(b"\xff", b"e"), "–"], ()):
        assert student.call("code.f", Literal(value)).value == [repr(value), type(value).__name__]


@pytest.mark.parametrize("raw", [{"$bytes": "f"}, {"$bytes": 3}, {"$bytes": ["ff"]}])
def test_what_is_no_bytes_becomes_none(raw: Any) -> None:
    assert isinstance(decode(raw, {}), Other)


def test_a_config_arrives_as_the_given_class(hand_in: Maker) -> None:
    student = hand_in("def f(c): return [type(c).__name__, c.head_dim, c.rope_theta]")
    assert student.call("code.f", config(SIZES)).value == ["Qwen3Config", 2, 1e6]


OTHERS = {
    "a tensor subclass": "class T(torch.Tensor): pass\n"
    "def f(): return torch.ones(2).as_subclass(T)",
    "a sparse tensor": "def f(): return torch.eye(3).to_sparse()",
    "a tensor without values": "def f(): return torch.ones(3, device='meta')",
    "a complex tensor": "def f(): return torch.ones(3, dtype=torch.complex64)",
    "a huge tensor": "def f(): return torch.zeros(1).expand(1 << 25)",
    "a huge number": "def f(): return 10 ** 400",
    "a class": "def f(): return torch.nn.Linear",
    "a function": "def f(): return f",
    "an object equal to all": "class E:\n def __eq__(self, o): return True\ndef f(): return E()",
    "a generator": "def f(): return (n for n in range(3))",
    "a bytearray": "def f(): return bytearray(b'passed')",
    "a long list": "def f(): return list(range(2000))",
    "a quantised tensor": "def f(): return torch.quantize_per_tensor("
    "torch.ones(2), 0.1, 0, torch.qint8)",
}


DERIVED: dict[str, tuple[str, object]] = {
    "a string": ("class S(str):\n def __str__(s): return 'b'\ndef f(): return S('a')", "a"),
    "bytes": ("class B(bytes): pass\ndef f(): return B(b'a')", b"a"),
    "a number": ("import enum\nclass I(enum.IntEnum):\n A = 3\ndef f(): return I.A", 3),
    "a float": ("class F(float):\n def __float__(f): return 4.0\ndef f(): return F(3.5)", 3.5),
    "a counter": ("import collections\ndef f(): return collections.Counter('aa')", {"a": 2}),
    "a dict in order": (
        "import collections\ndef f(): return [collections.OrderedDict(a=1)]", [{"a": 1}],
    ),
    "a named tuple": (
        "import typing\nclass N(typing.NamedTuple):\n a: int\ndef f(): return N(1)", (1,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_derived_from_a_plain_class_is_what_it_holds(hand_in: Maker, name: str) -> None:
    text, want = DERIVED[name]
    value = hand_in(text).call("code.f").value
    assert value == want and type(value) is type(want)


def test_a_parameter_of_a_class_of_ones_own_is_a_tensor(hand_in: Maker) -> None:
    text = """
import torch
class Own(torch.nn.Parameter):
    def detach(self): raise RuntimeError
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Own(torch.ones(2))
"""
    given = Tensor.of(np.array([2, 3], np.float32))
    student = hand_in(text)
    layer = student.new("code.Layer", weights={"weight": given})
    assert student.get(layer, "weight").value == given


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_plain_value_is_named_and_stays_there(hand_in: Maker, name: str) -> None:
    text = described(hand_in("import torch\n" + OTHERS[name]), name)
    assert 2 < len(text) < 120 and "passed" not in text


def test_nested_results_end_at_a_depth(hand_in: Maker) -> None:
    student = hand_in("def f():\n v = 1\n for _ in range(5000): v = [v]\n return v")
    value, depth = student.call("code.f").value, 0
    while isinstance(value, list):
        value, depth = value[0], depth + 1
    assert isinstance(value, Other) and depth < 10


def test_a_list_that_holds_itself_ends(hand_in: Maker) -> None:
    student = hand_in("def f():\n v = []\n v.append(v)\n return v")
    assert isinstance(student.call("code.f").value, list)


def test_long_texts_are_cut(hand_in: Maker) -> None:
    value = hand_in("def f(): return 'x' * 100000").call("code.f").value
    assert value == "x" * len(value) and len(value) <= 500


def test_lying_attributes_of_a_subclass_do_not_pass_for_a_tensor(hand_in: Maker) -> None:
    lying = """
import torch
class Lie(torch.Tensor):
    __class__ = torch.Tensor
    @classmethod
    def __torch_function__(cls, *a, **k): return True
def f(): return torch.ones(2).as_subclass(Lie)
"""
    assert "Lie" in described(hand_in(lying), "a lying subclass")


# ---------------------------------------------------------------- namespaces


COUNTING = "calls = []\ndef f():\n    calls.append(1)\n    return len(calls)"


def test_every_check_gets_a_fresh_namespace(hand_in: Maker) -> None:
    first = hand_in(COUNTING)
    assert [first.call("code.f").value, first.call("code.f").value] == [1, 2]
    assert another(first).call("code.f").value == 1


def test_files_import_each_other_by_plain_name(hand_in: Maker) -> None:
    student = hand_in(
        "from other import calls\nimport other\ndef f(): return calls is other.calls",
        other=COUNTING,
    )
    assert student.call("code.f").value is True


def test_objects_live_as_long_as_their_check(hand_in: Maker) -> None:
    student = hand_in("""
class C:
    def __init__(self, n): self.n = n
    def __call__(self, m):
        self.n += m
        return self.n
""")
    handle = student.new("code.C", 1)
    assert [handle(2).value, handle(3).value, student.get(handle, "n").value] == [3, 6, 6]
    gone = another(student)
    with pytest.raises(StudentError):
        _ = gone.get(handle, "n").value


def test_inputs_are_not_shared_between_calls(hand_in: Maker) -> None:
    student = hand_in("def f(x):\n    x += 1\n    return x\ndef g(x): return x")
    array = np.zeros(3, np.float32)
    first, second = student.call("code.f", array), student.call("code.g", array)
    assert first.value.array.tolist() == [1, 1, 1] and second.value.array.tolist() == [0, 0, 0]
    result, args, kwargs = student.call("code.f", array, echo=True).value
    assert args[0].array.tolist() == result.array.tolist() == [1, 1, 1] and kwargs == {}
    assert array.tolist() == [0, 0, 0]


def test_a_batch_of_steps_is_one_message(hand_in: Maker) -> None:
    student = hand_in(COUNTING)
    seen: list[object] = []

    class Counting:
        def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
            seen.append(request)
            return inner.exchange(request, tensors)

    inner, student._transport = student._transport, Counting()
    results = [student.call("code.f") for _ in range(5)]
    assert not seen
    assert [result.value for result in results] == [1, 2, 3, 4, 5] and len(seen) == 1


def test_torch_is_as_it_was_for_the_next_request(hand_in: Maker) -> None:
    student = hand_in("""
import sys, torch
def f():
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.set_num_threads(3)
    torch.manual_seed(99)
    sys.setrecursionlimit(5000)
def g():
    return [str(torch.ones(1).dtype), torch.get_num_threads(), sys.getrecursionlimit(),
            torch.rand(1).item()]
class H(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.grad = torch.is_grad_enabled()
""")
    limit, threads = sys.getrecursionlimit(), torch.get_num_threads()
    try:
        before = student.call("code.g").value
        assert student.call("code.f").value is None
        assert student.call("code.g").value == before
        assert before[:3] == ["torch.float32", 1, 1000]
        assert student.get(student.new("code.H"), "grad").value is True
    finally:
        torch.set_num_threads(threads)
        sys.setrecursionlimit(limit)


def test_calls_run_without_gradients_and_modules_in_eval_mode(hand_in: Maker) -> None:
    student = hand_in("""
import torch
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))
    def forward(self): return [self.training, torch.is_grad_enabled(), str(self.w.dtype)]
""")
    module = student.new("code.M", dtype="bfloat16")
    assert module().value == [False, False, "torch.bfloat16"]


def test_an_operator_is_not_lost_behind_hundreds_of_others(hand_in: Maker) -> None:
    student = hand_in("""
import torch
def f(q):
    for number in range(300):
        def other(*args): return q
        other.__name__ = f"a{number}"
        torch.overrides.handle_torch_function(other, (q,), q)
    return torch.softmax(q, -1)
""")
    assert student.call("code.f", np.ones((2, 4), np.float32), operators=True).value is not None
    assert len(student.operators) > 200 and "softmax" in student.operators


def test_operators_are_written_down_when_asked_for(hand_in: Maker) -> None:
    student = hand_in("""
import torch
def f(q): return getattr(torch.nn.functional, "scaled_dot_" + "product_attention")(q, q, q)
""")
    q = np.ones((1, 1, 2, 4), np.float32)
    assert student.call("code.f", q, operators=True).value.shape == (1, 1, 2, 4)
    assert any("scaled_dot_product" in name for name in student.operators)
    quiet = another(student)
    assert quiet.call("code.f", q).value.shape == (1, 1, 2, 4) and not quiet.operators


# ---------------------------------------------------------------- errors


def test_an_error_is_told_with_the_students_own_frames(hand_in: Maker) -> None:
    text = "import torch\ndef f(x):\n    return g(x)\ndef g(x):\n    return torch.ones(2) @ x\n"
    student = hand_in(text, paths={"code.py": "/home/me/code.py"})
    error = failure(student, "code.f", np.ones(3, np.float32))
    assert (error.type, error.stage, error.todo) == ("RuntimeError", "call", None)
    places = [(frame.file, frame.line, frame.function, frame.text) for frame in error.frames]
    assert places == [
        ("/home/me/code.py", 3, "f", "return g(x)"),
        ("/home/me/code.py", 5, "g", "return torch.ones(2) @ x"),
    ]


def test_deep_recursion_is_told_by_its_name_and_few_frames(hand_in: Maker) -> None:
    error = failure(hand_in("def f(): return f()"))
    assert error.type == "RecursionError" and 0 < len(error.frames) <= 8


def test_a_syntax_error_is_told_with_its_line(hand_in: Maker) -> None:
    error = failure(hand_in("x = 1\n\ndef f(:\n    pass\n"))
    assert (error.stage, error.type) == ("syntax", "SyntaxError")
    assert (error.frames[-1].file, error.frames[-1].line) == ("code.py", 3)
    assert error.frames[-1].text == "def f(:"


@pytest.mark.parametrize(
    "text",
    ["def f():\n\tif 1:\n        return 1\n", "x = (" * 300, "x = '\0'", "x = 0777"],
)
def test_whatever_cannot_be_compiled_is_an_error_of_the_student(hand_in: Maker, text: str) -> None:
    error = failure(hand_in(text))
    assert error.type in ("TabError", "SyntaxError", "ValueError", "MemoryError"), error.type


def test_a_stub_is_recognised_by_its_todo(hand_in: Maker) -> None:
    student = hand_in("""
def f(): raise NotImplementedError("TODO lab2.gqa: to be written")
def g(): raise NotImplementedError("later")
def h(): raise ValueError("TODO lab2.gqa: to be written")
""")
    assert failure(student).todo == "lab2.gqa"
    assert failure(student, "code.g").todo is None
    assert failure(student, "code.h").todo is None


@pytest.mark.parametrize("ending", ["SystemExit(0)", "KeyboardInterrupt()", "GeneratorExit()"])
def test_no_exception_ends_the_session(hand_in: Maker, ending: str) -> None:
    student = hand_in(f"def f(): raise {ending}\ndef g(): return 1")
    assert failure(student).type == ending.split("(")[0]
    assert student.call("code.g").value == 1


def test_an_exception_may_be_hostile_in_every_way(hand_in: Maker) -> None:
    student = hand_in("""
class Evil(BaseException):
    def __str__(self): raise self
    __repr__ = __str__
    @property
    def __traceback__(self): raise self
Evil.__name__ = "x" * 5000
def f(): raise Evil
def g(): raise ValueError("y" * 100000)
""")
    error = failure(student)
    assert len(error.type) <= 80 and len(error.text) < 100
    assert len(failure(student, "code.g").text) <= 400


def test_a_name_that_is_absent_is_told(hand_in: Maker) -> None:
    error = failure(hand_in("def g(): pass"))
    assert error.type == "AttributeError" and "'f'" in error.text and not error.frames


def test_values_before_an_error_are_kept(hand_in: Maker) -> None:
    student = hand_in("def f(): return 1\ndef g(): 1 / 0")
    first, second, third = (student.call(f"code.{name}") for name in "fgf")
    with pytest.raises(StudentError, match="ZeroDivisionError"):
        student.flush()
    assert first.value == 1
    for result in (second, third):
        with pytest.raises(RuntimeError, match="behind one that raised"):
            _ = result.value


# ---------------------------------------------------------------- weights


LINEAR = """
import torch
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.{0} = torch.nn.Linear(2, 3, bias={1})
    def forward(self, x): return self.{0}(x)
"""
WEIGHT = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_weights_are_loaded_by_name(hand_in: Maker) -> None:
    student = hand_in(LINEAR.format("proj", False))
    module = student.new("code.M", weights={"proj.weight": Tensor.of(WEIGHT)})
    value = module(np.ones((1, 2), np.float32)).value
    assert np.array_equal(value.array, WEIGHT.sum(1)[None])


@pytest.mark.parametrize(
    ("name", "bias", "weight", "said"),
    [
        ("q", False, WEIGHT, ("q.weight", "proj.weight")),
        ("proj", True, WEIGHT, ("proj.bias",)),
        ("proj", False, WEIGHT.T.copy(), ("proj.weight", "[2, 3]", "[3, 2]")),
    ],
)
def test_weights_that_do_not_fit_are_told_by_key(
    hand_in: Maker, name: str, bias: bool, weight: Any, said: tuple[str, ...]
) -> None:
    student = hand_in(LINEAR.format(name, bias))
    student.new("code.M", weights={"proj.weight": Tensor.of(weight)})
    with pytest.raises(StudentError) as error:
        student.flush()
    assert error.value.stage == "weights" and not error.value.frames
    assert all(word in error.value.text for word in said), error.value.text


@pytest.mark.parametrize(
    ("kept", "name"),
    [
        ("self.weight = torch.ones(3, 2)", "weight"),
        ("self.layers = [torch.nn.Linear(2, 3, bias=False)]", "layers.0.weight"),
    ],
)
def test_what_is_there_and_not_registered_is_told(hand_in: Maker, kept: str, name: str) -> None:
    head = "import torch\nclass M(torch.nn.Module):\n    def __init__(self):\n"
    student = hand_in(f"{head}        super().__init__()\n        {kept}\n")
    student.new("code.M", weights={name: Tensor.of(WEIGHT), "other": Tensor.of(WEIGHT)})
    with pytest.raises(StudentError) as error:
        student.flush()
    assert set(error.value.lacking) == {name, "other"} and error.value.plain == (name,)


def test_an_attribute_that_raises_is_absent(hand_in: Maker) -> None:
    head = "import torch\nclass M(torch.nn.Module):\n"
    student = hand_in(f"{head}    @property\n    def weight(self): raise SystemExit(1)\n")
    student.new("code.M", weights={"weight": Tensor.of(WEIGHT)})
    with pytest.raises(StudentError) as error:
        student.flush()
    assert error.value.lacking == ("weight",) and error.value.plain == ()


def test_weights_for_what_is_no_module_are_an_error_of_the_student(hand_in: Maker) -> None:
    student = hand_in("class M: pass")
    student.new("code.M", weights={"proj.weight": Tensor.of(WEIGHT)})
    with pytest.raises(StudentError) as error:
        student.flush()
    assert error.value.stage == "weights"


# ---------------------------------------------------------------- forged replies


class Forged:
    """A worker whose hand-in writes its own replies."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        return self.reply, {}


BAD_ERROR = {"stage": "call", "type": "E", "text": ""}
DEEP: Any = []
for _ in range(100_000):
    DEEP = {"$list": [DEEP]}
FORGED: dict[str, Any] = {
    "nothing": {},
    "no values": {"values": []},
    "a number of values": {"values": 3},
    "values that are null": {"values": None},
    "a list that is none": {"values": [{"$list": 3}]},
    "a dict of odd entries": {"values": [{"$dict": [[1, 2, 3]]}]},
    "a deep value": {"values": [DEEP]},
    "an error that is a text": {"values": [], "error": "no"},
    "frames that are numbers": {"values": [], "error": BAD_ERROR | {"frames": [1]}},
    "a line that is no number": {
        "values": [], "error": BAD_ERROR | {"frames": [["f", "x", "g", "t"]]}
    },
    "an infinite line": {
        "values": [], "error": BAD_ERROR | {"frames": [["f", float("inf"), "g", "t"]]}
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_reply_counts_as_a_worker_that_is_lost(name: str) -> None:
    """Never as a fault of the grader: that would be spared, and a person would be called."""
    with pytest.raises(WorkerLost):
        _ = Student(Forged(FORGED[name])).call("code.f").value


def echoed(args: Any, kwargs: Any) -> dict[str, Any]:
    return {"values": [{"$list": [7, args, kwargs]}]}


NO_ECHO: dict[str, Any] = {
    "a value alone": {"values": [7]},
    "nothing": {"values": [None]},
    "two of three": {"values": [{"$list": [7, {"$list": [1]}]}]},
    "no arguments": echoed({"$list": []}, {"$dict": [["k", 2]]}),
    "too many": echoed({"$list": [1, 1]}, {"$dict": [["k", 2]]}),
    "a number": echoed(1, {"$dict": [["k", 2]]}),
    "a text as long": echoed("1", {"$dict": [["k", 2]]}),
    "no keywords": echoed({"$list": [1]}, {"$dict": []}),
    "others": echoed({"$list": [1]}, {"$dict": [["l", 2]]}),
    "keywords that are a list": echoed({"$list": [1]}, {"$list": ["k"]}),
}


@pytest.mark.parametrize("name", NO_ECHO)
def test_arguments_that_come_back_are_those_of_the_call(name: str) -> None:
    """Checks take them for granted: an IndexError there would look like a fault of ours."""
    with pytest.raises(WorkerLost):
        _ = Student(Forged(NO_ECHO[name])).call("code.f", 1, k=2, echo=True).value


def test_arguments_come_back_as_they_were_left(hand_in: Maker) -> None:
    student = hand_in("def f(x, *, k): return 7")
    good = echoed({"$list": [1]}, {"$dict": [["k", 2]]})
    for one in (student, Student(Forged(good))):
        assert one.call("code.f", 1, k=2, echo=True).value == [7, [1], {"k": 2}]


@pytest.mark.parametrize("raw", [[1, 2], [], 1 << 63, -(10**4299)], ids=["list", "[]", "2^63", "-"])
def test_what_no_worker_of_ours_sends_is_no_value(raw: Any) -> None:
    value = Student(Forged({"values": [raw]})).call("code.f").value
    assert isinstance(value, Other) and len(value.description) < 50


def test_not_all_operators_of_a_call_are_written_down() -> None:
    names = {"$list": [f"aten::{number}" for number in range(5000)]}
    student = Student(Forged({"values": [{"$list": [1, names]}]}))
    assert student.call("code.f", operators=True).value == 1
    assert len(student.operators) == 4000


@pytest.mark.parametrize("line, kept", [(7, 7), (-3, 0), (10**4299, 1 << 20), (1e308, 1 << 20)])
def test_a_line_number_is_one_of_a_file(line: float, kept: int) -> None:
    error = BAD_ERROR | {"frames": [["f", line, "g", "t"]]}
    with pytest.raises(StudentError) as caught:
        _ = Student(Forged({"values": [], "error": error})).call("code.f").value
    assert caught.value.frames[0].line == kept


def test_a_tensor_that_did_not_come_is_no_tensor() -> None:
    value = Student(Forged({"values": [{"$t": "r0"}]})).call("code.f").value
    assert isinstance(value, Other)
    unknown = Student(Forged({"values": [{"$code": "x" * 9999}]})).call("code.f").value
    assert isinstance(unknown, Other) and len(unknown.description) < 500
