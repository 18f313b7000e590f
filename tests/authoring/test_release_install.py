"""``make release-check``: the students' zip on a bare machine, from set-up to 100 in every lab."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from autograder.authoring import release
from autograder.course import labfile
from autograder.course.labfile import ROOT

LABS = [path.parent.name for path in sorted((ROOT / "labs").glob("*/lab.toml"))]
# What a student's shell has; where pip finds packages is the machine's own affair.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "TORCH_INDEX", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Bare:
    """An unzipped copy, and make in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, *arguments: str, language: str = "en") -> str:
        """What a target prints; fails the test if its status is not 0."""
        environment = {
            name: text
            for name, text in os.environ.items()
            if name in KEPT or name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy")
        }
        done = subprocess.run(
            ["make", "--no-print-directory", *arguments],
            cwd=self.folder,
            # Compiled as they are imported: most of what pip installs never is.
            env=environment | {"LAB_LANG": language, "OMP_NUM_THREADS": "1", "PIP_NO_COMPILE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert done.returncode == 0, f"make {' '.join(arguments)}: {done.stdout[-3000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """The zip, unpacked in an empty folder and set up with one command."""
    out = tmp_path_factory.mktemp("release")
    _, packed = release.write(release.contents(ROOT), release.version(ROOT), out / "dist")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(out / "home")
    made = Bare(out / "home" / release.NAME)
    made.make("setup")
    return made


def test_nothing_is_started_and_that_is_explained(bare: Bare) -> None:
    said = bare.make("test")
    assert said.count("not started (") == len(LABS) and "that is fine" in said
    assert "next: make test LAB=1 LAB_LANG=en\n" in said
    for number in range(1, len(LABS) + 1):
        shown = bare.make("test", f"LAB={number}")
        assert "0 of 100 points" in shown and "fine." in shown
        assert "✗" not in shown.replace("✗ failed", "")
    assert "这是正常的" in bare.make("test", "LAB=1", language="zh")


def test_the_machine_is_found_fit(bare: Bare) -> None:
    assert "The labs run here" in bare.make("doctor")


@pytest.mark.parametrize("lab", LABS)
def test_with_the_solutions_filled_in_every_lab_is_complete(bare: Bare, lab: str) -> None:
    number = lab.removeprefix("lab").split("_")[0]
    for name in labfile.load(ROOT / "labs" / lab).files:
        shutil.copy(ROOT / "solutions" / lab / name, bare.folder / "labs" / lab)
    said = bare.make("test", f"LAB={number}")
    assert "100 of 100 points" in said and "All public cases pass" in said
    plain = bare.folder / ".venv" / "bin" / "pytest"
    done = subprocess.run(
        [plain, "-q"], cwd=bare.folder / "labs" / lab, capture_output=True, text=True
    )
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout


def test_report_chat_and_a_new_beginning(bare: Bare) -> None:
    for name in ("attention.py", "mlp.py"):
        place = bare.folder / "labs" / "lab2_qwen3_block"
        shutil.copy(ROOT / "solutions" / "lab2_qwen3_block" / name, place)
    assert len(bare.make("chat", "LAB=2", "PROMPT=Call me").strip()) > 40
    assert "my_report.md" in bare.make("report", "LAB=2")
    assert "100 / 100" in (bare.folder / "my_report.md").read_text(encoding="utf-8")
    assert "kept yours" in bare.make("reset", "LAB=2")
    assert "0 of 100 points" in bare.make("test", "LAB=2")
