"""What one hand-in answers stands for another exactly where both have the same text for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from autograder.sandbox.links import StudentError
from autograder.sandbox.local import LocalTransport
from autograder.sandbox.prefetcher import OutOfTurn
from autograder.sandbox.ranks import RankReplies, Request
from autograder.sandbox.sharing import Definitions, SharedReplies, SharingTransport
from autograder.sandbox.student import Student
from autograder.sandbox.transport import Reply, Sources
from autograder.wire.messages import Tensor

TEXT = '''"""About."""
import math
from torch import nn

SCALE = 2
TABLE = [SCALE, 3]


def twice(x):
    return SCALE * x


def four(x):
    return twice(twice(x))


def three(x):
    return TABLE[1] * x


def ask(holder):
    return holder(7)


class Holder:
    size = 3

    def __init__(self, x):
        self.x = x

    def __call__(self, y):
        return four(self.x) + y
'''
OTHER = "def five(x):\n    return 5 * x\n"
FILES = {"answer.py": TEXT, "other.py": OTHER}
NAMES = ("twice", "four", "three", "Holder")


def differing(old: str, new: str, file: str = "answer.py") -> set[str]:
    """The definitions of ``answer.py`` behind which there is other text after a change."""
    assert old in FILES[file]
    files = {**FILES, file: FILES[file].replace(old, new)}
    before, after = (
        [[part.text for part in one.behind(f"answer.{name}")] for name in NAMES]
        for one in (Definitions(FILES), Definitions(files))
    )
    return {name for name, a, b in zip(NAMES, before, after, strict=True) if a != b}


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("TABLE[1] * x", "x * TABLE[1]", {"three"}),
        ("SCALE * x", "x + x", {"twice", "four", "Holder"}),
        ("size = 3", "size = 4", {"Holder"}),
        ("[SCALE, 3]", "[SCALE, 4]", {"three"}),
        ("SCALE = 2", "SCALE = 3", set(NAMES)),  # through the table, too
        ("return four(self.x) + y", "return globals()['three'](y)", {"Holder"}),
        ("return TABLE[1] * x", "from other import five\n    return five(x)", {"three"}),
        ("import math\n", "import math\nmath.tau = 6\n", set(NAMES)),
        ("import math\n", "import math\nseed = math.sqrt(2)\n", set(NAMES)),
        ("import math\n", "import math\n# of no matter\n", set()),
        ("def three(x):", "def three(x):  # of no matter, and yet other text", {"three"}),
        ("def three", "@staticmethod\ndef three", {"three"}),
        ("def three", "def tree", {"three"}),
        ("def three", "def three(:", set(NAMES)),
    ],
)
def test_a_definition_hangs_on_what_it_mentions(old: str, new: str, names: set[str]) -> None:
    assert differing(old, new) == names


@pytest.mark.parametrize(
    "line",
    [
        *(
            "from other import five",
            "import other",
            "from .other import five",
            "from . import other",
        ),
        *("from labs.lab9.other import five", "from labs.lab9 import other as o"),
        *("import labs.lab9.other as o", "from ..lab9.other import five"),
    ],
)
def test_another_file_counts_where_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    assert differing("5 * x", "6 * x", "other.py") == set()
    importing = TEXT.replace("def three(x):\n", f"def three(x):\n    {line}\n")
    monkeypatch.setitem(FILES, "answer.py", importing)
    assert differing("5 * x", "6 * x", "other.py") == {"three"}


class Running(LocalTransport):
    """Runs a hand-in here, and writes down what it was asked."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__(Sources(files), seconds=5)
        self.asked: list[dict[str, Any]] = []

    def exchange(self, request: dict[str, Any], tensors: Mapping[str, Tensor]) -> Reply:
        self.asked.append(request)
        return super().exchange(request, tensors)

    def exchange_ranks(self, requests: Sequence[Request]) -> RankReplies:
        return RankReplies(tuple(self.exchange(dict(r), tensors) for r, tensors in requests), ())


def doubled(student: Student) -> Any:
    return student.call("answer.four", 3).value


def tripled(student: Student) -> Any:
    return student.call("answer.three", 3).value


def held(student: Student) -> Any:
    return student.new("answer.Holder", 1)(5).value


def held_twice(student: Student) -> Any:
    holder = student.new("answer.Holder", 1)
    first = holder(5).value
    return first, student.call("answer.ask", holder).value


def of_ranks(student: Student) -> Any:
    group = student.ranks(2)
    return [one.value for one in group.call("answer.three", 2)]


Made = Callable[[str, str], tuple[SharingTransport, Running]]


@pytest.fixture
def changed() -> Iterator[Made]:
    """Makes hand-ins of a change; the one above has answered all that is asked here."""
    shared, made = SharedReplies(), list[Running]()

    def make(old: str, new: str) -> tuple[SharingTransport, Running]:
        files = {**FILES, "answer.py": TEXT.replace(old, new)}
        made.append(Running(files))
        return SharingTransport(made[-1], shared, files), made[-1]

    first, _ = make("", "")
    for check in (doubled, tripled, held_twice, of_ranks):
        check(Student(first))
    yield make
    for running in made:
        running.close()


