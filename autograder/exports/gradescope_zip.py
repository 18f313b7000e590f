"""The autograder zip for Gradescope: ``setup.sh``, ``run_autograder`` and a copy of what grades.

Layout (gradescope/autograder_samples: docs/specs.md): both scripts at the root; everything lands in
``/autograder/source``. Beside them ``qwen3-labs/`` (the code, one lab, the recipes of its hidden
cases), ``secret``, ``settings.json``, and ``not_graded.json`` for when not even Python starts.
Equal sources, settings and secret give equal bytes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from autograder.course.records import Lab
from autograder.exports import gradescope, gradescope_settings
from autograder.exports.gradescope_settings import SETTINGS, Settings

CODE = "qwen3-labs"
SCRIPTS = Path(__file__).parent / "gradescope_scripts"
RUNNABLE = ("setup.sh", "run_autograder")
_INSTALLED = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE")
_CODE = (".py", ".toml", ".j2")
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold


def contents(root: Path, lab: Lab, settings: Settings, secret: bytes) -> dict[str, bytes]:
    """Every file of the zip by its path, in order.

    Args:
        root: the checkout.
        lab: the lab that is graded.
        settings: how.
        secret: what hidden cases are drawn from.
    """
    files = {name: (SCRIPTS / name).read_bytes() for name in RUNNABLE}
    files["secret"] = secret + b"\n"
    files[SETTINGS] = gradescope_settings.text_of(settings).encode()
    ours = gradescope.text_of(gradescope.not_graded(lab, settings.language))
    files["not_graded.json"] = ours.encode()
    for path in sources(root, lab, hidden=True):
        files[f"{CODE}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return dict(sorted(files.items()))


def packed(files: dict[str, bytes]) -> bytes:
    """The zip; the scripts are executable in it, and the secret is its owner's."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, blob in files.items():
            entry = zipfile.ZipInfo(path, _TIME)
            mode = 0o755 if path in RUNNABLE else 0o600 if path == "secret" else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3  # Unix, whatever machine writes it
            archive.writestr(entry, blob, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def sources(root: Path, lab: Lab, *, hidden: bool) -> Iterator[Path]:
    """The autograder without what authors do, the lab, and what its hidden cases are made of."""
    yield from (root / name for name in _INSTALLED)
    for path in _files(root / "autograder"):
        inside = path.relative_to(root / "autograder").parts[0]
        if path.suffix in _CODE and inside != "authoring":
            yield path
    yield root / "labs" / "__init__.py"
    yield from _files(root / "labs" / "given")
    yield from _files(lab.folder)
    if hidden:
        solutions = root / "solutions" / lab.name
        yield from _files(solutions / "cases")
        yield from sorted(solutions.glob("*.bank"))


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder but hidden ones and what Python leaves behind."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
            yield path
