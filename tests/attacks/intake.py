"""Attacks on the intake and on reports: archives, links, odd texts and names (49 to 68).

Each writes one hand-in into the class folder. What the intake says about it may change; what
must hold is that nothing outside is read or written and that nobody else is touched.
"""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import Attack, Files, Off

Fill = Callable[[str], str]


def _folder(path: Path, files: Files) -> None:
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")


def _zip(path: Path, *members: tuple[zipfile.ZipInfo | str, bytes]) -> None:
    with zipfile.ZipFile(path.with_name(path.name + ".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members:
            archive.writestr(member, data)


def zip_slip(path: Path, files: Files, fill: Fill) -> None:
    """Members that point out of the archive, under absolute and under relative names."""
    out = b"slipped"
    target = fill("$SHARED/slipped")
    names = ("../../shared/slipped", target, "..\\..\\shared\\slipped", "../attention.py")
    _zip(path, *((name, out) for name in names), ("mlp.py", b"import os\n"))


def tar_slip(path: Path, files: Files, fill: Fill) -> None:
    """The same as a tar, with a link in front of the name that it redirects."""
    with tarfile.open(path.with_name(path.name + ".tar.gz"), "w:gz") as archive:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, fill("$SHARED")
        archive.addfile(link)
        for name in ("out/slipped", "../shared/slipped", fill("$SHARED/slipped")):
            member = tarfile.TarInfo(name)
            member.size = 7
            archive.addfile(member, io.BytesIO(b"slipped"))


def links(path: Path, files: Files, fill: Fill) -> None:
    """Links in the place of the lab's files, to what only the grader may read."""
    path.mkdir()
    (path / "attention.py").symlink_to(fill("$NOTES"))
    (path / "mlp.py").symlink_to(fill("$HIDDEN"))


def linked_folder(path: Path, files: Files, fill: Fill) -> None:
    """A folder that is a link to the neighbour's."""
    path.mkdir()
    (path / "src").symlink_to(Path(fill("$SIBLING")).parent)


def specials(path: Path, files: Files, fill: Fill) -> None:
    """A FIFO in the place of one file, a second name of the same in that of the other.

    Hard links to files of others are the kernel's to refuse (fs.protected_hardlinks).
    """
    path.mkdir()
    os.mkfifo(path / "attention.py")
    os.link(path / "attention.py", path / "mlp.py")


def zip_links(path: Path, files: Files, fill: Fill) -> None:
    """A symbolic link as a member of a zip."""
    link = zipfile.ZipInfo("attention.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    _zip(path, (link, fill("$NOTES").encode()), ("mlp.py", files["mlp.py"].encode()))


def bomb(path: Path, files: Files, fill: Fill) -> None:
    """A file that unpacks to 64 MiB of a few bytes."""
    _zip(path, ("attention.py", b" " * (64 << 20)), ("mlp.py", files["mlp.py"].encode()))


def crowd(path: Path, files: Files, fill: Fill) -> None:
    """A hundred thousand members."""
    _zip(path, *((f"{number}.py", b"") for number in range(100_000)))


def lying_sizes(path: Path, files: Files, fill: Fill) -> None:
    """A member that is said to be short, and is not."""
    _zip(path, ("attention.py", b"#" * (8 << 20)), ("mlp.py", files["mlp.py"].encode()))
    archive = path.with_name(path.name + ".zip")
    size = (8 << 20).to_bytes(4, "little")
    archive.write_bytes(archive.read_bytes().replace(size, (64).to_bytes(4, "little")))


def giant(path: Path, files: Files, fill: Fill) -> None:
    """A source file of 64 MiB."""
    _folder(path, files)
    with open(path / "attention.py", "ab") as file:
        file.truncate(64 << 20)


def encodings(path: Path, files: Files, fill: Fill) -> None:
    """GBK comments, CRLF, a byte order mark: accepted; the right solution keeps its points."""
    path.mkdir()
    text = "# 注意力\n" + files["attention.py"]
    (path / "attention.py").write_bytes(text.encode("gbk", "ignore"))
    text = files["mlp.py"].replace("\n", "\r\n")
    (path / "mlp.py").write_bytes(b"\xef\xbb\xbf" + text.encode())


def not_text(path: Path, files: Files, fill: Fill) -> None:
    """NUL bytes in one file, UTF-16 in the other."""
    path.mkdir()
    (path / "attention.py").write_bytes(files["attention.py"].encode() + b"\0")
    (path / "mlp.py").write_bytes(files["mlp.py"].encode("utf-16"))


def mixed_tabs(path: Path, files: Files, fill: Fill) -> None:
    """Tabs and spaces in one block."""
    _folder(path, dict(files) | {"mlp.py": "def f():\n\tif 1:\n        pass\n\treturn 1\n"})


def parentheses(path: Path, files: Files, fill: Fill) -> None:
    """Sources that hurt parsers."""
    # A forbidden name, so that whoever looks for it parses the text too.
    name = "# scaled_dot_product_attention\n"
    _folder(path, {"attention.py": name + "(" * 5000 + ")" * 5000,
                   "mlp.py": name + "x = " + "-" * 400_000 + "1"})  # fmt: skip


def long_string(path: Path, files: Files, fill: Fill) -> None:
    """A formatted string of 340000 fields: minutes for the parser of some Pythons."""
    name = "# scaled_dot_product_attention\n"
    _folder(path, dict(files) | {"mlp.py": name + "f'" + "{x}" * 340_000 + "'"})


def markup(path: Path, files: Files, fill: Fill) -> None:
    """Formulas, terminal codes, HTML and Markdown, wherever a student's text can go."""
    text = dict(files)
    payload = "\x1b]0;owned\x07\x1b[31m<script>alert(1)</script>![](http://x/)\u202e=cmd|' /C'!A0"
    text["attention.py"] += f"""
PAYLOAD = {payload!r}
class Odd(Exception): pass
Odd.__name__ = PAYLOAD[:60]
def rotate_half(x):
    print(PAYLOAD); print("```\\n# heading\\n<img src=x onerror=alert(1)>")
    raise Odd("\\n\\n# " + PAYLOAD)
def repeat_kv(x, n_rep): return PAYLOAD
class Qwen3Attention(Qwen3Attention):
    def __init__(self, config, layer_idx=0):
        super().__init__(config, layer_idx)
        self.register_parameter("<script>" + PAYLOAD.replace(".", "")[:40], torch.nn.Parameter(torch.zeros(1)))
"""  # noqa: E501
    _folder(path.with_name(path.name + " =HYPERLINK(1)<script>"), text)


def odd_names(path: Path, files: Files, fill: Fill) -> None:
    """Folder names with line ends, dots, controls and look-alikes; each is a hand-in."""
    for name in ("\n61-a", "..61-b..", "61-c\x1b[31m", "61-\u0441", "61-c ", "-61-d", "61-\u202ee",
                 "con.61", "61-" + "\u6587" * 60):  # fmt: skip
        _folder(path.with_name(name), files)


def notebook(path: Path, files: Files, fill: Fill) -> None:
    """A notebook with stored outputs and magic lines, and a pickled environment beside it."""
    path.mkdir()
    shell = fill('!touch "$SHARED/magic"')
    source = ["%%bash\n", fill('touch "$SHARED/magic"\n')]
    cell = {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "source": source,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": ["100 of 100"]}],
    }
    data = {"cells": [cell, cell | {"source": [shell]}], "metadata": {}, "nbformat": 4,
            "nbformat_minor": 5}  # fmt: skip
    (path / "attention.ipynb").write_text(json.dumps(data))
    payload = fill("""cbuiltins\neval\n(S'open("$SHARED/unpickled", "w").close()'\ntR.""")
    for name in ("environment.pkl", ".OTTER_LOG"):
        (path / name).write_text(payload)


def hanging_notebook(path: Path, files: Files, fill: Fill) -> None:
    """A cell's first line that a careless expression reads for an hour."""
    path.mkdir()
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": "%%writefile " + " " * 6000 + "'x"}  # fmt: skip
    data = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (path / "attention.ipynb").write_text(json.dumps(data))


def cut_tar(path: Path, files: Files, fill: Fill) -> None:
    """A sparse member whose map goes on, in an archive that does not."""
    info = tarfile.TarInfo("attention.py")
    info.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT)[:512])
    block[482] = 1
    block[148:156] = b"%06o\0 " % (256 + sum(block[:148]) + sum(block[156:]))
    path.with_name(path.name + ".tar").write_bytes(bytes(block) + bytes(100))


# fmt: off
ATTACKS = (
    Attack(49, "names that lead out of a zip", "members are read, never extracted", make=zip_slip,
           off=Off("naive", "file", by="extract_zip")),
    Attack(49, "names and links that lead out of a tar", "members are read, never extracted",
           tag="b", make=tar_slip, off=Off("naive", "file", by="extract_tar")),
    Attack(50, "symbolic links to the grader's files", "no link is followed", make=links,
           off=Off("naive", "canary-3f9c-file", by="follow")),
    Attack(50, "a folder that is a link to a neighbour", "no link is followed", tag="b",
           make=linked_folder, off=Off("naive", "canary-3f9c-sibling", by="follow")),
    Attack(50, "a FIFO, and a hard link to it", "only regular files are opened", tag="c",
           make=specials),
    Attack(50, "a link inside a zip", "only regular files are opened", tag="d", make=zip_links),
    Attack(51, "64 MiB packed into 64 KiB", "bytes are counted while they are unpacked", make=bomb,
           off=Off("naive", "unpacked 67108864", by="unpack")),
    Attack(51, "a hundred thousand members", "members are counted", tag="b", make=crowd),
    Attack(51, "sizes that lie", "bytes are counted while they are unpacked", tag="c",
           make=lying_sizes),
    Attack(52, "a source of 64 MiB", "capped while reading, and named", make=giant,
           off=Off("naive", "read 67108864", by="read")),
    Attack(53, "GBK, CRLF, a byte order mark", "accepted", make=encodings, base="right",
           most="right"),
    Attack(53, "NUL bytes and UTF-16", "named", tag="b", make=not_text),
    Attack(53, "tabs mixed with spaces", "named with its line", tag="c", make=mixed_tabs,
           says="inconsistent use of tabs"),
    Attack(54, "five thousand parentheses, a long chain of signs", "parsed in the worker; named",
           make=parentheses),
    Attack(54, "a formatted string of 340000 fields", "parsed in the worker; a CPU deadline",
           tag="b", make=long_string),
    Attack(60, "formulas, terminal codes, HTML and Markdown", "every text is escaped for its place",
           make=markup, off=Off("naive", "<script>alert", by="escaping")),
    Attack(61, "folder names with line ends, dots, controls, look-alikes",
           "ids follow a strict pattern and stay apart", make=odd_names),
    Attack(62, "a notebook with magic lines, stored outputs, a pickled environment",
           "nothing of it is executed or unpickled", make=notebook,
           off=Off("naive", "file", by="unpickle")),
    Attack(67, "a cell whose first line is six thousand blanks",
           "read in linear time, in a process of its own", make=hanging_notebook),
    Attack(68, "a tar that ends in the map of a sparse member",
           "named as damaged; read in a process of its own", make=cut_tar),
)
# fmt: on
