"""Changes to sources of hand-ins: of records of archives, names, texts, and what lies where."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from tests.fuzz.archives import CENTRAL, END, END64, LOCAL, PACKERS, UTF8, Member, Zip
from tests.fuzz.changes import change_bytes, change_tree, noise, odd
from tests.fuzz.sources import TEXTS, Node, Source, Special, Tar, blob

MAX_SOURCE = 1 << 20
NAMES = (
    "../attention.py", "/attention.py", "..\\..\\mlp.py", "C:\\attention.py", "a\nb.py", "a\0b.py",
    "\u202eyp.noitnetta", "Attention.py", "attention (1).py", "attention-1.py", "attention.py.txt",
    "attention.ipynb", "mlp.py/", "mlp.py/x", "./mlp.py", "x//mlp.py", "a/b/c/d/mlp.py", ".mlp.py",
    "__MACOSX/mlp.py", "CON", "aux.py", "", ".", "..", " ", "x" * 250, "旋" * 80, "mlp.py ",
    "mlp。py", "lab2.zip", "x.tar", "-rf", "~", "$HOME", "%s{0}", "<b>", "｜", "e\u0301", "\u00e9",
    "ﬁle", "ＭＬＰ.py",
)  # fmt: skip
STUDENTS = (
    "alice", "王伟", "王 伟 (2)", "alice_123_456_attention", "O'Brien", "a", "CON", "nul.txt", "-x",
    "Alice", "ALICE", "ﬁ", "fi", "x" * 120, "旋" * 60, "a\nb", "\u202eevil", "secret", "class.json",
    "...", "a.", " ", "\udcc4\udce3", "_", "grades.csv", "ａlice", "İ", "ß", "SS", "e\u0301", "é",
)  # fmt: skip
ENCODINGS = (
    "utf-8-sig", "gbk", "gb18030", "big5", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252",
    "shift_jis",
)  # fmt: skip
COOKIES = (
    "utf-8", "gbk", "latin-1", "cp1252", "punycode", "rot13", "hex", "utf-16", "unicode_escape",
    "idna", "utf-7", "zlib", "mbcs", "undefined", "\u00e9", "x" * 300, "utf-8-sig", "big5",
    "iso2022_kr",
)  # fmt: skip
YAML = (
    "&a [*a]", "!!binary x", "!ruby/object:File {}", "!!python/object/apply:os.getpid []", "'", "[",
    "9" * 5000, "2026-99-99", "2026-02-30 25:61:61", "- - - -", "<<: *b", "? {a: b}", "1e999", "~",
    "{" * 500, ".nan", "0o9", "::", "\ud800", "- 2021-01-01", "!!timestamp x", "!!set {a}", "%TAG",
)  # fmt: skip


def _places(tree: dict[str, Node]) -> Iterator[tuple[dict[str, Node], str]]:
    for name, node in tree.items():
        yield tree, name
        if isinstance(node, dict):
            yield from _places(node)


def _pick(source: Source, dice: random.Random, *kinds: type) -> tuple[dict[str, Node], str] | None:
    found = [(h, n) for h, n in _places(source.tree) if isinstance(h[n], kinds or object)]
    return dice.choice(found) if found else None


def _record(source: Source, dice: random.Random) -> None:
    """A field of a record of a zip."""
    place = _pick(source, dice, Zip)
    if place is None:
        return _contents(source, dice)
    packed: Zip = place[0][place[1]]
    odd = dice.choice((
        0, 1, 2, 3, 9, 14, 20, 63, 99, 0x7F, 0xFF, 0x800, 0x801, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF,
        0xA1FF0000, 0x11FF0000, 0x41FF0010, 0x10, dice.getrandbits(32), 1 << 40, (1 << 64) - 1,
    ))  # fmt: skip
    if not packed.members or dice.randrange(4) == 0:
        packed.end[dice.choice(list(END))] = odd
        return None
    member = dice.choice(packed.members)
    action = dice.randrange(10)
    if action < 3:
        member.local[dice.choice(list(LOCAL))] = odd
    elif action < 6:
        member.central[dice.choice(list(CENTRAL))] = odd
    elif action == 6:
        packed.end64 = {dice.choice(list(END64)): odd}
        packed.end[dice.choice(list(END))] = 0xFFFFFFFF
    elif action == 7:
        sizes = odd.to_bytes(8, "little") * dice.randrange(4)
        lengths = (len(sizes), len(sizes), 0, 0xFFFF)
        head = dice.choice((1, 0x7075, 0x9901)).to_bytes(2, "little")
        member.extra = head + dice.choice(lengths).to_bytes(2, "little") + sizes
        if dice.randrange(2):
            member.central[dice.choice(("size", "packed", "offset"))] = 0xFFFFFFFF
    elif action == 8:
        member.flags = odd % (1 << 16)
        member.method = dice.choice((0, 8, 9, 12, 14, 93, 95, odd % 100))
    else:
        packed.comment, member.comment = noise(dice) * 20, noise(dice)
        packed.before = noise(dice) if dice.randrange(2) else b""
    return None


def _member(source: Source, dice: random.Random) -> None:
    """A name in a zip, in some encoding; a member twice, or one more."""
    place = _pick(source, dice, Zip)
    if place is None:
        return _rename(source, dice)
    packed: Zip = place[0][place[1]]
    name = dice.choice(NAMES).encode(dice.choice(("utf-8", "gbk", "utf-16-le")), "replace")
    action = dice.randrange(6)
    if not packed.members or action == 0:
        packed.members.append(Member(name, TEXTS["mlp.py"].encode(), flags=dice.choice((0, UTF8))))
        return None
    member = dice.choice(packed.members)
    if action == 1:
        member.name = name
    elif action == 2:
        member.local_name = name
    elif action == 3:
        packed.members.append(member)
    elif action == 4:
        member.central["external"] = dice.choice((0o120777, 0o010644, 0o040755, 0o020644)) << 16
    else:
        packed.members.remove(member)
    return None


def _contents(source: Source, dice: random.Random) -> None:
    """The text of a file: its encoding, its declaration, its bytes, its size."""
    place = _pick(source, dice, bytes, Zip, Tar)
    if place is None:
        return
    node = place[0][place[1]]
    if isinstance(node, Zip):
        if node.members:
            member = dice.choice(node.members)
            member.data = _written(member.data, dice)
    elif isinstance(node, Tar):
        if node.members:
            name = dice.choice(list(node.members))
            node.members[name] = _written(node.members[name], dice)
    else:
        place[0][place[1]] = _written(node, dice)


def _written(data: bytes, dice: random.Random) -> bytes:
    action = dice.randrange(8)
    text = data.decode("utf-8", "replace")
    if action == 0:
        return text.encode(dice.choice(ENCODINGS), "replace")
    if action == 1:
        cookie = f"# -*- coding: {dice.choice(COOKIES)} -*-\n".encode()
        return b"\n" * dice.randrange(3) + cookie + text.encode(dice.choice(ENCODINGS), "replace")
    if action == 2:
        return data.replace(b"\n", dice.choice((b"\r\n", b"\r", b"\x0c", b"\xe2\x80\xa8")))
    if action == 3:
        start = dice.choice((b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"PK\3\4", b"\x1f\x8b"))
        return start + data
    if action == 4 and dice.randrange(8) == 0:
        return data + b"#" * (MAX_SOURCE - len(data) + dice.randrange(3))
    if action == 5:
        return noise(dice)
    return change_bytes(data, dice)


def _rename(source: Source, dice: random.Random) -> None:
    """The name of a file or folder on disk."""
    place = _pick(source, dice)
    if place is None:
        return
    holder, name = place
    other = dice.choice(NAMES + STUDENTS) + dice.choice(("", "", ".zip", ".tgz", ".py"))
    holder[other] = holder.pop(name)


def _structure(source: Source, dice: random.Random) -> None:
    """What lies where: links, FIFOs, folders for files, levels more or less, things beside."""
    place = _pick(source, dice)
    if place is None:
        return
    holder, name = place
    node = holder[name]
    action = dice.randrange(8)
    if action == 0:
        targets = ("attention.py", "/etc/passwd", "..", name, "nowhere", "\udcff")
        holder[name] = Special(dice.choice(targets))
    elif action == 1:
        holder[name] = Special(None)
    elif action == 2:
        holder[name] = {} if dice.randrange(2) else {name: node}
    elif action == 3:
        holder[f"{name}-{dice.randrange(3)}"] = node
    elif action == 4:
        holder[dice.choice(("attention.py", "mlp.py", "x.zip", ".git", "a.ipynb"))] = node
    elif action == 5:
        del holder[name]
    elif action == 6 and isinstance(node, dict):
        holder.update(node)
    else:
        holder[name] = {"a": {"b": {name: node}}}


def _raw(source: Source, dice: random.Random) -> None:
    """Bytes of an archive, or of a notebook."""
    place = _pick(source, dice, Zip, Tar, bytes)
    if place is not None:
        place[0][place[1]] = change_bytes(blob(place[0][place[1]]), dice)


def _tar(source: Source, dice: random.Random) -> None:
    """A field of a header of a tar, or a name in it."""
    place = _pick(source, dice, Tar)
    if place is None:
        return _raw(source, dice)
    packed: Tar = place[0][place[1]]
    action = dice.randrange(4)
    if action == 0 and packed.members:
        name = dice.choice(list(packed.members))
        packed.members[dice.choice(NAMES).encode("utf-8", "replace")] = packed.members.pop(name)
        packed.pax = False
    elif action == 1:
        packed.kind = dice.choice(list(PACKERS))
    else:
        packed.seed, packed.pax = dice.getrandbits(32), False
    return None


def _data(source: Source, dice: random.Random) -> None:
    """A field of a notebook's JSON, or a line of an export's YAML."""
    found = [(h, n) for h, n in _places(source.tree) if n.endswith((".ipynb", ".yml", ".txt"))]
    if not found:
        return _contents(source, dice)
    holder, name = dice.choice(found)
    data = holder[name]
    if not isinstance(data, bytes):
        return None
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        lines = data.decode("utf-8", "replace").split("\n")
        at = dice.randrange(len(lines))
        value = dice.choice((*YAML, str(odd(dice))[:300]))
        lines[at] = dice.choice((value, lines[at].partition(": ")[0] + ": " + value))
        holder[name] = "\n".join(lines).encode("utf-8", "replace")
    else:
        change_tree(tree, dice)
        holder[name] = json.dumps(tree).encode()
    return None


CHANGES: tuple[Callable[[Source, random.Random], None], ...] = (
    _record, _record, _member, _contents, _rename, _structure, _raw, _tar, _tar, _data, _data,
)  # fmt: skip


def change(source: Source, dice: random.Random) -> None:
    """Make one change in place."""
    dice.choice(CHANGES)(source, dice)
