"""Tars, nested archives and whole classes in one archive; whatever is in them, nothing raises."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import resource
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.intake import class_folder, tar
from autograder.intake.listing import find, survey
from autograder.intake.reading import read
from tests.archives import (
    GOOD,
    LAB,
    MIB,
    RIGHT,
    checked,
    class_of,
    every_way,
    header,
    keys,
    laid,
    placed,
    problem,
    taken,
    tarred,
    under,
    zipped,
)

MODES = [("w", "tar"), ("w:gz", "tar.gz"), ("w:gz", "tgz"), ("w:bz2", "tar.bz2"), ("w:xz", "txz")]
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


# One hand-in


@pytest.mark.parametrize(("mode", "suffix"), MODES)
@pytest.mark.parametrize("form", FORMATS)
def test_a_tar_of_every_kind(tmp_path: Path, mode: str, suffix: str, form: int) -> None:
    files = {**under("lab"), "notes.txt": b"x" * 3000, ".git/x": b"", "__MACOSX/attention.py": b""}
    path = placed(tmp_path / f"li.{suffix}", tarred(files, mode=mode, form=form))
    assert taken(path).files == RIGHT
    assert [entry.student for entry in find(path, LAB)] == ["li"]


def test_long_and_chinese_names(tmp_path: Path) -> None:
    deep = "很长的名字" * 30 + "/attention.py"
    for form in FORMATS[1:]:
        path = placed(tmp_path / "li.tar", tarred({deep: b"A = 1\n"}, form=form))
        assert taken(path).files["attention.py"] == "A = 1\n"
    raw = tarred({"AABB/Attention.py": b""}, form=tarfile.USTAR_FORMAT)
    block = bytearray(raw[:512])
    block[:4] = "作业".encode("gbk")
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    path = placed(tmp_path / "gbk.tar", bytes(block) + raw[512:])
    assert "作业/Attention.py" in problem(path)


@pytest.mark.parametrize(
    ("info", "key"),
    [
        (header("attention.py", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "symlink"),
        (header("attention.py", type=tarfile.LNKTYPE, linkname="/etc/passwd"), "hardlink"),
        (header("attention.py", type=tarfile.CHRTYPE, devmajor=1, devminor=5), "special"),
        (header("attention.py", type=tarfile.BLKTYPE), "special"),
        (header("attention.py", type=tarfile.FIFOTYPE), "special"),
        (header("attention.py", type=b"?"), "special"),
        (header("attention.py", type=tarfile.DIRTYPE), "folder"),
        (header("../attention.py"), "outside"),
        (header("/attention.py"), "outside"),
        (header("a/../../attention.py"), "outside"),
        (header("C:/attention.py"), "outside"),
        (header("attention.py", pax_headers={"path": "../attention.py"}), "outside"),
        (header("attention.py", pax_headers={"GNU.sparse.major": "1"}), "sparse"),
        (header("x", pax_headers={"GNU.sparse.name": "attention.py"}), "sparse"),
        (header("attention.py", type=tarfile.GNUTYPE_SPARSE), "sparse"),
    ],
)
def test_what_is_no_ordinary_member_is_named(
    tmp_path: Path, info: tarfile.TarInfo, key: str
) -> None:
    for mode, suffix in MODES[:2]:
        path = placed(tmp_path / f"li.{suffix}", tarred({"mlp.py": b"M = 2\n"}, info, mode=mode))
        assert problem(path).startswith(f"{key}:")
        assert taken(path).files == {"mlp.py": "M = 2\n"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["li.tar", "li.tar.gz"]


def test_headers_without_members_take_no_room(tmp_path: Path) -> None:
    flood = []
    for number in range(60):
        body = b"".join(b"16 %05x=%06x\n" % (number * 4000 + n, n) for n in range(4000))
        flood.append(header("g", type=tarfile.XGLTYPE, size=len(body)).tobuf() + body)
        flood.append(bytes(-len(body) % 512))
    files = {**under("ann"), **under("bob")}
    path = placed(tmp_path / "c.tar", b"".join(flood) + tarred(files))
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    submissions = class_of(path)
    assert {who: one.files for who, one in submissions.items()} == {"ann": RIGHT, "bob": RIGHT}
    assert time.process_time() - start < 10
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert sys.platform != "linux" or grown < 16 << 10  # KiB


def test_a_tar_that_is_cut_off_is_damaged(tmp_path: Path) -> None:
    whole = tarred({**under("ann"), "bob/weights.bin": bytes(4096), **under("cat")})
    for name, data in (("a.tar", whole[:4000]), ("b.tar.gz", gzip.compress(whole[:4000]))):
        path = placed(tmp_path / name, data)
        assert problem(path, "").startswith("broken_archive")
        (found,) = class_of(path).values()  # and not ann alone
        assert keys(found.problems.values()) == ["broken_archive"]
    folder = tarred({**under("ann"), **under("cat")}, header("bob", type=tarfile.DIRTYPE))
    for data in (whole[:-1024], folder):
        assert class_of(placed(tmp_path / "c.tar", data))["cat"].files == RIGHT


def test_what_is_only_outside_is_told(tmp_path: Path) -> None:
    files = {**under("ann"), **under("bob"), "cat/../ann/attention.py": b"EVIL = 1\n"}
    for name, data in (("c.zip", zipped(files)), ("c.tar", tarred(files))):
        found = survey(placed(tmp_path / name, data), LAB)
        assert [one.student for one in found.entries] == ["ann", "bob"]
        assert keys(found.remarks) == ["stray_sources"]


def test_a_member_twice_is_ambiguous(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for text in (b"1", b"2"):
            archive.addfile(header("attention.py", size=1), io.BytesIO(text))
    assert problem(placed(tmp_path / "li.tar", data.getvalue())).startswith("ambiguous:")


def sized(info: tarfile.TarInfo, size: int) -> bytes:
    """A header block that claims ``size``, checksum and all."""
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("size", [1 << 20, 1 << 40, (1 << 62) + 1, -1, -512, -(1 << 40)])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, b"S"])
def test_a_size_that_lies_costs_nothing(tmp_path: Path, size: int, kind: bytes) -> None:
    block = sized(header("attention.py", type=kind), size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for packed in (block, gzip.compress(block + bytes(10_000))):
        path = placed(tmp_path / "li.tar", packed)
        start = time.process_time()
        submission = taken(path)
        assert submission.problems
        assert "attention.py" not in submission.files
        assert time.process_time() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_a_sparse_member_of_a_terabyte(tmp_path: Path) -> None:
    block = bytearray(sized(header("attention.py", type=b"S"), 512))
    block[386:482] = b"00000000000\0" * 2 + bytes(72)
    block[483:495] = b"77777777777\0"  # the size it would unpack to
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    path = placed(tmp_path / "li.tar", bytes(block) + bytes(512) + tarred({"mlp.py": b"M = 2\n"}))
    assert problem(path).startswith("sparse: attention.py")
    assert taken(path).files == {"mlp.py": "M = 2\n"}
    block[482] = 1  # a map of holes that goes on for ever
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    path = placed(tmp_path / "map.tar", bytes(block) + b"\1" * (1 << 20))
    assert "attention.py" not in taken(path).files


def test_a_chain_of_headers_is_walked_without_recursion(tmp_path: Path) -> None:
    one = sized(header("x", type=tarfile.XHDTYPE), 10) + b"10 a=bcde\n".ljust(512, b"\0")
    path = placed(tmp_path / "li.tar.gz", gzip.compress(one * 20_000 + tarred(GOOD)))
    assert taken(path).problems.keys() in ({""}, set())
    path = placed(tmp_path / "li.tar", one * 2000 + tarred(GOOD))
    assert taken(path).files == RIGHT


@pytest.mark.parametrize(
    "records", [b"99999 path=x\n", b"0 a=b\n", b"-5 a=b\n", b"x", b"5 a=b", b"13 size=-9\n\0"]
)
def test_broken_pax_records(tmp_path: Path, records: bytes) -> None:
    block = sized(header("x", type=tarfile.XHDTYPE), len(records)) + records.ljust(512, b"\0")
    assert isinstance(taken(placed(tmp_path / "li.tar", block + tarred(GOOD))).problems, dict)


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(16 * MIB)
    tight = tarred({"zeros.bin": zeros, **GOOD}, mode="w:gz")
    assert len(tight) < MIB
    assert problem(placed(tmp_path / "a.tar.gz", tight), "").startswith("too_tight: a.tar.gz")
    assert problem(placed(tmp_path / "a.tar.xz", tarred({"z": zeros}, mode="w:xz")), "").startswith(
        "too_tight"
    )
    for name in ("a.tar.gz", "a.tar.bz2"):
        pack = gzip.compress if name.endswith("gz") else bz2.compress
        assert problem(placed(tmp_path / name, pack(zeros)), "").startswith(
            ("too_tight", "empty", "not_a_zip")
        )
    monkeypatch.setattr("autograder.intake.archives.MAX_UNPACKED_BYTES", 8 * MIB)
    noise = random.Random(1).randbytes(9 * MIB)
    path = placed(tmp_path / "b.tar.gz", tarred({"noise.bin": noise, **GOOD}, mode="w:gz"))
    assert problem(path, "").startswith("too_much")
    # Without packing, what nobody asks for is stepped over.
    assert taken(placed(tmp_path / "b.tar", tarred({"n.bin": noise, **GOOD}))).files == RIGHT


def test_big_members_and_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(1).randbytes(600_000).hex().encode()
    path = placed(tmp_path / "a.tar", tarred({"attention.py": noise, "mlp.py": b""}))
    assert problem(path).startswith("too_big: attention.py")
    monkeypatch.setattr(tar, "MAX_KEPT_BYTES", MIB)
    files = {f"{number}.py": noise[:900_000] for number in range(3)}
    assert problem(placed(tmp_path / "b.tar", tarred({**GOOD, **files})), "").startswith("too_much")


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = tarred({**GOOD, **{f"d/{number}": b"" for number in range(2001)}}, mode="w:gz")
    assert problem(placed(tmp_path / "a.tgz", many), "").startswith("too_many")
    monkeypatch.setattr(tar, "MAX_MEMBERS", 100)
    rubbish = tarred({**{f".git/{number}": b"" for number in range(101)}, **GOOD})
    assert problem(placed(tmp_path / "b.tar", rubbish), "").startswith("too_many")


@pytest.mark.slow
def test_a_million_members(tmp_path: Path) -> None:
    some = lzma.compress(header("x").tobuf() * 10_000, preset=0)
    path = placed(tmp_path / "a.tar.xz", some * 100)  # a hundred streams are one file
    start = time.process_time()
    assert problem(path, "").startswith(("too_many", "too_tight"))
    assert time.process_time() - start < 3
    # A zip whose table claims a million: 46 bytes and a name each.
    central = b"PK\1\2" + bytes(24) + b"\1\0" + bytes(16) + b"x"
    table = central * 1_000_000
    end = b"PK\5\6" + bytes(4) + b"\xff\xff\xff\xff"
    end += len(table).to_bytes(4, "little") + bytes(4) + bytes(2)
    path = placed(tmp_path / "b.zip", table + end)
    start = time.process_time()
    assert problem(path, "").startswith("too_many")
    with pytest.raises(Exception, match="too_many"):
        class_folder.opened(path)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("rounds", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_no_damage_to_a_tar_makes_intake_raise(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(11)
    seen = set()
    for mode, suffix in MODES:
        for form in FORMATS:
            whole = tarred({**GOOD, "很" * 20: b"x" * 2000}, mode=mode, form=form)
            for _ in range(rounds):
                spoiled = bytearray(whole)
                for _ in range(chance.randint(1, 6)):
                    spoiled[chance.randrange(len(spoiled))] = chance.choice((0, 49, 127, 255))
                cut = chance.choice((len(spoiled), chance.randrange(len(spoiled))))
                path = placed(tmp_path / f"li.{suffix}", bytes(spoiled[:cut]))
                seen |= set(keys(taken(path).problems.values()))
    assert {"not_a_zip", "broken_archive"} <= seen


def test_a_tar_that_ends_in_the_map_of_a_sparse_member(tmp_path: Path) -> None:
    whole = bytearray(tarred({}, header("attention.py", type=tarfile.GNUTYPE_SPARSE)))
    whole[482] = 1  # more of the map follows
    whole[148:156] = b"%06o\0 " % (256 + sum(whole[:148]) + sum(whole[156:512]))
    for length in (512, 513, 612, 1023):
        path = placed(tmp_path / "li.tar", bytes(whole[:length]))
        assert problem(path, "").startswith("broken_archive")


def test_several_streams_and_padding_in_one_file(tmp_path: Path) -> None:
    whole = tarred(GOOD)
    parts = gzip.compress(whole[:700]) + gzip.compress(whole[700:]) + bytes(2000)
    assert taken(placed(tmp_path / "li.tar.gz", parts)).files == RIGHT
    cut = gzip.compress(whole)[:-60]
    assert problem(placed(tmp_path / "li.tar.gz", cut), "").startswith("broken_archive")


def test_an_inflow_reads_what_was_packed() -> None:
    data = random.Random(3).randbytes(300_000) + bytes(100_000)
    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress):
        stream = tar.CappedReader(io.BytesIO(pack(data)), "x", 1 << 30)
        assert stream.read(7) == data[:7]
        stream.skip(250_000)
        assert stream.read(1 << 20) == data[250_007:]
        assert stream.read(1) == b""


# Archives in archives


def test_a_zip_of_a_zip(tmp_path: Path) -> None:
    for inner in (zipped(under("lab")), tarred(GOOD, mode="w:gz"), tarred(GOOD)):
        suffix = "zip" if inner[:2] == b"PK" else "tar.gz" if inner[:2] == b"\x1f\x8b" else "tar"
        path = placed(tmp_path / "li.zip", zipped({f"work/up.{suffix}": inner, "readme.txt": b""}))
        assert taken(path).files == RIGHT
        path = placed(tmp_path / "li.tar", tarred({f"up.{suffix}": inner}))
        assert taken(path).files == RIGHT


def test_three_wrappings_are_opened_and_no_more(tmp_path: Path) -> None:
    data = zipped(GOOD)
    for number in range(3):
        data = zipped({f"{number}.zip": data})
    assert taken(placed(tmp_path / "three.zip", data)).files == RIGHT
    deeper = zipped({"3.zip": data})
    assert problem(placed(tmp_path / "four.zip", deeper), "").startswith("nested: 0.zip")


def quine() -> bytes:
    """A zip in a zip in a zip …, 30 deep, with as many beside each as a bomb has."""
    data = zipped({"attention.py": bytes(MIB)})
    for _ in range(30):
        data = zipped({f"{number}.zip": data for number in range(4)})
    return data


def test_a_nested_bomb_is_left_alone(tmp_path: Path) -> None:
    path = placed(tmp_path / "bomb.zip", quine())
    start = time.process_time()
    assert problem(path).startswith(("nested", "too_many_archives"))
    assert time.process_time() - start < 2
    fat = zipped({"inner.zip": bytes(64 * MIB)})
    assert problem(placed(tmp_path / "fat.zip", fat), "").startswith("too_big: inner.zip")


def test_a_file_beside_an_archive_that_holds_the_other(tmp_path: Path) -> None:
    one = laid(
        tmp_path / "li",
        {"attention.py": b"A = 1\n", "mlp.zip": zipped({"mlp.py": b"M = 2\n"}), "x.zip": b"no"},
    )
    assert taken(one).files == RIGHT
    two = laid(
        tmp_path / "bo",
        {"attention.py": b"A", "1.zip": zipped(GOOD), "2.zip": zipped({"mlp.py": b"M = 3\n"})},
    )
    assert problem(two, "mlp.py").startswith("ambiguous: the hand-in holds mlp.py")
    broken = laid(tmp_path / "ann", {"attention.py": b"A = 1\n", "mlp.zip": b"no"})
    assert problem(broken, "mlp.py").startswith("not_a_zip: mlp.zip")


def test_a_link_that_is_called_like_an_archive(tmp_path: Path) -> None:
    placed(tmp_path / "secret.zip", zipped(GOOD))
    folder = laid(tmp_path / "li", {})
    (folder / "work.zip").symlink_to(tmp_path / "secret.zip")
    assert problem(folder, "").startswith("symlink: work.zip")


# A whole class in one archive


def test_a_class_of_folders_in_any_archive(tmp_path: Path) -> None:
    files = {**under("ann"), **under("bob/lab"), **under("王伟"), "grades.xlsx": b"x"}
    for source in every_way(tmp_path, files):
        submissions = class_of(source)
        assert list(submissions) == ["ann", "bob", "王伟"]
        assert all(one.files == RIGHT for one in submissions.values()), source
        assert not any(one.notes for one in submissions.values())
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 6  # nothing was unpacked


def test_a_class_of_archives_in_any_archive(tmp_path: Path) -> None:
    files = {
        "ann.zip": zipped(GOOD),
        "bob.tar.gz": tarred(under("lab"), mode="w:gz"),
        "cat.zip": b"broken",
        "dan/up.zip": zipped({"in.zip": zipped(GOOD)}),
    }
    for source in every_way(tmp_path, files):
        submissions = class_of(source)
        assert list(submissions) == ["ann", "bob", "cat", "dan"]
        assert keys(submissions["cat"].problems.values()) == ["not_a_zip"]
        assert all(submissions[name].files == RIGHT for name in ("ann", "bob", "dan")), source


def test_a_wrapping_folder_is_gone_into(tmp_path: Path) -> None:
    for source in every_way(tmp_path, {**under("all/ann"), **under("all/bob")}):
        assert list(class_of(source)) == ["ann", "bob"]


def test_one_archive_of_one_student_stays_one_hand_in(tmp_path: Path) -> None:
    plain = under("lab2")
    project = {**under("src"), "tests/test_x.py": b"", "docs/a.md": b""}
    for number, files in enumerate((GOOD, plain, project, {"up.zip": zipped(GOOD)})):
        for pack, suffix in ((zipped, "zip"), (tarred, "tar")):
            path = placed(tmp_path / f"li{number}.{suffix}", pack(files))
            assert {name: one.files for name, one in class_of(path).items()} == {
                f"li{number}": RIGHT
            }


def test_what_one_student_does_harms_that_one_only(tmp_path: Path) -> None:
    files = {
        **under("ann"),
        **{f"bob/{number}": b"" for number in range(2001)},
        **under("bob"),
        "cat/attention.py": b"\n" * (2 * MIB),
        "cat/mlp.py": b"M = 2\n",
        "dan.zip": zipped({"x.zip": bytes(40 * MIB)}),
        "../eve/attention.py": b"",
        "fay/../../attention.py": b"",
        "fay/mlp.py": b"M = 2\n",
    }
    for pack, name in ((zipped, "c.zip"), (tarred, "c.tar")):
        submissions = class_of(placed(tmp_path / name, pack(files)))
        assert list(submissions) == ["ann", "bob", "cat", "dan", "fay"]
        assert submissions["ann"].files == RIGHT
        assert keys(submissions["bob"].problems.values()) == ["too_many"]
        assert keys(submissions["cat"].problems.values()) == ["too_big"]
        assert keys(submissions["dan"].problems.values()) == ["too_big"]
        assert keys(submissions["fay"].problems.values()) == ["outside"]


def test_links_at_the_level_of_the_class(tmp_path: Path) -> None:
    extra = header("eve", type=tarfile.SYMTYPE, linkname="ann")
    path = placed(tmp_path / "c.tar", tarred({**under("ann"), **under("bob")}, extra))
    submissions = class_of(path)
    assert keys(submissions["eve"].problems.values()) == ["symlink"]
    assert submissions["ann"].files == RIGHT


def test_an_entry_is_small_plain_data(tmp_path: Path) -> None:
    source = placed(tmp_path / "c.zip", zipped({**under("ann"), **under("bob")}))
    for entry in find(source, LAB):
        sent = pickle.dumps(entry)
        assert len(sent) < 2000
        assert pickle.loads(sent) == entry
    code = (
        "import pickle, sys; from autograder.intake import read; "
        "from tests.archives import LAB; "
        "print(read(pickle.loads(sys.stdin.buffer.read()), LAB).files)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=sent, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode().strip() == str(RIGHT)


@pytest.mark.parametrize("name", ["c.zip", "c.tar", "c.tar.gz"])
def test_a_class_is_read_by_threads_in_any_order(tmp_path: Path, name: str) -> None:
    files: dict[str, bytes] = {}
    for number in range(60):
        files |= under(f"s{number:02}", {**GOOD, "mlp.py": b"M = %d\n" % number})
    data = zipped(files) if name == "c.zip" else tarred(files, mode="w:gz" if "gz" in name else "w")
    entries = find(placed(tmp_path / name, data), LAB)
    random.Random(5).shuffle(entries)
    with ThreadPoolExecutor(4) as pool:
        for entry, one in zip(
            entries, pool.map(lambda each: read(each, LAB), entries), strict=True
        ):
            assert one.files["mlp.py"] == f"M = {int(entry.student[1:])}\n"


def test_a_table_is_read_once_and_a_packed_tar_in_few_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []
    real = class_folder._Tar._walk

    def counted(self: class_folder._Tar) -> object:
        passes.append(1)
        return real(self)

    monkeypatch.setattr(class_folder._Tar, "_walk", counted)
    files: dict[str, bytes] = {}
    noise = random.Random(2).randbytes(8 << 10).hex().encode()
    for number in range(64):
        files |= under(f"s{number:02}", {"attention.py": noise, "mlp.py": b""})
    source = placed(tmp_path / "c.tar.gz", tarred(files, mode="w:gz"))
    assert len(class_of(source)) == 64
    assert len(passes) == 2  # the table, and one window
    passes.clear()
    os.utime(source, ns=(1, 1))  # another file for all we know
    monkeypatch.setattr(class_folder, "WINDOW_BYTES", 16 * len(noise))
    assert all(len(one.files) == 2 for one in class_of(source).values())
    assert 4 <= len(passes) - 1 <= 5
    archive = class_folder.opened(source.resolve())
    held = archive._contents._window  # type: ignore[attr-defined]
    assert sum(map(len, held.values())) <= 16 * len(noise)


def test_a_replaced_archive_is_read_anew(tmp_path: Path) -> None:
    source = placed(tmp_path / "c.zip", zipped({**under("ann"), **under("bob")}))
    assert list(class_of(source)) == ["ann", "bob"]
    entries = find(source, LAB)
    placed(source, zipped({**under("ann"), **under("bo", GOOD), **under("cat")}))
    assert list(class_of(source)) == ["ann", "bo", "cat"]
    assert keys(checked(read(entries[1], LAB)).problems.values()) == ["empty"]
    source.unlink()
    assert keys(checked(read(entries[0], LAB)).problems.values()) == ["unreadable"]


def test_names_in_a_class_zip(tmp_path: Path) -> None:
    raw = zipped(under("AABB")).replace(b"AABB", "张伟".encode("gbk"))
    raw2 = zipped(under("AABBCC")).replace(b"AABBCC", "张伟".encode())
    for number, data in enumerate((raw, raw2, zipped(under("张伟")))):
        (entry,) = find(placed(tmp_path / f"{number}.zip", data), LAB)
        assert entry.student == str(number)  # one folder: the zip is the hand-in
    both = zipped({**under("AABB"), **under("CCDD")})
    both = both.replace(b"AABB", "张伟".encode("gbk")).replace(b"CCDD", "王芳".encode("gbk"))
    assert list(class_of(placed(tmp_path / "c.zip", both))) == ["张伟", "王芳"]


def test_cp437_is_the_last_resort(tmp_path: Path) -> None:
    data = zipped({"AB/x.py": b"", "CD/mlp.py": b""}).replace(b"AB/", b"\x82\xff/")
    text = problem(placed(tmp_path / "li.zip", data))
    assert "é\N{NO-BREAK SPACE}/x.py".replace("\N{NO-BREAK SPACE}", "\\xa0") in text


@pytest.mark.slow
def test_a_large_class_is_listed_and_read_in_linear_time(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for number in range(1500):
        files |= under(f"s{number:04}", {**GOOD, "a.txt": b"x", "b.txt": b"y"})
    for name, data in (("c.zip", zipped(files)), ("c.tgz", tarred(files, mode="w:gz"))):
        source = placed(tmp_path / name, data)
        start = time.process_time()
        assert len(class_of(source)) == 1500
        assert time.process_time() - start < 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_memory_does_not_grow_with_the_class(tmp_path: Path) -> None:
    data = zipped({**GOOD, "d.bin": random.Random(1).randbytes(3 * MIB)})
    path = tmp_path / "c.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(120):
            archive.addfile(header(f"s{number:03}.zip", size=len(data)), io.BytesIO(data))
    code = (
        "import re, sys; from pathlib import Path; from tests.archives import class_of; "
        "n = sum(1 for one in class_of(Path(sys.argv[1])).values() if len(one.files) == 2); "
        "print(n, re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, check=True, text=True
    )
    count, kib = map(int, done.stdout.split())
    assert count == 120
    assert kib < 300 * 1024  # of an archive of 360 MiB


def test_names_that_point_out_of_a_class_archive_are_named(tmp_path: Path) -> None:
    files = {**under("ann"), **under("bob"), "../eve/a.py": b"", "/abs.py": b"", "C:/x.py": b""}
    for pack, name in ((zipped, "c.zip"), (tarred, "c.tar")):
        (remark,) = survey(placed(tmp_path / name, pack(files)), LAB).remarks
        text = render(remark, "en")
        assert "(3)" in text
        assert all(one in text for one in ("../eve/a.py", "/abs.py", "C:/x.py"))


def test_names_as_long_as_an_archive_allows(tmp_path: Path) -> None:
    names = [".py" * 20_000, "_1" * 30_000, "张" * 20_000, "%s_assignsubmission_" % ("a" * 60_000)]
    files = {**{f"{name}.py": b"" for name in names}, "mlp.py": b"M = 2\n"}
    start = time.process_time()
    assert taken(placed(tmp_path / "li.zip", zipped(files))).files == {"mlp.py": "M = 2\n"}
    classed = {**under("ann"), **under("bob"), **files}
    assert list(class_of(placed(tmp_path / "c.zip", zipped(classed)))) == ["ann", "bob"]
    assert time.process_time() - start < 2


def test_one_packed_file_is_no_archive(tmp_path: Path) -> None:
    path = laid(tmp_path / "li", {"data.csv.gz": gzip.compress(b"1,2")})
    assert problem(path).startswith("missing: attention.py")


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {**under("course/submitted/ann/lab2"), **under("course/submitted/bob/lab2")}
    source = laid(tmp_path / "c", tree)
    real = os.scandir

    def refuse(path: str) -> object:
        if "ann" in str(path):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    for where in (source, source / "course" / "submitted"):
        submissions = class_of(where)
        assert keys(submissions["ann"].problems.values()) == ["unreadable"]
        assert submissions["bob"].files == RIGHT
