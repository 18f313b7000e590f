"""The trials of doctor: each one breaks where what stops it is off, and only then counts as held.

A trial that holds because its attack is wrong would be worse than none. So every *way* of every
trial has to work somewhere: with all layers off, with roomy deadlines, or (what wants points for
nothing) against a grader that shares its process with the hand-in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT
from autograder.course.messages import render
from autograder.course.records import CheckResult, HandIn, Limits, Message, Outcome
from autograder.doctor import scratch_grading, verdict
from autograder.doctor.attacks import (
    ATTEMPTS,
    FAIR,
    FORGERIES,
    HONEST,
    SCORE,
    Attack,
    AttackResult,
    End,
    State,
    Way,
    corrected,
    judged,
)
from autograder.doctor.scratch_grading import Scratch
from autograder.doctor.verdict import TRIALS, AttackResults, decided, run
from autograder.worker.jail import LAYERS, guarantees, level
from tests.hand_ins import nothing_left_behind

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
ENDING = [trial for trial in ATTEMPTS if trial.ends]
# Without those that only wait for a deadline.
QUICK = [trial for trial in TRIALS if not trial.ends]
STAYING = [trial for trial in ATTEMPTS if not trial.ends]
# What a kernel, or a container around the tests, may refuse to anybody; and what root alone has.
MAY_BE_REFUSED = {
    "attribute", "bpf", "debugger", "io_uring", "key_ring", "kernel_messages",
    "memory_as_a_file", "memory_by_a_call", "page_faults", "performance_events", "shared_segment",
    "user_namespace",
}  # fmt: skip
ROOT_ALONE = {"user_root", "another_root_folder"}
MAY_BE_ABSENT = {"solution"}  # in the copy that students get


def tried(
    without: tuple[str, ...] = (), limits: Limits | None = None, trials: list[Attack] = QUICK
) -> AttackResults:
    """Try in a scratch folder of its own; it is gone afterwards, and so are all processes."""
    bound = verdict.layers(without).bound
    given = {"limits": limits, "patience": 0.4} if limits else {}
    with nothing_left_behind(), Scratch(nobody="uid" in bound, **given) as scratch:
        found = run(scratch, without, trials)
        assert all(
            way.evidence == scratch.canary for f in found.findings for way in f.ways
            if way.evidence.startswith("canary-")
        )  # fmt: skip
    assert not scratch.folder.exists()
    return found


@pytest.fixture(scope="module")
def open_ground() -> dict[str, AttackResult]:
    """What the trials find with every layer off."""
    found = tried(LAYERS)
    assert found.isolation.layers == () and found.isolation.level == "weak"
    return {finding.trial: finding for finding in found.findings}


def names(trial: Attack) -> list[str]:
    """The ways of a trial, as its code defines them."""
    lines = trial.code.splitlines()
    after = [lines[n + 1] for n, line in enumerate(lines) if line == "@way"]
    return [line.removeprefix("def ").split("(")[0] for line in after]


# ---------------------------------------------------------------- each trial can break


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("trial", STAYING, ids=lambda trial: trial.name)
def test_every_way_works_where_nothing_stops_it(
    open_ground: dict[str, AttackResult], trial: Attack
) -> None:
    finding = open_ground[trial.name]
    assert [way.name for way in finding.ways] == names(trial)
    spared = MAY_BE_REFUSED | MAY_BE_ABSENT | (set() if os.geteuid() == 0 else ROOT_ALONE)
    dull = [way for way in finding.ways if way.end is not End.WORKED and way.name not in spared]
    assert not dull
    assert all(way.end is not End.FAILED for way in finding.ways), finding.ways
    if not set(names(trial)) <= spared:
        assert finding.state is State.BROKE


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("name", ["orphan", "runaway"])
def test_probes_break_where_nothing_stops_them(
    open_ground: dict[str, AttackResult], name: str
) -> None:
    assert open_ground[name].state is State.BROKE


@pytest.mark.slow
@needs_linux
def test_answers_and_memory_are_really_found(open_ground: dict[str, AttackResult]) -> None:
    ways = {way.name: way.evidence for way in open_ground["answers"].ways}
    assert all(evidence.startswith("canary-") for evidence in ways.values()) and len(ways) == 3
    seen = {way.name: way for way in open_ground["memory_of_others"].ways}
    for name in ("memory_as_a_file", "memory_by_a_call"):
        if seen[name].end is End.WORKED:
            assert seen[name].evidence.startswith("canary-")


@pytest.mark.slow
@needs_linux
def test_what_worked_is_seen_from_outside_too(open_ground: dict[str, AttackResult]) -> None:
    def seen(trial: str, sign: str) -> set[str]:
        return {way.name for way in open_ground[trial].ways if way.evidence == sign}

    changed = {"create", "append", "make_folder", "link", "remove", "rename", "truncate"}
    assert seen("changing_files", "changed") == changed
    assert seen("changing_modes", "changed") == {"mode", "times"}
    assert seen("internet", "it arrived") == {"tcp_connect", "udp_send"}
    assert seen("local_sockets", "it arrived") == {"unix_send"}


@pytest.mark.slow
@needs_linux
def test_no_layer_is_needed_for_scores(open_ground: dict[str, AttackResult]) -> None:
    """What protects them is that nobody compares in the student's process."""
    for trial in (*FORGERIES, HONEST):
        assert open_ground[trial.name].state is State.HELD


