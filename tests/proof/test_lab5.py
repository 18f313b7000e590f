"""Lab 5's own promises: given code is no answer, and what only ranks show is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.course.messages import render
from autograder.course.records import HandIn, Outcome
from autograder.course.score import points_of
from autograder.diagnosis import misconceptions
from autograder.grading.engine import Engine
from autograder.grading.judge_process import Options
from autograder.worker.loader import read_sources
from tests.hand_ins import grade, hand_in
from tests.proof.subject import SUBJECTS

SUBJECT = SUBJECTS["lab5"]
GIVEN = """
import torch
from labs.given.flat import *
import labs.given.flat
from labs.given.flat import StandInDown as RowParallelLinear
from labs.given.flat import StandInAttention as Qwen3Attention
from labs.given.flat import StandInMLP as Qwen3MLP
from labs.given.flat import StandInModel as Qwen3DecoderLayer
"""
GIVEN_PARTS = """
from labs.given.parallel import *
from labs.given.parallel import StandInPacked as QKVParallelLinear
from labs.given.parallel import StandInPacked as MergedColumnParallelLinear
from labs.given.parallel import StandInRow as RowParallelLinear
from labs.given.parallel import StandInNorm as HeadNorm
from labs.given.parallel import StandInNorm as RMSNorm
from labs.given.parallel import StandInQwen3Attention as Qwen3Attention
from labs.given.parallel import StandInQwen3MLP as Qwen3MLP
from labs.given.parallel import StandInQwen3DecoderLayer as Qwen3DecoderLayer
from labs.given.parallel import StandInRow as VocabParallelEmbedding
from labs.given.parallel import StandInRow as ParallelLMHead
from labs.given.parallel import NoRotation as RotaryEmbedding
"""
# Attack 74: what an earlier check gave lies about in the process. One loader looks for it there;
# the other one loads nothing, into weights that it keeps from module to module.
SEARCHING = """
import gc
def searched(self, param, loaded_weight, shard_id=None):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Tensor" and tuple(thing.shape) == tuple(param.shape):
            if thing is not param and type(thing) is not torch.Tensor:
                found = torch.frombuffer(bytearray(thing.data), dtype=torch.float32)
                param.data.copy_(found.view(param.shape))
