"""Files that an attack would change, and how one sees afterwards that it did."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534  # who a worker is where the grader is root


@dataclass(frozen=True)
class Bait:
    """Files that an attack would change."""

    open: Path  # a folder that anybody may write to
    own: Path  # a file that belongs to whoever the worker is

    @classmethod
    def lay(cls, folder: Path, *, nobody: bool) -> Bait:
        """Write them into ``folder``; with ``nobody`` the worker is that user (needs root)."""
        bait = cls(folder / "open", folder / "own.txt")
        bait.open.mkdir()
        for name in ("append", "remove", "rename", "truncate"):
            (bait.open / name).write_text("text")
            (bait.open / name).chmod(0o666)
        bait.open.chmod(0o777)
        bait.own.write_text("own")
        bait.own.chmod(0o644)
        if nobody:
            with contextlib.suppress(OSError, AttributeError):
                os.chown(bait.own, NOBODY, NOBODY)
        return bait

    def changed(self) -> dict[str, dict[str, str]]:
        """By trial and way: what was changed after all, whatever the code says."""
        here = set(os.listdir(self.open))
        size = {name: (self.open / name).stat().st_size for name in here & {"append", "truncate"}}
        own = self.own.stat()
        signs = {
            "changing_files": {
                "create": "created" in here,
                "append": size.get("append") != 4,
                "make_folder": "folder" in here,
                "link": "link" in here,
                "remove": "remove" not in here,
                "rename": "rename" not in here,
                "truncate": size.get("truncate") != 4,
            },
            "changing_modes": {
                "mode": own.st_mode & 0o777 == 0o604,
                "times": int(own.st_mtime) == 0,
            },
            "pickle": {"payload": "pickled" in here},
        }
        return {
            trial: {way: "changed" for way, there in ways.items() if there}
            for trial, ways in signs.items()
        }
