"""The diagnosis as text for a terminal: aligned, with glyphs that the terminal can show."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from autograder.course.messages import render
from autograder.course.records import Message
from autograder.grading.trials.records import FAIR, SCORE, End, Finding, State
from autograder.report.escape import fitted, line, width
from autograder.sandbox.jail import LAYERS

if TYPE_CHECKING:
    from autograder.cli.doctor_record import Diagnosis

_FANCY = {"held": "✓", "broke": "✗", "not_tried": "?", "open": "–"}
_PLAIN = {"held": "ok", "broke": "XX", "not_tried": "??", "open": "--"}
_TITLE = 50  # columns of what was tried
_EVIDENCE = 60


def please_wait(language: str) -> str:
    """What is said before the trials start."""
    return _say("please_wait", language)


def page(diagnosis: Diagnosis, language: str) -> str:
    """The whole text."""
    facts = [
        (_say("label_python", language), _python(diagnosis.facts["python"])),
        *((_say("label_packages", language), text) for text in _packages(diagnosis, language)),
        (_say("label_encodings", language), _encodings(diagnosis.facts["encodings"], language)),
        (_say("label_machine", language), _machine(diagnosis.facts["machine"], language)),
        (_say("label_kernel", language), _kernel(diagnosis.facts["kernel"], language)),
        *((_say("label_layers", language), text) for text in _layers(diagnosis)),
    ]
    column = max(width(label) for label, _ in facts) + 2
    lines, before = [], ""
    for label, text in facts:
        lines.append(fitted("" if label == before else label, column) + text)
        before = label
    lines.append("")
    if diagnosis.not_tried is not None:
        lines.append(_say("not_run", language, why=line(diagnosis.not_tried)))
    else:
        lines += _trials(diagnosis, language)
    lines += ["", *(f"- {text}" for text in diagnosis.advice)]
    lines += [_verdict(diagnosis, language), *_meaning(diagnosis, language)]
    return "\n".join(each.rstrip() for each in lines)


def _python(python: Mapping[str, Any]) -> str:
    return f"{_glyph('held' if python['ok'] else 'broke')} {python['version']}  " + line(
        python["executable"]
    )


def _packages(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    packages = diagnosis.facts["packages"]
    core = {name: p for name, p in packages.items() if p["needed"]}
    good = all(package["ok"] for package in core.values())
    versions = (f"{name} {p['version'] or '-'}" for name, p in core.items())
    yield f"{_glyph('held' if good else 'broke')} " + ", ".join(versions)
    more = [f"{n} {p['version']}" for n, p in packages.items() if not p["needed"] and p["version"]]
    if more:
        yield "  " + ", ".join(more)
    absent = [n for n, p in packages.items() if not p["needed"] and not p["version"]]
    if absent:
        yield "  " + _say("not_installed", language, packages=", ".join(absent))


def _encodings(encodings: Mapping[str, Any], language: str) -> str:
    text = _say("encodings", language, **encodings)
    chinese = _say("chinese_yes" if encodings["chinese"] else "chinese_no", language)
    return f"{_glyph('held' if encodings['chinese'] else 'open')} {text}; {chinese}"


def _machine(machine: Mapping[str, Any], language: str) -> str:
    parts = [f"{machine['system']} {machine['release']} {machine['architecture']}"]
    parts.append(_say("cores", language, count=machine["cores"]))
    if machine["memory_mib"] is not None:
        parts.append(_say("memory", language, size=_gib(machine["memory_mib"])))
    if machine["free_disk_mib"] is not None:
        parts.append(_say("disk", language, size=_gib(machine["free_disk_mib"])))
    parts.append(machine["container"] or _say("no_container", language))
    parts.append(_say("user_root" if machine["root"] else "user_ordinary", language))
    return "  " + ", ".join(map(line, parts))


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _kernel(kernel: Mapping[str, Any], language: str) -> str:
    yes, no = _say("yes", language), _say("no", language)
    scope, spaces = kernel["ptrace_scope"], kernel["user_namespaces"]
    values = {
        "landlock": kernel["landlock_abi"] or no,
        "seccomp": yes if kernel["seccomp"] else no,
        "yama": no if scope is None else scope,
        "namespaces": "?" if spaces is None else yes if spaces else no,
    }
    return "  " + _say("kernel", language, **values)


def _layers(diagnosis: Diagnosis) -> Iterator[str]:
    layers = diagnosis.layers
    if layers.bound:
        yield f"{_glyph('held')} " + ", ".join(n for n in LAYERS if n in layers.bound)
    for name, why in layers.missing.items():
        yield f"{_glyph('open')} {name}: {line(why)}"


def _trials(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    promised = {promise.name for promise in diagnosis.promises if promise.promised}
    order = [promise.name for promise in diagnosis.promises]
    names = {name: _promise(name, language) for name in order}
    column = max(map(width, names.values())) + 2
    count = len(diagnosis.findings)
    seconds = f"{diagnosis.seconds:.1f}"
    yield _say("tried", language, count=count, seconds=seconds, worker=diagnosis.worker)
    for finding in sorted(diagnosis.findings, key=lambda f: order.index(f.promise)):
        state = finding.state.value
        if finding.state is State.BROKE and finding.promise not in promised:
            state = "open"  # nobody said that it would hold here
        title = fitted(render(finding.title, language), _TITLE)
        yield f"{_glyph(state)} {fitted(names[finding.promise], column)}{title} " + _evidence(
            finding, language
        )


def _evidence(finding: Finding, language: str) -> str:
    """For what held, the errors met; for what broke, the ways that worked."""
    if finding.state is State.NOT_TRIED:
        return _say("trial_not_tried", language, why=line(finding.reason))
    if finding.promise == FAIR:
        return _outcome(finding.reason, language)
    end = End.STOPPED if finding.state is State.HELD else End.WORKED
    found = [way for way in finding.ways if way.end is end]
    if finding.state is State.HELD:
        met = list(dict.fromkeys(way.evidence for way in found))
        if finding.promise == SCORE:
            return _say("trial_no_points", language, outcome=_outcome(met[0], language))
        return _say("trial_held", language, evidence=line(", ".join(met)))
    shown = ", ".join(way.name + (f" ({way.evidence})" if way.evidence else "") for way in found)
    return _say("trial_broke", language, evidence=fitted(shown, _EVIDENCE).rstrip())


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
        return _say("verdict_held", language, **values)
    if diagnosis.status == 1:
        return _say("verdict_broke", language, **values, promises=listed[State.BROKE])
    return _say("verdict_not_tried", language, **values, promises=listed[State.NOT_TRIED])


def _meaning(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    """What a level below strong leaves open."""
    if diagnosis.level == "strong":
        return
    absent = [_promise(p.name, language) for p in diagnosis.promises if not p.promised]
    yield _say("not_promised", language, promises=", ".join(absent))
    yield _say("level_medium" if diagnosis.level == "medium" else "level_weak", language)


def _promise(name: str, language: str) -> str:
    return render(Message(f"doctor.promise_{name}"), language)


def _say(key: str, language: str, **values: object) -> str:
    return render(Message(f"doctor.{key}", values), language)


def _glyph(state: str) -> str:
    """A mark that the terminal can show, always of the same width."""
    try:
        "".join(_FANCY.values()).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _PLAIN[state]
    return _FANCY[state]
