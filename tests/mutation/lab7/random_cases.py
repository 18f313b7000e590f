"""Random cases of lab 7, from all over what its contract allows.

Numbers of blocks are free, so no answer tells them: only how many there are, and what they hold.
"""

from __future__ import annotations

from tests.mutation.lab7 import codes, pages, serving

PARTS = {"attention": pages.PARTS, "mlp": codes.PARTS, "engine": serving.PARTS}
