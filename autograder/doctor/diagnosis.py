"""``doctor``: what this machine has, which layers bind, and what held when attacks were tried.

The standard library is enough until the scratch grading starts, so that a machine without
torch gets an answer too. ``--json`` prints one object and nothing else:

* ``format``      1; it grows when a key changes its meaning
* ``status``      exit status: 0 every promise held, 1 one broke, 2 something could not be tried
* ``level``       strong, medium or weak, as ``worker/jail.py`` defines them
* ``facts``       ``python``, ``packages``, ``encodings``, ``machine``, ``kernel``; sizes in MiB
* ``worker``      how workers start: fork or spawn
* ``layers``      by name: ``bound``, and ``why`` not (a sentence, or null)
* ``promises``    by name: ``promised`` (at this level) and ``state``: held, broke, not_tried
* ``trials``      list of ``name``, ``promise``, ``title``, ``state``, ``reason`` (why not tried)
  and ``ways``: a list of ``name``, ``end`` (worked, stopped, absent, failed) and ``evidence``
* ``advice``      sentences: what to mend, and how
* ``not_tried``   why there are no trials at all, or null
* ``seconds``     wall time of the whole
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from autograder.doctor.report import Diagnosis

if TYPE_CHECKING:
    from autograder.doctor.attacks import AttackResult
    from autograder.doctor.verdict import Layers

OLDEST_PYTHON = (3, 11)
_TOO_OLD = (
    "Python {} is too old; install Python 3.11 or newer / Python {} 太旧，请安装 3.11 或更新版本"
)


def run(*, as_json: bool, language: str) -> int:
    """Print the diagnosis, as text or as one JSON object.

    Returns:
        0 when every promise of the level held, 1 when one broke, 2 when it could not be tried.
    """
    if sys.version_info < OLDEST_PYTHON:  # what follows is written for newer ones
        version = ".".join(map(str, sys.version_info[:3]))
        sentence = _TOO_OLD.format(version, version)
        print(
            json.dumps({"format": 1, "status": 2, "not_tried": sentence}) if as_json else sentence
        )
        return 2
    from autograder.doctor import report

    if not as_json and sys.stderr.isatty():
        print(report.please_wait(language), file=sys.stderr, flush=True)
    diagnosis = diagnose(language)
    if as_json:
        print(json.dumps(plain(diagnosis, language), indent=1))
    else:
        print(report.page(diagnosis, language))
    return diagnosis.status


def diagnose(language: str) -> Diagnosis:
    """Look, and try; nothing is printed, and nothing stays behind."""
    from autograder.course.messages import render
    from autograder.doctor import machine, report, verdict
    from autograder.doctor.attacks import State
    from autograder.grading.judge_process import EngineError, wants_spawn
    from autograder.worker.jail import level

    started = time.monotonic()
    facts = machine.facts()
    layers = verdict.layers()
    findings: tuple[AttackResult, ...] = ()
    not_tried = None
    try:
        layers, findings = _tried(layers)
    except (EngineError, OSError, ValueError) as error:
        not_tried = str(error)
    kept = verdict.promises(layers.bound, findings)
    broken = [p.name for p in kept if p.promised and p.state is State.BROKE]
    said = report.advice(facts, layers.bound, layers.missing, broken)
    return Diagnosis(
        facts=facts,
        worker="spawn" if wants_spawn() else "fork",
        level=level(layers.bound),
        layers=layers,
        findings=findings,
        promises=kept,
        advice=tuple(render(message, language) for message in said),
        not_tried=not_tried,
        status=verdict.status(kept),
        seconds=time.monotonic() - started,
    )


def _tried(layers: Layers) -> tuple[Layers, tuple[AttackResult, ...]]:
    """The layers as they bind around a real worker, and what the trials found.

    Raises:
        EngineError: the scratch grading could not start, for want of torch, say.
        OSError, ValueError: the scratch folder could not be made.
    """
    from autograder.doctor.verdict import Layers
    from autograder.grading.judge_process import NEEDED, EngineError

    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise EngineError(f"{sys.executable} lacks {', '.join(absent)}")
    from autograder.doctor.scratch_grading import Scratch
    from autograder.doctor.verdict import run

    with Scratch(nobody="uid" in layers.bound) as scratch:
        tried = run(scratch)
    bound = tried.isolation.layers
    missing = {name: why for name, why in layers.missing.items() if name not in bound}
    for name in layers.bound:
        if name not in bound:
            missing[name] = "it binds around an empty process, but not around a worker"
    return Layers(bound, missing), tried.findings


def plain(diagnosis: Diagnosis, language: str) -> dict[str, Any]:
    """The diagnosis as JSON takes it; the keys stand above."""
    from autograder.course.messages import render
    from autograder.worker.jail import LAYERS

    layers = diagnosis.layers
    return {
        "format": 1,
        "status": diagnosis.status,
        "level": diagnosis.level,
        "facts": dict(diagnosis.facts),
        "worker": diagnosis.worker,
        "layers": {
            name: {"bound": name in layers.bound, "why": layers.missing.get(name)}
            for name in LAYERS
        },
        "promises": {
            promise.name: {"promised": promise.promised, "state": promise.state.value}
            for promise in diagnosis.promises
        },
        "trials": [
            {
                "name": finding.trial,
                "promise": finding.promise,
                "title": render(finding.title, language),
                "state": finding.state.value,
                "reason": finding.reason,
                "ways": [
                    {"name": way.name, "end": way.end.value, "evidence": way.evidence}
                    for way in finding.ways
                ],
            }
            for finding in diagnosis.findings
        ],
        "advice": list(diagnosis.advice),
        "not_tried": diagnosis.not_tried,
        "seconds": round(diagnosis.seconds, 2),
    }