@needs_linux
@pytest.mark.slow
def test_loops_and_sleeps_end_by_themselves_where_no_deadline_ends_them() -> None:
    roomy = Limits(cpu_seconds=60, wall_seconds=60, memory_mib=256)
    found = tried(limits=roomy, trials=ENDING).findings
    went_on = {f.trial: f.state for f in found if f.trial in ("loop", "sleep")}
    assert went_on == {"loop": State.BROKE, "sleep": State.BROKE}


SINGLE = {
    "landlock_files": {
        "answers", "grader_code", "memory_of_others",
    },
    "rlimits": {"too_much", "cpu_limit", "runaway"},
    "parent_death": {"orphan"},
    "seccomp": {"changing_modes", "internet", "local_sockets", "children", "detours", "own_limits"},
}  # fmt: skip


@cache
def without_landlock() -> AttackResults:
    """All trials, those that wait for a deadline among them."""
    return tried(("landlock_files",), trials=list(TRIALS))


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize("layer", SINGLE)
def test_a_single_layer_that_is_off_opens_what_it_stops(layer: str) -> None:
    # Without a filter the limit on processes forbids a fork, to all but a root with privileges.
    also = ("rlimits",) if layer == "seccomp" else ()
    found = without_landlock() if layer == "landlock_files" else tried((layer, *also))
    states = {finding.trial: finding.state for finding in found.findings}
    expected = SINGLE[layer] | (SINGLE["rlimits"] if also else set())
    broken = {name for name, state in states.items() if state is State.BROKE}
    assert expected <= broken, expected - broken
    # What the layers that are left promise holds all the same.
    kept = verdict.promises(found.isolation.layers, found.findings)
    assert verdict.status(kept) == 0, [p for p in kept if p.promised and p.state != "held"]
    # On a machine whose layers bind and yet do not hold, a promise would be broken.
    assert verdict.status(verdict.promises(LAYERS, found.findings)) == 1


@needs_linux
@pytest.mark.slow
def test_without_landlock_the_level_is_medium_and_its_promises_hold() -> None:
    found = without_landlock()
    assert found.isolation.level in ("medium", "weak")
    kept = {p.name: p for p in verdict.promises(found.isolation.layers, found.findings)}
    assert not kept["files"].promised and kept["files"].state is State.BROKE
    assert verdict.status(kept.values()) == 0


# ---------------------------------------------------------------- points for nothing

# A grader that shares its process with the hand-in: compares there, reads the exit status, and
# takes results as pickles. The answer lies on its heap.
NAIVE = """
import os, pickle, sys, torch
def grade(source):
    x = torch.arange(1.0, 8)
    expected = 2 * x
    space = {}
    exec(source, space)
    got = space["double"](x)
    try: pickle.loads(pickle.dumps(got))
    except Exception: pass
    sys.exit(0 if (got == expected) is True or torch.allclose(got, expected) else 1)
for source in eval(sys.stdin.read()):
    ask, tell = os.pipe()
    child = os.fork()
    if child == 0:
        status = 3
        try:
            os.dup2(tell, 1)
            grade(source)
        except SystemExit as end:
            status = end.code
        except BaseException as error:
            print(error, file=sys.stderr)
        finally:
            os._exit(status)
    os.close(tell)
    said = os.read(ask, 1 << 16).decode()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "passed" in said, flush=True)
"""


