"""The whole catalogue of attacks by the command line, and all of it set free: minutes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from autograder.course.labfile import ROOT
from tests.attacks.attack import Attack, filled
from tests.attacks.catalogue import ATTACKS, ELSEWHERE, FAULTS, OUT_OF_SCOPE, numbers

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def run(*options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.attacks", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout.strip().splitlines()[-1]


def test_the_catalogue_covers_the_list() -> None:
    others = [*FAULTS, *OUT_OF_SCOPE, *ELSEWHERE]
    assert sorted({*numbers(), *others}) == [*range(1, 88)]
    assert not numbers() & set(others)
    for _, test in ELSEWHERE.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_attacks_compile() -> None:
    # In a thread: how deep a text may be nested hangs on how deep the calls are already.
    with ThreadPoolExecutor(1) as shallow:
        for attack, text in _texts():
            shallow.submit(compile, text, attack.id, "exec").result()


def _texts() -> Iterator[tuple[Attack, str]]:
    places = dict.fromkeys(("VICTIM", "ADDRESS", "PORT"), 1) | {"STORED": ""}
    for attack in ATTACKS:
        for code in (attack.first, attack.last):
            text = filled(code, dict.fromkeys(PATHS, "/nowhere") | places)
            assert not re.search(r"\$[A-Z]{2}", text)
            yield attack, text


PATHS = ("HIDDEN", "NOTES", "WORLD", "SECRET", "SIBLING", "SHARED", "ROOT", "PACKAGE")


@linux
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_attack_is_contained() -> None:
    status, last = run("--hand-ins")
    found = re.fullmatch(r"attacks (\d+), contained (\d+)", last)
    assert status == 0 and found is not None and found[1] == found[2]
    assert int(found[1]) >= 68


@linux
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_attack_succeeds_where_nothing_stops_it() -> None:
    status, last = run("--ablate")
    found = re.fullmatch(r"ablated (\d+), succeeded (\d+)", last)
    assert status == 0 and found is not None and found[1] == found[2]
    assert int(found[1]) >= 40
