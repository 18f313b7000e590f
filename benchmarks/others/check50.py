"""The lab for check50: one check function per exercise, ``check50 --dev``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import run
from benchmarks.others.sides import SideInput, SideResult, activated, name_of, points_of

PACKAGE = "check50"
REQUIREMENTS = (PACKAGE,)

_HEAD = """\
import check50

from benchmarks.others.ask import failures


def ask(exercise):
    said = failures("{lab}", exercise, {hidden!r})
    if said:
        raise check50.Failure(said)
"""
_CHECK = '''

@check50.check(timeout=300)
def {name}():
    """{title}"""
    ask("{exercise}")
'''


class Check50:
    """One command per hand-in, on this machine: a process per check, forked with torch in it."""

    def __init__(self, given: SideInput) -> None:
        self._given = given
        self._checks = given.folder / "checks"
        self._checks.mkdir(parents=True)
        text = _HEAD.format(lab=given.lab.name, hidden=str(given.hidden))
        for exercise in given.lab.exercises:
            text += _CHECK.format(
                name=name_of(exercise), title=exercise.title.en, exercise=exercise.id
            )
        (self._checks / "__init__.py").write_text(text, encoding="utf-8")
        wanted = "".join(f'    - !require "{file}"\n' for file in given.lab.files)
        (self._checks / ".cs50.yaml").write_text(
            f'check50:\n  files:\n    - !exclude "*"\n{wanted}', encoding="utf-8"
        )

    def grade(self, hand_ins: Sequence[Path]) -> SideResult:
        """Each in its own folder; check50 copies the files to a folder per check."""
        cpu, points = 0.0, {}
        out = self._given.folder / "results.json"
        for path in hand_ins:
            out.unlink(missing_ok=True)
            command = [str(self._given.python), "-m", "check50", "--dev", str(self._checks)]
            command += ["-o", "json", "--output-file", str(out)]
            cpu += run(command, folder=path, statuses=(0, 1), more=activated(self._given)).cpu
            found = json.loads(out.read_text(encoding="utf-8"))["results"]
            passed = {result["name"] for result in found if result["passed"]}
            lab = self._given.lab
            whole = (e.id for e in lab.exercises if name_of(e) in passed)
            points[path.name] = points_of(lab, whole)
        return SideResult(cpu, points)
