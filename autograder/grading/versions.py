"""Which releases graded: written into every report."""

from __future__ import annotations

import platform
from importlib import metadata

PACKAGES = ("torch", "numpy", "pytest", "pytest-timeout")


def versions() -> dict[str, str]:
    """Releases of Python, of the packages that grade, and of this project."""
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in ("qwen3-labs", *PACKAGES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
