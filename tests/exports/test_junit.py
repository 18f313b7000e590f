"""JUnit XML: one suite per student, valid by the rules of junit-10.xsd, whatever students write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autograder.cli.main import main
from autograder.course.late import Lateness
from autograder.course.records import CheckResult, ClassRecord, Frame, HandIn, Outcome, Override
from autograder.exports import junit
from autograder.report import write
from tests.report.test_report import ALL_PASSED, CLASS, LAB, MIXED

# What junit-10.xsd allows: attributes that must be there, others, and elements inside.
_RESULT: tuple[set[str], set[str], set[str]] = (set(), {"type", "message"}, set())
_OUT: tuple[set[str], set[str], set[str]] = (set(), set(), set())
SCHEMA: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": _RESULT,
    "error": _RESULT,
    "skipped": _RESULT,
    "system-out": _OUT,
    "system-err": _OUT,
}


def parsed(made: ClassRecord, language: str = "en") -> ElementTree.Element:
    root = ElementTree.fromstring("".join(junit.document(made, language)).encode())
    valid(root)
    return root


def valid(element: ElementTree.Element) -> None:
    needed, others, inside = SCHEMA[element.tag]
    assert needed <= set(element.attrib) <= needed | others, element.attrib
    for one in element:
        assert one.tag in inside, f"{one.tag} in {element.tag}"
        valid(one)


def test_every_student_is_a_suite_and_every_check_a_case() -> None:
    suites = list(parsed(CLASS))
    assert [suite.get("name") for suite in suites] == [h.student for h in CLASS.hand_ins]
    for suite in suites:
        cases = suite.findall("testcase")
        assert [case.get("name") for case in cases] == [check.name for check in LAB.checks]
        counted = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error")}
        assert suite.get("tests") == str(len(LAB.checks))
        assert suite.get("failures") == str(counted["failure"])
        assert suite.get("errors") == str(counted["error"])
        assert suite.get("skipped") == str(len(suite.findall("testcase/skipped")))


def tag_of(hand_in: HandIn, check: str) -> str:
    root = parsed(replace(CLASS, hand_ins=(hand_in,)))
    (case,) = [one for one in root.iter("testcase") if one.get("name") == check]
    return next((one.tag for one in case if not one.tag.startswith("system")), "")


@pytest.mark.parametrize(
    ("outcome", "tag"),
    [
        (Outcome.PASSED, ""),
        (Outcome.FAILED, "failure"),
        (Outcome.CRASHED, "failure"),
        (Outcome.TIMED_OUT, "failure"),
        (Outcome.NOT_STARTED, "failure"),
        (Outcome.SKIPPED, "skipped"),
        (Outcome.NOT_GRADED, "error"),
    ],
)
def test_an_error_is_the_graders_and_a_failure_the_students(outcome: Outcome, tag: str) -> None:
    check = next(check for check in LAB.checks if not check.optional)
    hand_in = HandIn("a", (CheckResult(check.name, outcome),))
    assert tag_of(hand_in, check.name) == tag
    decided = replace(hand_in, overrides=(Override("a", check.name, check.points, "fine", "me"),))
    assert tag_of(decided, check.name) == ""
    less = replace(hand_in, overrides=(Override("a", check.name, 0, "no", "me"),))
    assert tag_of(less, check.name) == "failure"


def properties(hand_in: HandIn) -> dict[str | None, str | None]:
    root = parsed(replace(CLASS, hand_ins=(hand_in,)))
    return {one.get("name"): one.get("value") for one in root.iter("property")}


def test_points_are_properties_of_the_suite() -> None:
    late = properties(replace(ALL_PASSED, lateness=Lateness("", days=1, percent=10)))
    assert (late["points"], late["points.late_penalty"], late["points.final"]) == (
        "100",
        "10",
        "90",
    )
    mixed = properties(MIXED)
    assert (mixed["points"], mixed["points.to_be_decided"]) == ("20", "20")
    check = LAB.checks[0]
    assert late[f"points.{check.name}"] == f"{check.points}/{check.points}"
    assert "?/" in "".join(str(value) for value in mixed.values())


ODD = "\x00\x01\x1b[31m\ud800\udfff\ufffe\uffff]]> <b a='1'>&amp;\u202e\x85 𝄞 李\r\n\t"


def test_odd_characters_cannot_break_the_file() -> None:
    results = [
        CheckResult(c.name, Outcome.FAILED, prints=ODD, frames=(Frame(ODD, 3, ODD, ODD),))
        for c in LAB.checks
    ]
    hand_in = HandIn("李" + ODD, tuple(results))
    origin = replace(hand_in.origin, submitted_at=ODD)
    root = parsed(replace(CLASS, hand_ins=(replace(hand_in, origin=origin),)))
    assert str(root[0].get("name")).startswith("李")
    assert "<b a='1'>&amp;" in "".join(root.itertext())


def test_a_hidden_case_tells_no_more_than_in_the_report() -> None:
    check = LAB.checks[0]
    result = CheckResult(
        check.name, Outcome.FAILED, hidden=True, case="secret-case", prints="secret-print"
    )
    text = "".join(junit.document(replace(CLASS, hand_ins=(HandIn("a", (result,)),)), "en"))
    assert "secret" not in text and "hidden case" in text


def test_the_command_writes_beside_the_class_or_where_it_is_told(tmp_path: Path) -> None:
    write.class_files(CLASS, tmp_path)
    assert main(["export", "junit", str(tmp_path), "--lang", "zh"]) == 0
    made = ElementTree.parse(tmp_path / "junit.xml").getroot()
    valid(made)
    assert "通过" not in (made.get("name") or "") and len(made) == len(CLASS.hand_ins)
    other = tmp_path / "other.xml"
    assert main(["export", "junit", str(tmp_path), "--to", str(other), "--lang", "en"]) == 0
    assert other.read_text(encoding="utf-8").startswith('<?xml version="1.0" encoding="utf-8"?>')


def test_a_folder_without_a_class_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "junit", str(tmp_path), "--lang", "en"]) == 2
    assert "give the folder that grade has written" in capsys.readouterr().err


TESTS = """
import pytest
def test_good(record_xml_attribute): print("said")
def test_bad(): assert 1 == 2
def test_skipped(): pytest.skip("why")
@pytest.fixture
def broken(): raise ValueError
def test_error(broken): pass
"""


def test_what_pytest_writes_is_valid_by_the_same_rules(tmp_path: Path) -> None:
    """So these rules are not only ours: pytest's own file holds to them, each element met."""
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    xml = tmp_path / "junit.xml"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={xml}"]
    line += ["-c", os.devnull, "--rootdir", str(tmp_path), "-o", "junit_logging=all"]
    clean = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    subprocess.run([*line, str(tmp_path)], cwd=tmp_path, env=clean, capture_output=True)
    root = ElementTree.parse(xml).getroot()
    valid(root)
    assert {"failure", "error", "skipped", "system-out"} <= {one.tag for one in root.iter()}
