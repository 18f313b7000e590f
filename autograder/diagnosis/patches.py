"""One known mistake as a patch of the reference solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autograder.course.records import Text


class MisconceptionError(ValueError):
    """The list, or a patch, is wrong; the text names file, entry, key and the mend."""


@dataclass(frozen=True)
class Patch:
    """Replace ``old``, which stands in the file exactly once, by ``new``."""

    old: str
    new: str


@dataclass(frozen=True)
class Entry:
    """One way to make a known mistake.

    ``class_name`` (``class`` in the file) is shared by entries with equal outputs: more than
    the class cannot be told from numbers. Of the ``families`` at least one must fail.
    ``source`` is the paper or issue where it bit, or empty.
    """

    id: str
    source_ids: tuple[str, ...]
    group: str
    class_name: str
    file: str
    families: tuple[str, ...]
    name: Text
    sees: Text
    hint: Text
    source: str
    patches: tuple[Patch, ...]


def apply(entry: Entry, sources: Mapping[str, str]) -> dict[str, str]:
    """The reference solution with this mistake in it.

    Args:
        entry: what to put in.
        sources: text of the reference solution by file name; it is not changed.

    Returns:
        All of ``sources``, one of them patched; patches are applied in their order.

    Raises:
        MisconceptionError: the file is absent, or an ``old`` does not stand there exactly once.
    """
    where = f"{entry.file}: entry {entry.id}"
    if entry.file not in sources:
        known = ", ".join(sorted(sources)) or "none"
        raise MisconceptionError(f"{where}: file: not among the sources ({known})")
    text = sources[entry.file]
    for number, patch in enumerate(entry.patches, start=1):
        times = text.count(patch.old)
        if times != 1:
            raise MisconceptionError(
                f"{where}: patch {number}: old: must stand in the file exactly once, but stands "
                f"there {times} times; copy it from the present solution: {patch.old!r}"
            )
        text = text.replace(patch.old, patch.new)
    return {**sources, entry.file: text}
