"""``python -m tests.fuzz``: everything in full; the last line counts."""

from __future__ import annotations

import sys

from tests.fuzz.targets import enough, fuzz_all

if __name__ == "__main__":
    tally = fuzz_all()
    print(tally.line)
    sys.exit(0 if enough(tally) and not tally.errors else 1)
