"""Nobody gets the points of somebody else, whatever names and numbers a class has."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from autograder.cli.main import main
from autograder.course.records import HandIn, Origin, Student
from autograder.exports.people import Person, matched
from autograder.intake import names
from tests.archives import GOOD, placed
from tests.exports.graded import graded

_NAMES = st.sampled_from(["李雷", "韩梅梅", "Li, Lei", "Lei, Li", "Ann", ""])
_NUMBERS = st.integers(1, 6).map(str)


def canvas(name: str, number: str) -> HandIn:
    """A hand-in whose name is as Canvas makes it of a student's."""
    plain = "".join(filter(str.isalnum, name)).lower()
    origin = f"{plain or 'x'}_{number}_9_lab2.zip"
    told = names.parse(origin)
    assert told is not None
    return HandIn(told.person, (), origin=Origin(origin, (told.student,)))


@given(
    people=st.lists(st.builds(lambda i, n: Person((i,), n), _NUMBERS, _NAMES), max_size=6),
    asked=st.lists(st.tuples(_NAMES, _NUMBERS), max_size=6),
)
def test_the_number_of_a_download_decides(
    people: list[Person], asked: list[tuple[str, str]]
) -> None:
    hand_ins = [canvas(name, number) for name, number in asked]
    found = matched("canvas", people, hand_ins).of
    for place, hand_in in found.items():
        assert people[place].ids[0] == hand_in.origin.students[0].id
    for number in {number for _, number in asked}:
        alone = [one for one in asked if one[1] == number]
        rows = [place for place, person in enumerate(people) if person.ids[0] == number]
        if len(alone) == len(rows) == 1 and alone[0][0] == people[rows[0]].name != "":
            assert rows[0] in found


@given(
    people=st.lists(
        st.builds(lambda a, b, n: Person((f"9{a}", b), n), _NUMBERS, _NUMBERS, _NAMES), max_size=6
    ),
    asked=st.lists(st.tuples(_NUMBERS, _NAMES), max_size=6),
)
def test_an_id_or_a_name_has_to_be_one_persons(
    people: list[Person], asked: list[tuple[str, str]]
) -> None:
    hand_ins = [
        HandIn(str(at), (), origin=Origin(str(at), (Student(number, name),)))
        for at, (number, name) in enumerate(asked)
    ]
    matching = matched("canvas", people, hand_ins)
    assert len({id(one) for one in matching.of.values()}) == len(matching.of)
    for place, hand_in in matching.of.items():
        person, student = people[place], hand_in.origin.students[0]
        assert student.id in person.ids or sorted(student.name) == sorted(person.name)
        if student.id in person.ids and student.name and person.name:
            scripts = {name.isascii() for name in (student.name, person.name)}
            same = sorted(student.name) == sorted(person.name)
            assert same or len(scripts) == 2 or {student.name, person.name} == {"Li, Lei"}


def test_a_group_fills_the_rows_of_all_its_members(tmp_path: Path) -> None:
    about = (
        '---\nsubmission_1:\n  ":submitters":\n'
        '  - ":name": Ann Li\n    ":sid": "101"\n    ":email": ann@example.edu\n'
        '  - ":name": 韩梅梅\n    ":sid": ""\n    ":email": han@example.edu\n'
        'submission_2:\n  ":submitters":\n'
        '  - ":name": Bo\n    ":sid": "102"\n    ":email": bo@example.edu\n'
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("assignment_9_export/submission_metadata.yml", about)
        for number in (1, 2):
            for name, data in GOOD.items():
                archive.writestr(f"assignment_9_export/submission_{number}/{name}", data)
    source = placed(tmp_path / "export.zip", stream.getvalue())
    graded(source, tmp_path / "out", {"Ann": 85})
    text = (
        "Student,ID,SIS User ID,SIS Login ID,Section,Lab 2 (3)\nPoints Possible,,,,,100\n"
        '"Li, Ann Marie",1,101,a,S,{a}\n"韩, 梅梅",2,,han@example.edu,S,{a}\n'
        '"Kim, Joe",3,102,b,S,{b}\n'
    )
    book = placed(tmp_path / "g.csv", text.format(a="", b="").encode())
    assert main(["export", "canvas", str(tmp_path / "out"), str(book), "--lang", "en"]) == 1
    # Bo's id stands beside another name: that is left to a person.
    assert (tmp_path / "g-filled.csv").read_text() == text.format(a=85, b="")
