"""Real weights: any dense Qwen3 folder can be graded against; absent ones are not graded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from autograder.cli.main import main
from autograder.course import labfile
from autograder.course.records import Outcome
from autograder.report.class_file import from_json
from tests.engines import fill

pytestmark = pytest.mark.slow  # optional, and worth no points
LAB = labfile.load(labfile.find_lab("2"))
SOLUTION = labfile.SOLUTIONS / LAB.name
WRONG = labfile.ROOT / "examples" / "submissions" / "dan_tiled_kv_heads"
SECRET = "a secret of real weights"
CHECKS = ("test_attention_real_weights", "test_mlp_real_weights")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other sizes than the checkpoint on board: untied, bfloat16, in several shards."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # two seconds

    config = Qwen3Config(  # type: ignore[call-arg]
        vocab_size=211,
        hidden_size=80,
        intermediate_size=112,
        num_hidden_layers=3,
        num_attention_heads=10,
        num_key_value_heads=2,
        head_dim=12,
        rms_norm_eps=1e-6,
        rope_theta=5_000_000.0,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        attention_bias=False,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    path = tmp_path_factory.mktemp("weights")
    model.save_pretrained(path, max_shard_size="60KB")
    assert len(list(path.glob("*.safetensors"))) > 2
    return path


def grade(source: Path, out: Path, weights: str) -> tuple[int, dict[str, dict[str, Outcome]]]:
    """The status, and the outcomes by student and check."""
    fill(out, LAB.name, SECRET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_SECRET", SECRET)
        options = ["--weights", weights, "--allow-weak-isolation"]
        status = main(["grade", str(source), "--out", str(out), *options])
    record = from_json(json.loads((out / "class.json").read_text(encoding="utf-8")))
    return status, {
        one.student: {result.check: result.outcome for result in one.results}
        for one in record.hand_ins
    }


def test_right_hand_ins_pass_on_real_weights_and_wrong_ones_do_not(
    folder: Path, tmp_path: Path
) -> None:
    for name, source in (("right", SOLUTION), ("wrong", WRONG)):
        shutil.copytree(source, tmp_path / "class" / name)
    status, found = grade(tmp_path / "class", tmp_path / "out", str(folder))
    assert status == 0
    assert {found["right"][name] for name in CHECKS} == {Outcome.PASSED}
    assert found["wrong"]["test_attention_real_weights"] is Outcome.FAILED
    assert found["wrong"]["test_mlp_real_weights"] is Outcome.PASSED


def test_spawned_workers_read_the_weights_themselves(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOGRADER_WORKER", "spawn")
    _, found = grade(SOLUTION, tmp_path, str(folder))
    (outcomes,) = found.values()
    assert {outcomes[name] for name in CHECKS} == {Outcome.PASSED}


def test_absent_weights_are_not_graded_and_cost_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = grade(SOLUTION, tmp_path, str(tmp_path / "nowhere"))
    (outcomes,) = found.values()
    assert {outcomes[name] for name in CHECKS} == {Outcome.NOT_GRADED}
    assert status == 0  # optional: nobody has to look at it
    assert "nowhere" in capsys.readouterr().err


def test_the_expectations_on_real_weights_are_those_of_hugging_face(folder: Path) -> None:
    from autograder.reference.recipes import package_of
    from autograder.worker import real_weights
    from labs.given.config import Qwen3Config as Given
    from solutions.reference import hf

    config = Given.from_json(folder / "config.json")
    assert config.rope_theta == 5_000_000.0
    drafts = package_of(SOLUTION).real_cases(folder)
    for draft in drafts["attention_real"]:
        weights = {
            n: w.float() for n, w in real_weights.read(folder, draft.values["mapped"]).items()
        }
        x = draft.tensors["x"]
        seq = x.shape[1]
        mask = torch.full((seq, seq), torch.finfo(torch.float32).min).triu(1)[None, None]
        got = hf.hf_attention(config, weights, x, mask, torch.arange(seq)).double()
        want = draft.tensors["y"]
        assert (got - want).norm() / want.norm() < 1e-5


def test_a_lab_without_checks_on_real_weights_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.reference import build

    status = build.main(["", "real", "lab3_kv_cache", str(tmp_path / "real"), str(tmp_path)])
    assert status == 1
    assert "lab3_kv_cache has no checks on real weights" in capsys.readouterr().out