@pytest.fixture(scope="module")
def shared_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """By forgery: how that grader ends, and whether a verdict was printed."""
    places = {"pickled": str(tmp_path_factory.mktemp("naive") / "pickled")}
    trials = [Attack("wrong", SCORE, Message(""), "def double(x): return 0 * x", kit=False)]
    trials += FORGERIES
    sources = [scratch_grading.source([trial], places) for trial in trials]
    done = subprocess.run(
        [sys.executable, "-c", NAIVE], input=repr(sources), capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, cwd=ROOT, timeout=120,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(trials), done.stderr
    found = {trial.name: line for trial, line in zip(trials, lines, strict=True)}
    found["pickled"] = str(Path(places["pickled"]).exists())
    yield found


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize("trial", FORGERIES, ids=lambda trial: trial.name)
def test_without_a_border_between_processes_a_forgery_works(
    shared_process: dict[str, str], trial: Attack
) -> None:
    assert shared_process["wrong"] == "1 False"  # it does tell right from wrong
    if trial.name == "pickle":
        assert shared_process["pickled"] == "True"
    elif trial.name == "forged_verdict":
        assert shared_process[trial.name] == "0 True"
    else:
        assert shared_process[trial.name] == "0 False"


def record(outcome: Outcome, prints: str = "") -> HandIn:
    return HandIn("x", (CheckResult("test_double", outcome, prints=prints),))


@pytest.mark.parametrize("trial", [*FORGERIES, *ATTEMPTS], ids=lambda trial: trial.name)
def test_points_for_an_attack_break_a_promise(trial: Attack) -> None:
    assert decided(trial, record(Outcome.PASSED)).state is State.BROKE


def test_the_payload_of_a_pickle_is_seen_from_outside() -> None:
    (trial,) = (trial for trial in FORGERIES if trial.name == "pickle")
    finding = decided(trial, record(Outcome.FAILED))
    assert finding.state is State.HELD
    assert corrected(finding, {"payload": "changed"}).state is State.BROKE


# ---------------------------------------------------------------- what counts as held


@pytest.mark.parametrize(
    "outcome", [Outcome.CRASHED, Outcome.FAILED, Outcome.NOT_GRADED, Outcome.TIMED_OUT]
)
@pytest.mark.parametrize("trial", STAYING, ids=lambda trial: trial.name)
def test_an_attempt_that_says_nothing_was_not_tried(trial: Attack, outcome: Outcome) -> None:
    finding = decided(trial, record(outcome, "doctor nonsense\ndoctor [1]\nwords"))
    assert finding.state is State.NOT_TRIED and outcome.value in finding.reason


def test_deadlines_hold_only_where_they_end_the_attempt() -> None:
    for trial in ENDING:
        assert decided(trial, record(Outcome.TIMED_OUT)).state is State.HELD
        assert decided(trial, record(Outcome.CRASHED)).state is State.NOT_TRIED


def test_an_honest_hand_in_has_to_get_its_points() -> None:
    found = {outcome: decided(HONEST, record(outcome)).state for outcome in Outcome}
    assert found[Outcome.PASSED] is State.HELD
    assert found[Outcome.FAILED] is found[Outcome.CRASHED] is State.BROKE
    assert found[Outcome.TIMED_OUT] is found[Outcome.NOT_GRADED] is State.NOT_TRIED


ENDS = {
    "raise PermissionError(errno.EPERM, 'no')": End.STOPPED,
    "raise OSError(errno.EACCES, 'no')": End.STOPPED,
    "raise OSError(errno.ENOSYS, 'no')": End.ABSENT,
    "raise MemoryError": End.STOPPED,
    "raise FileNotFoundError(errno.ENOENT, 'gone')": End.FAILED,
    "raise ConnectionRefusedError(errno.ECONNREFUSED, 'nobody')": End.FAILED,
    "raise TimeoutError": End.FAILED,
    "undefined": End.FAILED,
    "os.no_such_thing()": End.ABSENT,
    "only(False, 'such thing')": End.ABSENT,
    "return 3": End.WORKED,
}


def student(code: str, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[Way, ...]]:
    """Run a trial with one way in this very process."""
    trial = Attack("t", "files", Message(""), f"@way\ndef only_way(): {code}\n")
    space: dict[str, object] = {}
    exec(scratch_grading.source([trial], {"name": 'it\'s "quoted" {}'}), space)
    assert space["double"](3) == 0  # type: ignore[operator]
    return scratch_grading.reports("a student's print\n" + capsys.readouterr().out)


@pytest.mark.parametrize("code", ENDS)
def test_only_what_a_layer_answers_counts_as_stopped(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ((way,),) = student(code, capsys).values()
    assert (way.name, way.end) == ("only_way", ENDS[code])


BARE = AttackResult("t", "files", Message("doctor.trial_answers"), State.NOT_TRIED)


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ((End.STOPPED, End.STOPPED), State.HELD),
        ((End.STOPPED, End.ABSENT), State.HELD),
        ((End.STOPPED, End.WORKED), State.BROKE),
        ((End.FAILED, End.WORKED), State.BROKE),
        ((End.STOPPED, End.FAILED), State.NOT_TRIED),
        ((End.ABSENT, End.ABSENT), State.NOT_TRIED),
        ((), State.NOT_TRIED),
    ],
)
def test_one_way_that_works_breaks_and_one_that_fails_proves_nothing(
    ends: tuple[End, ...], state: State
) -> None:
    finding = judged(BARE, [Way(f"w{n}", end) for n, end in enumerate(ends)])
    assert finding.state is state
    assert bool(finding.reason) == (state is State.NOT_TRIED)