def test_only_what_has_other_text_runs(changed: Made) -> None:
    sharing, running = changed("TABLE[1] * x", "TABLE[1] + x")
    assert doubled(Student(sharing)) == 12 and held(Student(sharing)) == 9
    assert running.asked == []
    assert tripled(Student(sharing)) == 6 and len(running.asked) == 1
    assert of_ranks(Student(sharing)) == [5, 5] and len(running.asked) == 3
    again, running = changed("TABLE[1] * x", "TABLE[1] + x")
    assert tripled(Student(again)) == 6 and of_ranks(Student(again)) == [5, 5]
    assert running.asked == []


def test_what_raised_is_asked_of_everybody(changed: Made) -> None:
    for _ in range(2):  # it tells the line, which may be another one elsewhere
        sharing, running = changed("TABLE[1] * x", "TABLE[2] * x")
        with pytest.raises(StudentError, match="IndexError"):
            tripled(Student(sharing))
        assert len(running.asked) == 1


def test_a_measured_call_tells_a_line_and_is_asked_where_that_is_another(changed: Made) -> None:
    def measured(student: Student) -> Any:
        return student.call("answer.three", 3, measure=0).value[0]

    first, _ = changed("", "")
    assert measured(Student(first)) == 9
    for new, times in (("import math  # said\n", 0), ("import math\n\n", 1)):
        sharing, running = changed("import math\n", new)
        assert measured(Student(sharing)) == 9 and len(running.asked) == times


def test_a_later_case_of_a_check_gets_the_namespaces_that_its_first_would_have(
    changed: Made,
) -> None:
    sharing, running = changed("TABLE[1] * x", "TABLE[1] + x")
    doubled(Student(sharing))
    tripled(Student(sharing, fresh=False))
    assert Student(sharing, fresh=False).call("answer.three", 4).value == 7
    assert [request["fresh"] for request in running.asked] == [True, False]


def test_a_check_begins_anew_where_what_was_made_is_not_here(changed: Made) -> None:
    sharing, running = changed("holder(7)", "holder(8)")
    with pytest.raises(OutOfTurn):
        held_twice(Student(sharing))
    assert running.asked == []
    assert held_twice(Student(sharing)) == (9, 12) and len(running.asked) == 2
    assert doubled(Student(sharing)) == 12 and len(running.asked) == 2


def test_what_was_made_here_is_asked_here(changed: Made) -> None:
    sharing, running = changed("four(self.x) + y", "four(self.x) - y")
    assert held_twice(Student(sharing)) == (-1, -3)
    assert len(running.asked) == 2 and running.asked[1]["fresh"] is False


def test_an_import_always_runs(changed: Made) -> None:
    sharing, running = changed("TABLE[1] * x", "TABLE[1] + x")
    student = Student(sharing)
    student.import_file("answer.py")
    student.flush()
    assert len(running.asked) == 1


def test_nothing_is_told_while_a_fault_is_located(changed: Made) -> None:
    sharing, running = changed("TABLE[1] * x", "TABLE[1] + x")
    with sharing.aside():
        assert doubled(Student(sharing)) == 12
    assert len(running.asked) == 1


def test_a_case_that_was_passed_counts_where_all_that_it_asks_has_the_same_text(
    changed: Made,
) -> None:
    first, _ = changed("", "")
    assert first.passed("check", "case", fresh=True) is None
    student = Student(first)
    assert (tripled(student), doubled(student)) == (9, 12)
    first.learn("check", "case", student)
    same, running = changed("size = 3", "size = 4")
    found = same.passed("check", "case", fresh=True)
    assert found is not None and [one.value for one in found.asked] == [9, 12]
    assert held(Student(same, fresh=False)) == 9
    assert running.asked[0]["fresh"] is True  # as that of the case that was not asked
    assert same.passed("check", "other case", fresh=True) is None
    for old, new in (("TABLE[1] * x", "TABLE[1] + x"), ("SCALE = 2", "SCALE = 3")):
        assert changed(old, new)[0].passed("check", "case", fresh=True) is None


def test_a_case_of_which_not_all_is_known_counts_for_nobody(changed: Made) -> None:
    sharing, _ = changed("", "")
    with sharing.aside():
        assert sharing.passed("check", "case", fresh=True) is None
        doubled(student := Student(sharing))
        sharing.learn("check", "case", student)
    assert sharing.passed("check", "case", fresh=True) is None
    student = Student(sharing)
    student.import_file("answer.py")
    student.flush()
    doubled(student)
    sharing.learn("check", "case", student)
    assert sharing.passed("check", "case", fresh=True) is None
