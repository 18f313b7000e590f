"""The secret that hidden cases are drawn from: given, or made once per output folder."""

from __future__ import annotations

import hashlib
import os
import secrets
from importlib import metadata
from pathlib import Path

from autograder.course.labfile import ROOT, SOLUTIONS

CHECK = ".secret-check"  # a hash of the secret, to know it again
NAME = "secret"  # in the folder of a class, where nobody has named one
VARIABLE = "AUTOGRADER_SECRET"


class SecretError(ValueError):
    """The secret cannot be read; the text names the file and the mend."""


def find(secret_file: Path | None, out: Path, *, again: bool = False) -> bytes:
    """The secret: of ``--secret-file``, of the environment, of ``OUT/secret``, or a new one.

    A new one is written to ``OUT/secret`` with mode 600, so that a second run over the same
    folder asks the same questions.

    Args:
        secret_file: what the instructor has named.
        out: the folder that a class is graded into; which secret it was is remembered there.
        again: this run adds to what was graded before, so the secret has to be that one.

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
    with open(os.open(out / CHECK, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(digest + "\n")
    return key


def given(secret_file: Path | None) -> bool:
    """Whether somebody has named a secret, so that none is made."""
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
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def digest_of_cases(lab: str, secret: bytes) -> str:
    """Name of a cache entry: changes with the secret and with whatever makes the cases."""
    state = hashlib.sha256(secret)
    makers = [
        *(SOLUTIONS / lab / "cases").glob("*.py"),
        *(ROOT / "labs" / "given").glob("*/*.json"),
    ]
    makers += [ROOT / "autograder" / "sandbox" / "wire.py"]
    makers += (ROOT / "autograder" / "reference").glob("*.py")
    for path in sorted(makers):
        state.update(path.read_bytes())
    state.update(metadata.version("torch").encode())  # another release draws other numbers
    return state.hexdigest()[:16]
