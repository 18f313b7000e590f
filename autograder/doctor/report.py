"""The diagnosis as text for a terminal: aligned, with glyphs that the terminal can show."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograder.course import suggestions
from autograder.course.messages import render
from autograder.course.records import Message
from autograder.doctor.attacks import FAIR, SCORE, AttackResult, End, State
from autograder.report.escape import fitted, line, width
from autograder.worker.jail import LAYERS, guarantees

if TYPE_CHECKING:
    from autograder.doctor.attacks import AttackResult
    from autograder.doctor.verdict import Layers, Promise


# What is missing for the level ``strong``, or for grading at all, and how to mend it.

_LANDLOCK_SINCE = (5, 13)
_NOT_CONTAINERS = ("", "wsl")


def advice(
    facts: Mapping[str, Any],
    bound: Collection[str],
    missing: Mapping[str, str],
    broken: Collection[str] = (),
) -> Iterator[Message]:
    """Sentences, the most urgent first.

    Args:
        facts: see :func:`autograder.doctor.machine.facts`.
        bound: layers of isolation that bind here.
        missing: why the others do not, by layer.
        broken: promises that were made and broke.
    """
    if broken:
        again = suggestions.command("doctor", "--json")
        yield Message("doctor.mend_broken", {"promises": ", ".join(broken), "command": again})
    yield from _packages(facts["packages"])
    if not facts["python"]["ok"]:
        yield Message("doctor.mend_python", {"version": facts["python"]["version"]})
    if guarantees(bound) != guarantees(LAYERS):
        yield from _isolation(facts, bound, missing)
    if not facts["encodings"]["chinese"]:
        yield Message("doctor.mend_chinese", {"encoding": facts["encodings"]["terminal"]})


def _packages(packages: Mapping[str, Mapping[str, Any]]) -> Iterator[Message]:
    absent = [name for name, p in packages.items() if p["needed"] and p["version"] is None]
    if absent:
        yield Message("doctor.mend_absent", {"packages": ", ".join(absent)})
    odd = [
        f"{name} {p['version']} ({p['asked']})"
        for name, p in packages.items()
        if p["version"] is not None and not p["ok"]
    ]
    if odd:
        yield Message("doctor.mend_range", {"packages": ", ".join(odd)})


def _isolation(
    facts: Mapping[str, Any], bound: Collection[str], missing: Mapping[str, str]
) -> Iterator[Message]:
    system, container = facts["machine"]["system"], facts["machine"]["container"]
    if system == "Windows":
        yield Message("doctor.mend_windows")
        return
    if system != "Linux":
        yield Message("doctor.mend_docker", {"system": system})
        return
    if "landlock_files" not in bound:
        if _kernel(facts["machine"]["release"]) < _LANDLOCK_SINCE:
            yield Message("doctor.mend_kernel", {"release": facts["machine"]["release"]})
        elif container not in _NOT_CONTAINERS:
            yield Message("doctor.mend_container", {"container": container})
        else:
            yield Message("doctor.mend_landlock")
    if "seccomp" not in bound:
        if container not in _NOT_CONTAINERS:
            yield Message("doctor.mend_container_seccomp", {"container": container})
        else:
            yield Message("doctor.mend_seccomp", {"why": missing.get("seccomp", "")})
    for layer in ("rlimits", "no_new_privs", "capabilities", "parent_death"):
        if layer not in bound:
            yield Message("doctor.mend_layer", {"layer": layer, "why": missing.get(layer, "")})


def _kernel(release: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


# The facts of a machine as lines for a terminal, with glyphs that it can show.

_FANCY = {"held": "✓", "broke": "✗", "not_tried": "?", "open": "–"}
_PLAIN = {"held": "ok", "broke": "XX", "not_tried": "??", "open": "--"}


def fact_lines(facts: Mapping[str, Any], language: str) -> Iterator[tuple[str, str]]:
    """A label and a text each; see :func:`autograder.doctor.machine.facts`."""
    yield sentence("label_python", language), _python(facts["python"])
    for text in _packages_doctor_facts_text(facts["packages"], language):
        yield sentence("label_packages", language), text
    yield sentence("label_encodings", language), _encodings(facts["encodings"], language)
    yield sentence("label_machine", language), _machine(facts["machine"], language)
    yield sentence("label_kernel", language), _kernel_doctor_facts_text(facts["kernel"], language)


def labelled(facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The texts in a column of their own, each label once."""
    column = max(width(label) for label, _ in facts) + 2
    before = ""
    for label, text in facts:
        yield fitted("" if label == before else label, column) + text
        before = label


def _python(python: Mapping[str, Any]) -> str:
    return f"{glyph('held' if python['ok'] else 'broke')} {python['version']}  " + line(
        python["executable"]
    )


def _packages_doctor_facts_text(packages: Mapping[str, Any], language: str) -> Iterator[str]:
    core = {name: p for name, p in packages.items() if p["needed"]}
    good = all(package["ok"] for package in core.values())
    versions = (f"{name} {p['version'] or '-'}" for name, p in core.items())
    yield f"{glyph('held' if good else 'broke')} " + ", ".join(versions)
    more = [f"{n} {p['version']}" for n, p in packages.items() if not p["needed"] and p["version"]]
    if more:
        yield "  " + ", ".join(more)
    absent = [n for n, p in packages.items() if not p["needed"] and not p["version"]]
    if absent:
        yield "  " + sentence("not_installed", language, packages=", ".join(absent))


