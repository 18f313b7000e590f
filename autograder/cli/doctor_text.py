"""The diagnosis as text for a terminal: aligned, with glyphs that the terminal can show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autograder.cli.doctor_facts_text import fact_lines, glyph, labelled, say
from autograder.course.messages import render
from autograder.course.records import Message
from autograder.grading.trials.records import FAIR, SCORE, End, Finding, State
from autograder.report.escape import fitted, line, width
from autograder.sandbox.jail import LAYERS

if TYPE_CHECKING:
    from autograder.cli.doctor_record import Diagnosis

_TITLE = 50  # columns of what was tried
_EVIDENCE = 60


def please_wait(language: str) -> str:
    """What is said before the trials start."""
    return say("please_wait", language)


def page(diagnosis: Diagnosis, language: str) -> str:
    """The whole text."""
    layers = [(say("label_layers", language), text) for text in _layers(diagnosis)]
    lines = [*labelled([*fact_lines(diagnosis.facts, language), *layers]), ""]
    if diagnosis.not_tried is not None:
        lines.append(say("not_run", language, why=line(diagnosis.not_tried)))
    else:
        lines += _trials(diagnosis, language)
    lines += ["", *(f"- {text}" for text in diagnosis.advice)]
    lines += [_verdict(diagnosis, language), *_meaning(diagnosis, language)]
    return "\n".join(each.rstrip() for each in lines)


def _layers(diagnosis: Diagnosis) -> Iterator[str]:
    layers = diagnosis.layers
    if layers.bound:
        yield f"{glyph('held')} " + ", ".join(n for n in LAYERS if n in layers.bound)
    for name, why in layers.missing.items():
        yield f"{glyph('open')} {name}: {line(why)}"


def _trials(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    promised = {promise.name for promise in diagnosis.promises if promise.promised}
    order = [promise.name for promise in diagnosis.promises]
    names = {name: _promise(name, language) for name in order}
    column = max(map(width, names.values())) + 2
    count = len(diagnosis.findings)
    seconds = f"{diagnosis.seconds:.1f}"
    yield say("tried", language, count=count, seconds=seconds, worker=diagnosis.worker)
    for finding in sorted(diagnosis.findings, key=lambda f: order.index(f.promise)):
        state = finding.state.value
        if finding.state is State.BROKE and finding.promise not in promised:
            state = "open"  # nobody said that it would hold here
        title = fitted(render(finding.title, language), _TITLE)
        yield f"{glyph(state)} {fitted(names[finding.promise], column)}{title} " + _evidence(
            finding, language
        )


def _evidence(finding: Finding, language: str) -> str:
    """For what held, the errors met; for what broke, the ways that worked."""
    if finding.state is State.NOT_TRIED:
        return say("trial_not_tried", language, why=line(finding.reason))
    if finding.promise == FAIR:
        return _outcome(finding.reason, language)
    end = End.STOPPED if finding.state is State.HELD else End.WORKED
    found = [way for way in finding.ways if way.end is end]
    if finding.state is State.HELD:
        met = list(dict.fromkeys(way.evidence for way in found))
        if finding.promise == SCORE:
            return say("trial_no_points", language, outcome=_outcome(met[0], language))
        return say("trial_held", language, evidence=line(", ".join(met)))
    shown = ", ".join(way.name + (f" ({way.evidence})" if way.evidence else "") for way in found)
    return say("trial_broke", language, evidence=fitted(shown, _EVIDENCE).rstrip())


def _outcome(name: str, language: str) -> str:
    return render(Message(f"outcome.{name}"), language)


def _verdict(diagnosis: Diagnosis, language: str) -> str:
    made = [promise for promise in diagnosis.promises if promise.promised]
    values = {"level": diagnosis.level, "count": len(made)}
    listed = {
        state: ", ".join(_promise(p.name, language) for p in made if p.state is state)
        for state in (State.BROKE, State.NOT_TRIED)
    }
    if diagnosis.status == 0:
        return say("verdict_held", language, **values)
    if diagnosis.status == 1:
        return say("verdict_broke", language, **values, promises=listed[State.BROKE])
    return say("verdict_not_tried", language, **values, promises=listed[State.NOT_TRIED])


def _meaning(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    """What a level below strong leaves open."""
    if diagnosis.level == "strong":
        return
    absent = [_promise(p.name, language) for p in diagnosis.promises if not p.promised]
    yield say("not_promised", language, promises=", ".join(absent))
    yield say("level_medium" if diagnosis.level == "medium" else "level_weak", language)


def _promise(name: str, language: str) -> str:
    return render(Message(f"doctor.promise_{name}"), language)
