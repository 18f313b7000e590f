"""Notebooks, written without a library: the tools read them in environments of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def code(source: str, name: str = "code", metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """A code cell that was not run yet."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": metadata or {},
        "outputs": [],
        "source": source,
    }


def written(cells: Sequence[dict[str, Any]]) -> str:
    """The text of a Python notebook (format 4.5) with these cells."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    told = {"kernelspec": kernel, "language_info": {"name": "python"}}
    book = {"cells": list(cells), "metadata": told, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1)
