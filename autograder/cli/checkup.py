"""A student's ``doctor``: can this machine run the labs? It looks, and starts one worker."""

from __future__ import annotations

from autograder.cli import doctor_advice, doctor_facts
from autograder.cli.doctor_facts_text import fact_lines, glyph, labelled, say
from autograder.cli.student import tried
from autograder.course import labfile
from autograder.course.messages import render
from autograder.grading.engine import EngineError
from autograder.report.escape import folded, line
from autograder.report.next_step import command_of
from autograder.report.terminal import columns, readable
from autograder.sandbox.jail import LAYERS

_LABEL = 18  # columns in front of a fact


def run(language: str) -> int:
    """Print what this machine has, whether a check runs on it, and what to mend.

    Returns:
        0 when the labs can be done here, 2 when not.
    """
    language = readable(language)
    facts = doctor_facts.facts()
    lines = [
        (label, text if number == 0 else f"  {text}")
        for label, whole in fact_lines(facts, language)
        for number, text in enumerate(folded(whole, columns() - _LABEL))
    ]
    print("\n".join(text.rstrip() for text in labelled(lines)))
    # Layers of isolation are the grader's matter: at home everybody runs their own code.
    for message in doctor_advice.advice(facts, LAYERS, {}):
        print(f"- {render(message, language)}")
    try:
        level = _started()
    except (EngineError, OSError, ValueError) as error:
        print(f"\n{glyph('broke')} " + say("student_not_run", language, why=line(str(error))))
        return 2
    print(f"\n{glyph('held')} " + say("student_runs", language, level=level))
    print(say("student_next", language, command=command_of("", "test")))
    return 0


def _started() -> str:
    """Run one check of the first lab on its files; the level of isolation around it.

    Raises:
        EngineError: nothing can be run here.
        OSError, ValueError: a file of the course is absent or damaged.
    """
    lab = labfile.load(sorted(labfile.LABS.glob("*/lab.toml"))[0].parent)
    return tried(lab, lab.folder, checks=(lab.checks[0].name,)).isolation.level