def _encodings(encodings: Mapping[str, Any], language: str) -> str:
    text = sentence("encodings", language, **encodings)
    chinese = sentence("chinese_yes" if encodings["chinese"] else "chinese_no", language)
    return f"{glyph('held' if encodings['chinese'] else 'open')} {text}; {chinese}"


def _machine(machine: Mapping[str, Any], language: str) -> str:
    parts = [f"{machine['system']} {machine['release']} {machine['architecture']}"]
    parts.append(sentence("cores", language, count=machine["cores"]))
    if machine["memory_mib"] is not None:
        parts.append(sentence("memory", language, size=_gib(machine["memory_mib"])))
    if machine["free_disk_mib"] is not None:
        parts.append(sentence("disk", language, size=_gib(machine["free_disk_mib"])))
    parts.append(machine["container"] or sentence("no_container", language))
    parts.append(sentence("user_root" if machine["root"] else "user_ordinary", language))
    return "  " + ", ".join(map(line, parts))


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _kernel_doctor_facts_text(kernel: Mapping[str, Any], language: str) -> str:
    yes, no = sentence("yes", language), sentence("no", language)
    scope, spaces = kernel["ptrace_scope"], kernel["user_namespaces"]
    values = {
        "landlock": kernel["landlock_abi"] or no,
        "seccomp": yes if kernel["seccomp"] else no,
        "yama": no if scope is None else scope,
        "namespaces": "?" if spaces is None else yes if spaces else no,
    }
    return "  " + sentence("kernel", language, **values)


def sentence(key: str, language: str, **values: object) -> str:
    """The message ``doctor.KEY``."""
    return render(Message(f"doctor.{key}", values), language)


def glyph(state: str) -> str:
    """A mark that the terminal can show, always of the same width."""
    try:
        "".join(_FANCY.values()).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _PLAIN[state]
    return _FANCY[state]


_TITLE = 50  # columns of what was tried
_EVIDENCE = 60


def please_wait(language: str) -> str:
    """Return what is said before the trials start."""
    return sentence("please_wait", language)


def page(diagnosis: Diagnosis, language: str) -> str:
    """The whole text."""
    layers = [(sentence("label_layers", language), text) for text in _layers(diagnosis)]
    lines = [*labelled([*fact_lines(diagnosis.facts, language), *layers]), ""]
    if diagnosis.not_tried is not None:
        lines.append(sentence("not_run", language, why=line(diagnosis.not_tried)))
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
    yield sentence("tried", language, count=count, seconds=seconds, worker=diagnosis.worker)
    for finding in sorted(diagnosis.findings, key=lambda f: order.index(f.promise)):
        state = finding.state.value
        if finding.state is State.BROKE and finding.promise not in promised:
            state = "open"  # nobody said that it would hold here
        title = fitted(render(finding.title, language), _TITLE)
        yield f"{glyph(state)} {fitted(names[finding.promise], column)}{title} " + _evidence(
            finding, language
        )


def _evidence(finding: AttackResult, language: str) -> str:
    """For what held, the errors met; for what broke, the ways that worked."""
    if finding.state is State.NOT_TRIED:
        return sentence("trial_not_tried", language, why=line(finding.reason))
    if finding.promise == FAIR:
        return _outcome(finding.reason, language)
    end = End.STOPPED if finding.state is State.HELD else End.WORKED
    found = [way for way in finding.ways if way.end is end]
    if finding.state is State.HELD:
        met = list(dict.fromkeys(way.evidence for way in found))
        if finding.promise == SCORE:
            return sentence("trial_no_points", language, outcome=_outcome(met[0], language))
        return sentence("trial_held", language, evidence=line(", ".join(met)))
    shown = ", ".join(way.name + (f" ({way.evidence})" if way.evidence else "") for way in found)
    return sentence("trial_broke", language, evidence=fitted(shown, _EVIDENCE).rstrip())


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
        return sentence("verdict_held", language, **values)
    if diagnosis.status == 1:
        return sentence("verdict_broke", language, **values, promises=listed[State.BROKE])
    return sentence("verdict_not_tried", language, **values, promises=listed[State.NOT_TRIED])


def _meaning(diagnosis: Diagnosis, language: str) -> Iterator[str]:
    """Return what a level below strong leaves open."""
    if diagnosis.level == "strong":
        return
    absent = [_promise(p.name, language) for p in diagnosis.promises if not p.promised]
    yield sentence("not_promised", language, promises=", ".join(absent))
    yield sentence("level_medium" if diagnosis.level == "medium" else "level_weak", language)


def _promise(name: str, language: str) -> str:
    return render(Message(f"doctor.promise_{name}"), language)


# What doctor found out, as one record.


@dataclass(frozen=True)
class Diagnosis:
    """Everything that doctor found out."""

    facts: Mapping[str, Any]
    worker: str
    level: str
    layers: Layers
    findings: tuple[AttackResult, ...]
    promises: tuple[Promise, ...]
    advice: tuple[str, ...]
    not_tried: str | None
    status: int
    seconds: float
