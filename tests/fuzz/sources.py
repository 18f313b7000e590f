"""Sources of hand-ins of lab 2 as course systems and students make them, in every packing."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.archives import PACKERS, UTF8, Member, Zip, tar

TEXTS = {
    "attention.py": "# 注意力\nimport torch\n\n\ndef rotate_half(x):\n    return x\n",
    "mlp.py": "def count(config):\n    return {'总数': 1}\n" * 5,
}
METADATA = """---
submission_101:
  :submitters:
  - :name: 王伟
    :sid: '2021001'
    :email: w@example.org
  :created_at: 2026-03-01 09:30:00.000000000 +08:00
  :score: 0.0
submission_102:
  :submitters:
  - :name: Ada Lovelace
    :sid: a2
    :email: ada@example.org
  - :name: Grace
    :sid: g3
    :email:
  :created_at: 2026-03-02 10:00:00 Z
  :history:
  - :id: 7
    :created_at: 2026-03-01 10:00:00 Z
"""
Node = Any  # bytes, a Zip, a Tar, a dict of nodes by name, or a Special


@dataclass(frozen=True)
class Special:
    """What is neither a file nor a folder: a link to somewhere, a FIFO."""

    target: str | None


@dataclass
class Tar:
    """A tar of plain files; ``seed`` draws a field of a header that lies."""

    members: dict[bytes, bytes]
    kind: str = "tar"
    seed: int | None = None
    pax: bool = False

    def blob(self) -> bytes:
        """The archive's bytes."""
        if self.pax:
            return PACKERS[self.kind](_pax(self.members))
        return PACKERS[self.kind](tar(self.members, self.seed))


@dataclass
class Source:
    """What is put on disk: names and nodes below a folder, or one node called ``name``."""

    tree: dict[str, Node]
    name: str = ""


def blob(node: Node) -> bytes:
    """The bytes of a file or an archive."""
    return node.blob() if isinstance(node, (Zip, Tar)) else node  # type: ignore[no-any-return]


def _pax(members: dict[bytes, bytes]) -> bytes:
    """With extended headers, as Python and macOS write them, and a long name of GNU's."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, data in members.items():
            member = tarfile.TarInfo(name.decode())
            member.size = len(data)
            member.pax_headers = {"comment": "旋转", "mtime": "1.5"}
            packed.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def files() -> dict[str, Node]:
    """The lab's files."""
    return {name: text.encode() for name, text in TEXTS.items()}


def zipped(prefix: str = "", encoding: str = "utf-8", flags: int = UTF8, method: int = 8) -> Zip:
    """The lab's files as a zip."""
    named = [((prefix + name).encode(encoding), data) for name, data in files().items()]
    return Zip([Member(name, data, method, flags) for name, data in named])


def tarred(kind: str = "tar", prefix: str = "", *, pax: bool = False) -> Tar:
    """The lab's files as a tar, packed or not."""
    return Tar({(prefix + n).encode(): d for n, d in files().items()}, kind, pax=pax)


def notebook(*, version: int = 4) -> bytes:
    """A notebook whose cells write the lab's files."""
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# 说明"]}]
    for name, text in TEXTS.items():
        source = [f"%%writefile {name}\n", *text.splitlines(keepends=True)]
        code = {"cell_type": "code", "metadata": {}, "outputs": []}
        if version == 4:
            cells.append(code | {"execution_count": None, "source": source})
        else:
            cells.append(code | {"language": "python", "input": source, "collapsed": False})
    if version == 4:
        tree: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    else:
        sheets = [{"cells": cells, "metadata": {}}]
        tree = {"worksheets": sheets, "metadata": {}, "nbformat": 3, "nbformat_minor": 0}
    return json.dumps(tree).encode()


def _loose(*people: str) -> dict[str, Node]:
    """Loose files, each with a person in front of its name."""
    return {f"{who}{name}": data for who in people for name, data in files().items()}


def _inside(*names: str, deep: int = 1) -> Zip:
    """A zip with a zip per name in it, each in ``deep`` zips."""
    members = []
    for name in names:
        inner = zipped().blob()
        for _ in range(deep - 1):
            inner = Zip([Member(b"again.zip", inner, 0)]).blob()
        members.append(Member(f"{name}.zip".encode(), inner, 0))
    return Zip(members)


BASES: list[Callable[[], Source]] = [
    lambda: Source({"alice": files()}, "alice"),
    lambda: Source({"alice.zip": zipped()}, "alice.zip"),
    lambda: Source({"alice.zip": zipped("lab2/", method=0)}, "alice.zip"),
    lambda: Source({"alice.zip": zipped("实验/", "gbk", 0)}, "alice.zip"),
    lambda: Source({"alice.zip": zipped("a\\b\\", "utf-8", 0)}, "alice.zip"),
    lambda: Source({"alice.tar": tarred("tar", "lab2/")}, "alice.tar"),
    lambda: Source({"alice.tar.gz": tarred("tgz", pax=True)}, "alice.tar.gz"),
    lambda: Source({"alice.zip": _inside("lab2", deep=2)}, "alice.zip"),
    lambda: Source({"alice": files(), "bob.zip": zipped(), "王伟": {"lab2": files()}}),
    lambda: Source({"alice": {"upload.zip": zipped("x/")}, "bob": files()}),
    lambda: Source({f"a{kind[-2:]}.{kind}": tarred(kind) for kind in PACKERS}),
    lambda: Source({"alice": {"work.ipynb": notebook()}, "bob": {"v3.ipynb": notebook(version=3)}}),
    lambda: Source({"alice.zip": Zip([Member(b"work.ipynb", notebook())]), "bob": files()}),
    lambda: Source({"class.zip": _inside("alice", "bob")}, "class.zip"),
    lambda: Source({"class.tgz": _folders_in_a_tar()}, "class.tgz"),
    lambda: Source({"class.zip": Zip(_gradescope_members())}, "class.zip"),
    lambda: Source({"submission_metadata.yml": METADATA.encode(), **_gradescope()}),
    lambda: Source({"submitted": {"alice": {"lab2": files()}, "bob": {"lab2": _timed()}}}),
    lambda: Source(_loose("wangwei_11_201_", "lovelaceada_LATE_12_202_")),
    lambda: Source(
        {"王伟_11_assignsubmission_file": files(), "Ada_12_assignsubmission_file_": files()}
    ),
    lambda: Source({"2021001_王伟_lab2.zip": zipped(), "李娜-2021002.tar.xz": tarred("tar.xz")}),
]


def _folders_in_a_tar() -> Tar:
    members = [(f"class/{who}/{n}".encode(), d) for who in "ab" for n, d in files().items()]
    return Tar(dict(members), "tgz")


def _gradescope() -> dict[str, Node]:
    return {f"submission_{number}": files() for number in (101, 102)}


def _gradescope_members() -> list[Member]:
    found = [Member(b"export/submission_metadata.yml", METADATA.encode())]
    for folder, content in _gradescope().items():
        found += [Member(f"export/{folder}/{n}".encode(), d) for n, d in content.items()]
    return found


def _timed() -> dict[str, Node]:
    return files() | {"timestamp.txt": b"2026-03-01 09:30:00.000000 UTC"}
