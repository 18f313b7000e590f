"""What is missing for the level ``strong``, or for grading at all, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from autograder.course import asked
from autograder.course.records import Message
from autograder.sandbox.jail import LAYERS, guarantees

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
        facts: see :func:`autograder.cli.doctor_facts.facts`.
        bound: layers of isolation that bind here.
        missing: why the others do not, by layer.
        broken: promises that were made and broke.
    """
    if broken:
        again = asked.command("doctor", "--json")
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