def test_a_trace_outside_counts_more_than_what_the_code_says() -> None:
    held = judged(BARE, [Way("a", End.STOPPED, "EPERM"), Way("b", End.STOPPED, "EPERM")])
    finding = corrected(held, {"b": "changed"})
    assert finding.state is State.BROKE and finding.ways[1] == Way("b", End.WORKED, "changed")
    assert corrected(held, {}) == held


# ---------------------------------------------------------------- promises


def test_every_guarantee_has_two_trials_or_more_and_is_a_promise() -> None:
    assert set(verdict.PROMISES) == guarantees(LAYERS) | {SCORE, FAIR}
    for name in guarantees(LAYERS) | {SCORE}:
        assert sum(trial.promise == name for trial in TRIALS) >= 2, name
    assert len({trial.name for trial in TRIALS}) == len(TRIALS)
    assert {trial.promise for trial in TRIALS} == set(verdict.PROMISES)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_trial_and_promise_has_a_name(language: str) -> None:
    titles = [render(trial.title, language) for trial in TRIALS]
    titles += [render(Message(f"doctor.promise_{name}"), language) for name in verdict.PROMISES]
    assert all(titles) and len(set(titles)) == len(titles)


def test_a_promise_is_broken_by_one_breach_and_unknown_without_a_trial() -> None:
    one, other = replace(BARE, state=State.HELD), replace(BARE, state=State.BROKE)
    every = [replace(one, promise=name) for name in verdict.PROMISES]
    assert verdict.status(verdict.promises(LAYERS, every)) == 0
    assert verdict.status(verdict.promises(LAYERS, [*every, other])) == 1
    unknown = [finding for finding in every if finding.promise != "memory"]
    assert verdict.status(verdict.promises(LAYERS, unknown)) == 2
    assert verdict.status(verdict.promises(LAYERS, [])) == 2
    without = set(LAYERS) - {"landlock_files"}
    assert level(without) == "medium"
    assert verdict.status(verdict.promises(without, [*every, other])) == 0  # not promised there


# ---------------------------------------------------------------- layers


def test_every_layer_binds_or_says_why_not() -> None:
    found = verdict.layers()
    assert {*found.bound, *found.missing} == set(LAYERS)
    assert not set(found.bound) & set(found.missing)
    assert all(len(why) > 10 for why in found.missing.values())


def test_a_layer_that_is_left_off_says_so() -> None:
    found = verdict.layers(("rlimits",))
    assert "rlimits" not in found.bound and found.missing["rlimits"] == "it was switched off"


def test_a_probe_that_does_not_answer_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "command", lambda *_: [sys.executable, "-c", "1 / 0"])
    found = verdict.layers()
    assert found.bound == () and set(found.missing) == set(LAYERS)
    assert "ZeroDivisionError" in found.missing["seccomp"]


@needs_linux
def test_a_probe_that_could_not_start_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "command", lambda *_: [sys.executable, "-c", "1 / 0"])
    asked = verdict.Probes()
    assert {finding.state for finding in asked.findings()} == {State.NOT_TRIED}
    asked.close()


LATE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from autograder.doctor import probe
here, leave = os.getpid(), os._exit
def late(status):
    if os.getpid() == here:
        time.sleep(2 * probe.OUTLIVES_SECONDS)
    leave(status)
os._exit = late
probe.main(["", "", "orphan", ""])
"""


@needs_linux
def test_a_process_that_ends_late_leaves_no_orphan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its child has not outlived it, however long a busy machine holds it up."""
    line = [sys.executable, "-c", LATE, str(ROOT)]
    monkeypatch.setattr(verdict, "command", lambda *_: line)
    asked = verdict.Probes()
    found = {finding.trial: finding for finding in asked.findings()}
    asked.close()
    assert found["orphan"].state is State.HELD


def test_places_are_plain_data() -> None:
    with Scratch() as scratch:
        places = scratch.places()
        assert json.loads(json.dumps(places)) == places
        assert scratch.canary in Path(places["notes"]).read_text()
        assert scratch.canary.encode() in Path(places["hidden"]).read_bytes()
        assert scratch.canary not in json.dumps(places), "student code has to find it"
        assert not any(scratch.noticed().values())
    assert not scratch.folder.exists()
