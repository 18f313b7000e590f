"""Writes zips and tars by hand, so that any field of any record can lie."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# Width in bytes of each field after the signature (APPNOTE.TXT, 4.3.7, 4.3.12, 4.3.16).
LOCAL = {
    "version": 2, "flags": 2, "method": 2, "time": 2, "date": 2, "crc": 4, "packed": 4, "size": 4,
    "name_length": 2, "extra_length": 2,
}  # fmt: skip
CENTRAL = {
    "made_by": 2, **LOCAL, "comment_length": 2, "disk": 2,
    "internal": 2, "external": 4, "offset": 4,
}  # fmt: skip
END = {
    "disk": 2, "first_disk": 2, "here": 2, "total": 2, "directory_size": 4, "directory_offset": 4,
    "comment_length": 2,
}  # fmt: skip
END64 = {
    "record_size": 8, "made_by": 2, "version": 2, "disk": 4, "first_disk": 4, "here": 8, "total": 8,
    "directory_size": 8, "directory_offset": 8,
}  # fmt: skip
UTF8 = 0x800
_CODES = {2: "H", 4: "I", 8: "Q"}
# Offset and width of fields in a header of ustar (POSIX.1-1988).
TAR = {
    "name": (0, 100), "mode": (100, 8), "size": (124, 12), "time": (136, 12), "checksum": (148, 8),
    "type": (156, 1), "link": (157, 100), "magic": (257, 6), "prefix": (345, 155),
}  # fmt: skip
PACKERS = {"tar": bytes, "tgz": gzip.compress, "tar.bz2": bz2.compress, "tar.xz": lzma.compress}


@dataclass
class Member:
    """A member of a zip; ``local`` and ``central`` hold the fields that are not what they ought."""

    name: bytes
    data: bytes
    method: int = 8
    flags: int = 0
    local: dict[str, int] = field(default_factory=dict)
    central: dict[str, int] = field(default_factory=dict)
    local_name: bytes | None = None
    extra: bytes = b""
    comment: bytes = b""


@dataclass
class Zip:
    """A zip in its parts."""

    members: list[Member]
    end: dict[str, int] = field(default_factory=dict)
    end64: dict[str, int] | None = None
    comment: bytes = b""
    before: bytes = b""

    def blob(self) -> bytes:
        """The archive's bytes."""
        body, directory = bytearray(self.before), bytearray()
        for member in self.members:
            offset = len(body)
            packed = _deflated(member.data) if member.method == 8 else member.data
            name = member.name if member.local_name is None else member.local_name
            common = {
                "version": 20, "flags": member.flags, "method": member.method, "date": 0x5A21,
                "crc": zlib.crc32(member.data), "packed": len(packed), "size": len(member.data),
                "extra_length": len(member.extra),
            }  # fmt: skip
            local = common | {"name_length": len(name)}
            body += _record(b"PK\3\4", LOCAL, local | member.local) + name + member.extra + packed
            central = common | {
                "made_by": 0x314, "name_length": len(member.name), "offset": offset,
                "comment_length": len(member.comment), "external": 0o100644 << 16,
            }  # fmt: skip
            directory += _record(b"PK\1\2", CENTRAL, central | member.central)
            directory += member.name + member.extra + member.comment
        at, count = len(body), len(self.members)
        sizes = {
            "here": count, "total": count, "directory_size": len(directory), "directory_offset": at,
        }  # fmt: skip
        tail = b""
        if self.end64 is not None:
            whole = {"record_size": 44, "version": 45} | sizes
            tail = _record(b"PK\6\6", END64, whole | self.end64)
            tail += b"PK\6\7" + struct.pack("<IQI", 0, at + len(directory), 1)
        end = _record(b"PK\5\6", END, sizes | {"comment_length": len(self.comment)} | self.end)
        return bytes(body + directory) + tail + end + self.comment


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def _record(signature: bytes, widths: Mapping[str, int], values: Mapping[str, int]) -> bytes:
    cut = [values.get(name, 0) % (1 << 8 * width) for name, width in widths.items()]
    return signature + struct.pack("<" + "".join(_CODES[w] for w in widths.values()), *cut)


def tar_header(name: bytes, size: int, dice: random.Random | None = None) -> bytes:
    """A header block of a plain file; with ``dice`` one field of it is something else."""
    block = bytearray(512)
    fields = {
        "name": name[:100], "mode": b"0000644\0", "size": b"%011o\0" % size, "type": b"0",
        "time": b"%011o\0" % 1, "magic": b"ustar\0" + b"00",
    }  # fmt: skip
    for field_, value in fields.items():
        at = TAR[field_][0]
        block[at : at + len(value)] = value
    spoilt = None
    if dice is not None:
        spoilt = dice.choice(list(TAR))
        at, width = TAR[spoilt]
        forms: Sequence[bytes] = (
            b"\xff" * width, b"\0" * width, b"7" * width, b"-1", b" " * width, b"77777777777",
            b"\x80" + b"\xff" * 11, b"../../x", b"/etc/passwd",
            dice.choice(b"0123456789LKxgSVDM").to_bytes(1, "little"),
            dice.randbytes(width), "拖\n\u202e".encode(),
        )  # fmt: skip
        value = dice.choice(forms)[:width]
        block[at : at + len(value)] = value
    if spoilt != "checksum":
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def tar(members: Mapping[bytes, bytes], seed: int | None = None) -> bytes:
    """A tar of plain files; with ``seed`` one field of one header lies."""
    dice = None if seed is None else random.Random(seed)
    chosen = dice.randrange(len(members)) if dice is not None and members else None
    blocks = []
    for place, (name, data) in enumerate(members.items()):
        blocks.append(tar_header(name, len(data), dice if place == chosen else None))
        blocks.append(data + bytes(-len(data) % 512))
    return b"".join(blocks) + bytes(tarfile.RECORDSIZE if members else 1024)
