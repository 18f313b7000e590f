"""The facts of a machine as lines for a terminal, with glyphs that it can show."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autograder.course.messages import render
from autograder.course.records import Message
from autograder.report.escape import fitted, line, width

_FANCY = {"held": "✓", "broke": "✗", "not_tried": "?", "open": "–"}
_PLAIN = {"held": "ok", "broke": "XX", "not_tried": "??", "open": "--"}


def fact_lines(facts: Mapping[str, Any], language: str) -> Iterator[tuple[str, str]]:
    """A label and a text each; see :func:`autograder.cli.doctor_facts.facts`."""
    yield say("label_python", language), _python(facts["python"])
    for text in _packages(facts["packages"], language):
        yield say("label_packages", language), text
    yield say("label_encodings", language), _encodings(facts["encodings"], language)
    yield say("label_machine", language), _machine(facts["machine"], language)
    yield say("label_kernel", language), _kernel(facts["kernel"], language)


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


def _packages(packages: Mapping[str, Any], language: str) -> Iterator[str]:
    core = {name: p for name, p in packages.items() if p["needed"]}
    good = all(package["ok"] for package in core.values())
    versions = (f"{name} {p['version'] or '-'}" for name, p in core.items())
    yield f"{glyph('held' if good else 'broke')} " + ", ".join(versions)
    more = [f"{n} {p['version']}" for n, p in packages.items() if not p["needed"] and p["version"]]
    if more:
        yield "  " + ", ".join(more)
    absent = [n for n, p in packages.items() if not p["needed"] and not p["version"]]
    if absent:
        yield "  " + say("not_installed", language, packages=", ".join(absent))


def _encodings(encodings: Mapping[str, Any], language: str) -> str:
    text = say("encodings", language, **encodings)
    chinese = say("chinese_yes" if encodings["chinese"] else "chinese_no", language)
    return f"{glyph('held' if encodings['chinese'] else 'open')} {text}; {chinese}"


def _machine(machine: Mapping[str, Any], language: str) -> str:
    parts = [f"{machine['system']} {machine['release']} {machine['architecture']}"]
    parts.append(say("cores", language, count=machine["cores"]))
    if machine["memory_mib"] is not None:
        parts.append(say("memory", language, size=_gib(machine["memory_mib"])))
    if machine["free_disk_mib"] is not None:
        parts.append(say("disk", language, size=_gib(machine["free_disk_mib"])))
    parts.append(machine["container"] or say("no_container", language))
    parts.append(say("user_root" if machine["root"] else "user_ordinary", language))
    return "  " + ", ".join(map(line, parts))


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _kernel(kernel: Mapping[str, Any], language: str) -> str:
    yes, no = say("yes", language), say("no", language)
    scope, spaces = kernel["ptrace_scope"], kernel["user_namespaces"]
    values = {
        "landlock": kernel["landlock_abi"] or no,
        "seccomp": yes if kernel["seccomp"] else no,
        "yama": no if scope is None else scope,
        "namespaces": "?" if spaces is None else yes if spaces else no,
    }
    return "  " + say("kernel", language, **values)


def say(key: str, language: str, **values: object) -> str:
    """The message ``doctor.KEY``."""
    return render(Message(f"doctor.{key}", values), language)


def glyph(state: str) -> str:
    """A mark that the terminal can show, always of the same width."""
    try:
        "".join(_FANCY.values()).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return _PLAIN[state]
    return _FANCY[state]
