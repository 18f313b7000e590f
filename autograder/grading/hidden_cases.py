"""Hidden cases and cases on real weights, made before a class is graded, and their secret."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from autograder.course import labfile
from autograder.course.atomic import write_atomic
from autograder.course.labfile import GRADER, ROOT, SOLUTIONS
from autograder.grading.judge_process import RealWeights

# The secret that hidden cases are drawn from: given, or made once per output folder.

CHECK = ".secret-check"  # a hash of the secret, to know it again
NAME = "secret"  # in the folder of a class, where nobody has named one
VARIABLE = "AUTOGRADER_SECRET"


class SecretError(ValueError):
    """The secret cannot be read; the text names the file and the mend."""


def find(
    secret_file: Path | None, out: Path, *, again: bool = False, remember: bool = True
) -> bytes:
    """The secret: of ``--secret-file``, of the environment, of ``OUT/secret``, or a new one.

    A new one is written to ``OUT/secret`` with mode 600, so that a second run over the same
    folder asks the same questions.

    Args:
        secret_file: what the instructor has named.
        out: the folder that a class is graded into.
        again: this run adds to what was graded before, so the secret has to be that one.
        remember: this run grades; which secret it was stays known in ``out``.

    Raises:
        SecretError: the file is absent, or too short to be one; another secret than before.
    """
    known = remembered(out) if again else ""
    if secret_file is not None or VARIABLE not in os.environ:
        path = secret_file or out / NAME
        if secret_file is None and not path.exists():
            if known:
                raise _another(out)
            _make(path)
        raw = _long_enough(_read(path), str(path))
    else:
        raw = _long_enough(os.environ[VARIABLE].encode(), f"${VARIABLE}")
    key = hashlib.sha256(raw).digest()
    digest = hashlib.sha256(b"which secret" + key).hexdigest()
    if known and known != digest:
        raise _another(out)
    out.mkdir(parents=True, exist_ok=True)
    if remember and known != digest:
        write_atomic(out / CHECK, digest + "\n", private=True)
    return key


def given(secret_file: Path | None) -> bool:
    """Return whether somebody has named a secret, so that none is made."""
    return secret_file is not None or VARIABLE in os.environ


def named(secret_file: Path | None) -> bytes | None:
    """The text of the secret that an instructor has named; None where there is none.

    Raises:
        SecretError: as :func:`find`.
    """
    if secret_file is not None:
        return _long_enough(_read(secret_file), str(secret_file))
    raw = os.environ.get(VARIABLE)
    return None if raw is None else _long_enough(raw.encode(), f"${VARIABLE}")


def remembered(out: Path) -> str:
    """A hash of the secret that ``out`` was graded with; empty where none is known."""
    check = out / CHECK
    return check.read_text().strip() if check.exists() else ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror}; --secret-file takes a text file") from None


def _long_enough(raw: bytes, where: str) -> bytes:
    if len(raw) < 8:
        raise SecretError(f"{where}: a secret has at least 8 characters, this one {len(raw)}")
    return raw


def _another(out: Path) -> SecretError:
    return SecretError(
        f"{out}: this class was graded with another secret, and other hidden cases would not be "
        "fair; give the --secret-file (or $AUTOGRADER_SECRET) of that time"
    )


def _make(path: Path) -> None:
    """Write a new secret whole or not at all: half of one would stop every later run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, secrets.token_hex(32) + "\n", private=True)


def digest_of_cases(lab: str, secret: bytes) -> str:
    """Name of a cache entry: changes with the secret and with whatever makes the cases."""
    state = hashlib.sha256(secret)
    makers = [
        *(SOLUTIONS / lab / "cases").glob("*.py"),
        *(SOLUTIONS / "reference").glob("*.py"),
        *(ROOT / "labs" / "given").glob("*/*.json"),
    ]
    makers += [GRADER / "wire" / "messages.py"]
    makers += (GRADER / "reference").glob("*.py")
    for path in sorted(makers):
        state.update(path.read_bytes())
    state.update(metadata.version("torch").encode())  # another release draws other numbers
    return state.hexdigest()[:16]


class PrepareError(ValueError):
    """The reference process failed; the text carries its last line."""


def hidden_cases(lab: str, out: Path, secret: bytes) -> Path:
    """File of the hidden cases for this secret, built unless it is there already.

    Raises:
        PrepareError: they could not be built, for instance in a copy without solutions.
    """
    if not (SOLUTIONS / lab / "cases").is_dir():
        raise PrepareError(f"solutions/{lab}/cases: absent; grading needs an instructor's copy")
    path = out / ".cases" / f"{digest_of_cases(lab, secret)}.safetensors"
    if not path.exists():
        _reference(["hidden", lab, str(path)], secret.hex())
    return path


def real_weights(lab: str, out: Path, weights: str) -> RealWeights:
    """Cases on real Qwen3 weights, computed by the reference process.

    Raises:
        PrepareError: the weights are not to be had, or are no dense Qwen3.
    """
    path = out / ".cases" / "real.safetensors"
    said = json.loads(_reference(["real", lab, str(path), weights], ""))
    return RealWeights(path, Path(said["folder"]), tuple(said["prefixes"]), said["mib"])


def _reference(arguments: list[str], first_line: str) -> str:
    """Run the process that knows the answers; returns the last line it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "autograder.reference.build", *arguments],
        input=first_line + "\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode != 0:
        raise PrepareError(f"the cases could not be built: {last or 'no message'}")
    return last


# Cases on real weights for a single hand-in: instructors' copies can make them.


@contextmanager
def of(lab_name: str, weights: str) -> Iterator[RealWeights | None]:
    """Cases of a lab on ``weights`` (a folder or hub id); None after a sentence on stderr.

    What the checks compare with is gone at the end.

    Raises:
        LabError: no lab goes by that name.
    """
    lab = labfile.load(labfile.find_lab(lab_name or "2"))
    with tempfile.TemporaryDirectory(prefix="qwen3-labs-") as folder:  # beside no student's file
        try:
            real = real_weights(lab.name, Path(folder), weights)
        except PrepareError as error:
            print(f"autograder: {error}", file=sys.stderr)
            real = None
        yield real