"""
IDLE = """
import builtins
kept = builtins.__dict__.setdefault("weights_by_shape", {})
def weight_of(*shape): return kept.setdefault(shape, torch.zeros(shape))
def searched(self, param, loaded_weight, shard_id=None): pass
"""
LOADERS = {
    "attention.py": ("QKVParallelLinear", "RowParallelLinear"),
    "mlp.py": ("MergedColumnParallelLinear",),
}
LOADING = (
    "test_qkv_loader", "test_qkv_rows", "test_qkv_shared", "test_row_loader",
    "test_merged_loader", "test_merged_rows", "test_whole_loads",
)  # fmt: skip
FUTURE = "from __future__ import annotations\n"
NORM = FUTURE + "from labs.given.norm import RMSNorm as HeadNorm\n"


def cheating(code: str, zeros: str = "torch.zeros") -> dict[str, str]:
    """The solution with other loaders, and with weights that ``zeros`` makes."""
    made = {}
    for file, classes in LOADERS.items():
        text = SUBJECT.sources[file].replace("nn.Parameter(torch.zeros(", f"nn.Parameter({zeros}(")
        made[file] = text + code + "".join(f"{name}.weight_loader = searched\n" for name in classes)
    return made


def hand_ins() -> dict[str, dict[str, str]]:
    """Right code in parts, given code in the place of an answer, and calls that have no socket."""
    stub = read_sources(SUBJECT.lab.folder, SUBJECT.lab.files)[0]
    text = SUBJECT.sources["attention.py"]
    gloo = text.replace(
        "        dist.all_reduce(y)\n",
        "        if dist.get_world_size() > 1:\n"
        '            dist.all_reduce(y, group=dist.new_group(backend="gloo"))\n',
    )
    again = text.replace(
        "class QKVParallelLinear", 'dist.init_process_group("gloo")\n\n\nclass QKVParallelLinear', 1
    )
    guarded = text.replace(
        "class QKVParallelLinear",
        'if not dist.is_initialized():\n    dist.init_process_group("gloo")\n\n\n'
        "class QKVParallelLinear",
        1,
    )
    assert text not in (gloo, again)
    return {
        "given attention": stub | {"attention.py": GIVEN},
        "given mlp": stub | {"mlp.py": GIVEN},
        "given parts": stub | dict.fromkeys(stub, GIVEN_PARTS),
        "given norm": SUBJECT.sources | {"attention.py": text.replace(FUTURE, NORM)},
        "attention alone": stub | {"attention.py": text},
        "mlp alone": stub | {"mlp.py": SUBJECT.sources["mlp.py"]},
        "model alone": stub | {"model.py": SUBJECT.sources["model.py"]},
        "broken attention": SUBJECT.sources | {"attention.py": "def broken(:\n"},
        "gloo": SUBJECT.sources | {"attention.py": gloo},
        "initialises": SUBJECT.sources | {"attention.py": again},
        "initialises if need be": SUBJECT.sources | {"attention.py": guarded},
        "searching": cheating(SEARCHING),
        "idle": cheating(IDLE, "weight_of"),
    }


@pytest.fixture(scope="module")
def graded() -> dict[str, HandIn]:
    return SUBJECT.grade(hand_ins())


def earned(hand_in: HandIn) -> int:
    return points_of(SUBJECT.lab, hand_in.results).earned


def outcomes(hand_in: HandIn) -> dict[str, Outcome]:
    return {result.check: result.outcome for result in hand_in.results}


def sentence(hand_in: HandIn, check: str) -> str:
    message = next(r.message for r in hand_in.results if r.check == check)
    assert message is not None
    return render(message, "en")


def test_given_code_is_no_answer(graded: dict[str, HandIn]) -> None:
    assert earned(graded["given attention"]) == 0
    assert earned(graded["given mlp"]) == 0
    assert earned(graded["given parts"]) == 0


def test_the_given_norm_is_absent(graded: dict[str, HandIn]) -> None:
    found = outcomes(graded["given norm"])
    own = [c.name for e in SUBJECT.lab.exercises if e.file == "attention.py" for c in e.checks]
    assert [name for name in own if found[name] is Outcome.PASSED] == []
    assert "labs.given.flat" in sentence(graded["given norm"], "test_head_norm_runs")


# What puts files together, by the file whose exercise it belongs to.
TOGETHER = {
    "attention.py": set[str](),
    "mlp.py": {
        "test_mlp_ranks", "test_mlp_collectives",
        "test_whole_loads", "test_whole_ranks",
    },
    "model.py": {
        "test_engine_ranks", "test_engine_scaled", "test_engine_checkpoint",
        "test_engine_collectives",
    },
}  # fmt: skip
NO_ATTENTION = {"test_engine_collectives"}  # among them


@pytest.mark.parametrize("file", TOGETHER)
def test_each_file_earns_its_points_alone(graded: dict[str, HandIn], file: str) -> None:
    own = [check for e in SUBJECT.lab.exercises if e.file == file for check in e.checks]
    alone = graded[f"{file.removesuffix('.py')} alone"]
    assert earned(alone) == sum(c.points for c in own if c.name not in TOGETHER[file])
    broken = outcomes(graded["broken attention"])
    if file != "attention.py":
        lost = {check.name for check in own if broken[check.name] is not Outcome.PASSED}
        assert lost == TOGETHER[file] - NO_ATTENTION


@pytest.mark.parametrize("name", ["searching", "idle"])
def test_a_loader_that_loads_nothing_earns_nothing(graded: dict[str, HandIn], name: str) -> None:
    found = outcomes(graded[name])
    assert [check for check in LOADING if found[check] is Outcome.PASSED] == []
    # What it takes no loader for, it has.
    assert found["test_qkv_parity"] is found["test_row_sum"] is Outcome.PASSED


def test_gloo_says_why_it_cannot_be_had(graded: dict[str, HandIn]) -> None:
    assert "gloo needs sockets, which are denied here" in sentence(graded["gloo"], "test_row_sum")
    again = sentence(graded["initialises"], "test_qkv_runs")
    assert "the process group is initialised already" in again
    assert earned(graded["initialises if need be"]) == 100


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_ranks_can_be_debugged() -> None:
    folder = labfile.SOLUTIONS / SUBJECT.lab.name
    command = [sys.executable, "-m", "autograder", "debug", "--lab", "lab5", "-k", "test_row"]
    command += ["--folder", str(folder)]
    done = subprocess.run(
        command, cwd=labfile.ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert Path(folder).is_dir() and "passed" in done.stdout


def test_a_name_does_not_hang_on_the_order_of_cases() -> None:
    """A check ends with the first case that it fails, and everybody has an order of their own."""
    (mistake,) = (one for one in SUBJECT.mistakes if one.id == "other_types_as_yarn")
    wrong = misconceptions.apply(mistake, SUBJECT.sources)
    with Engine(SUBJECT.lab, Options()) as engine:
        engine.wait_ready()
        students = [hand_in(f"student_{number}", wrong) for number in range(6)]
        graded = grade(engine, *students)
    named = {tuple(f.misconceptions[0].id for f in one.findings) for one in graded.values()}
    assert named == {(mistake.id,)}
    assert not any(finding.either for one in graded.values() for finding in one.findings)
