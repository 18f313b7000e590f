"""The autograder of qwen3-labs: grades hand-ins safely, fast and fairly."""

from __future__ import annotations


def load_ipython_extension(shell: object) -> None:
    """Give a notebook ``%check``, ``%hint`` and Chinese in charts: ``%load_ext autograder``."""
    # Imported here: whoever imports the autograder for anything else does not pay for it.
    from autograder.cli.notebook import add_magics, draw_chinese

    add_magics(shell)
    draw_chinese()
