"""Whatever a student hands in, intake returns text or a named problem, and never raises."""

from __future__ import annotations

import io
import os
import random
import stat
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.course.messages import render
from autograder.course.records import Lab, Limits, Submission, Text
from autograder.intake.listing import SourceError, find
from autograder.intake.names import safe_id, unique_ids
from autograder.intake.reading import read
from autograder.intake.tree import Entry

TITLE = Text("Lab", "实验")
LAB = Lab("lab2", Path("lab2"), TITLE, ("attention.py", "mlp.py"), (), (), Limits(), ())
GOOD = {"attention.py": b"A = 1\n", "mlp.py": b"M = 2\n"}
MIB = 1 << 20


def folder(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    root.mkdir(parents=True, exist_ok=True)
    return root


def pack(path: Path, files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def taken(path: Path) -> Submission:
    submission = read(Entry("someone", path), LAB)
    for message in (*submission.problems.values(), *submission.notes):
        for language in ("en", "zh"):
            assert render(message, language)
    if "" not in submission.problems:
        assert set(submission.files) | set(submission.problems) == set(LAB.files)
    return submission


def problem(path: Path, file: str = "attention.py") -> str:
    """The problem with ``file``, in English, after its key."""
    message = taken(path).problems[file]
    return f"{message.key}: {render(message, 'en')}"


def both_ways(tmp_path: Path, files: Mapping[str, bytes]) -> list[Path]:
    """The same hand-in as a folder and as a zip."""
    return [folder(tmp_path / "folder", files), pack(tmp_path / "packed.zip", files)]


# What is right, in every wrapping


@pytest.mark.parametrize("prefix", ["", "lab2/", "My work/lab2/"])
def test_files_are_found_up_to_two_folders_down(tmp_path: Path, prefix: str) -> None:
    for path in both_ways(tmp_path, {prefix + name: data for name, data in GOOD.items()}):
        submission = taken(path)
        assert submission.files == {"attention.py": "A = 1\n", "mlp.py": "M = 2\n"}
        assert not submission.problems
        assert not submission.notes


def test_three_folders_down_is_too_deep(tmp_path: Path) -> None:
    for path in both_ways(tmp_path, {"a/b/c/attention.py": b"", "mlp.py": b""}):
        assert "first two levels of folders" in problem(path)
        assert "mlp.py" in taken(path).files
    only_deep = folder(tmp_path / "deep", {"a/b/c/d/attention.py": b""})
    assert problem(only_deep).startswith("intake.missing")


def test_rubbish_of_systems_and_tools_is_not_looked_at(tmp_path: Path) -> None:
    rubbish = {
        "__MACOSX/attention.py": b"\0",
        "__MACOSX/._attention.py": b"\0",
        ".git/attention.py": b"\0",
        "__pycache__/attention.py": b"\0",
        ".hidden/attention.py": b"\0",
    }
    wrapped = {f"lab2/{name}": data for name, data in GOOD.items()}
    for path in both_ways(tmp_path, {**rubbish, **wrapped}):
        assert taken(path).files["attention.py"] == "A = 1\n"


def test_a_folder_with_nothing_but_rubbish_is_empty(tmp_path: Path) -> None:
    for path in both_ways(tmp_path, {".DS_Store": b"x", "__MACOSX/attention.py": b"x"}):
        assert problem(path, "").startswith("intake.empty")


def test_the_shallowest_of_two_wins(tmp_path: Path) -> None:
    for path in both_ways(tmp_path, {**GOOD, "backup/attention.py": b"old"}):
        assert taken(path).files["attention.py"] == "A = 1\n"


def test_equally_shallow_ones_are_both_named(tmp_path: Path) -> None:
    files = {"one/attention.py": b"1", "two/attention.py": b"2", "one/mlp.py": b""}
    for path in both_ways(tmp_path, files):
        text = problem(path)
        assert text.startswith("intake.ambiguous")
        assert "one/attention.py" in text
        assert "two/attention.py" in text
        assert list(taken(path).files) == ["mlp.py"]


def test_the_same_member_twice_in_a_zip_is_ambiguous(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("attention.py", "1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("attention.py", "2")
    assert problem(tmp_path / "twice.zip").startswith("intake.ambiguous")


def test_a_zip_in_a_students_folder_is_opened(tmp_path: Path) -> None:
    pack(tmp_path / "li" / "upload.zip", GOOD)
    assert taken(tmp_path / "li").files["mlp.py"] == "M = 2\n"


def test_windows_zips_with_backslashes_and_gbk_folder_names(tmp_path: Path) -> None:
    raw = pack(tmp_path / "plain.zip", {"AABB/attention.py": b"A = 1\n"}).read_bytes()
    renamed = raw.replace(b"AABB/", "作业".encode("gbk") + b"\\")
    (tmp_path / "windows.zip").write_bytes(renamed)
    assert taken(tmp_path / "windows.zip").files["attention.py"] == "A = 1\n"
    link = b"AABB/attention (1).py"
    raw = pack(tmp_path / "plain.zip", {link.decode(): b""}).read_bytes()
    (tmp_path / "windows.zip").write_bytes(raw.replace(b"AABB", "作业".encode("gbk")))
    assert "作业/attention (1).py" in problem(tmp_path / "windows.zip")


# Names


@pytest.mark.parametrize(
    "name",
    [
        "Attention.py",
        "ATTENTION.PY",
        "attention_final.py",
        "attention (1).py",
        "attention - Copy.py",
        "attention2.py",
        "lab2-attention.py",
        "attention.py.txt",
        "attention.ipynb",
        "attenton.py",
        "sub/Attention.py",
    ],
)
def test_a_wrong_name_is_named_with_the_right_one(tmp_path: Path, name: str) -> None:
    for path in both_ways(tmp_path, {name: b"A = 1\n", "mlp.py": b""}):
        text = problem(path)
        assert text.startswith("intake.wrong_name")
        assert name in text
        assert "attention.py" in text.replace(name, "")


def test_a_missing_file_says_what_was_found(tmp_path: Path) -> None:
    for path in both_ways(tmp_path, {"mlp.py": b"", "model.py": b""}):
        text = problem(path)
        assert text.startswith("intake.missing_among")
        assert "model.py" in text
    assert problem(folder(tmp_path / "notes", {"notes.md": b""})).startswith("intake.missing:")


def test_the_number_that_a_course_system_adds_is_understood(tmp_path: Path) -> None:
    for path in both_ways(tmp_path, {"attention-1.py": b"A = 1\n", "mlp.py": b""}):
        submission = taken(path)
        assert submission.files["attention.py"] == "A = 1\n"
        assert [note.key for note in submission.notes] == ["intake.resubmitted"]
    two = folder(tmp_path / "two", {"attention-1.py": b"", "attention-2.py": b"2"})
    assert problem(two).startswith("intake.ambiguous")
    exact = folder(tmp_path / "exact", {"attention-1.py": b"old", "attention.py": b"new"})
    assert taken(exact).files["attention.py"] == "new"


# Contents


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        ("π = 3\n".encode(), "π = 3\n", None),
        (b"\xef\xbb\xbfA = 1\n", "A = 1\n", None),
        (b"A = 1\r\nB = 2\r", "A = 1\nB = 2\n", None),
        (b"def f():\n\treturn 1\n", "def f():\n\treturn 1\n", None),
        (b"def f(:\n", "def f(:\n", None),
        (b"", "", None),
        ("# 注意力\n".encode("gbk"), "# 注意力\n", "intake.gbk"),
        ("# 𠮷\n".encode("gb18030"), "# 𠮷\n", "intake.gbk"),
        (
            "# -*- coding: big5 -*-\n# 注意\n".encode("big5"),
            "# -*- coding: big5 -*-\n# 注意\n",
            None,
        ),
        ("#!/x\n# coding=latin-1\n# é\n".encode("latin-1"), "#!/x\n# coding=latin-1\n# é\n", None),
        ("# coding: rot13\n# 注意力\n".encode("gbk"), "# coding: rot13\n# 注意力\n", "intake.gbk"),
        (
            "# coding: nonsense\n# 注意力\n".encode("gbk"),
            "# coding: nonsense\n# 注意力\n",
            "intake.gbk",
        ),
        (
            "x = 1\n# coding: big5\n# 注意力\n".encode("gbk"),
            "x = 1\n# coding: big5\n# 注意力\n",
            "intake.gbk",
        ),
    ],
)
def test_encodings(tmp_path: Path, data: bytes, text: str, note: str | None) -> None:
    for path in both_ways(tmp_path, {"attention.py": data, "mlp.py": b""}):
        submission = taken(path)
        assert submission.files["attention.py"] == text
        assert [one.key for one in submission.notes] == ([note] if note else [])


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"A = 1\0\n", "nul"),
        ("A = 1\n".encode("utf-16"), "utf16"),
        (b"# \xff\xfe \xe9 \n", "undecodable"),
        (b"#" * (MIB + 1), "too_big"),
    ],
)
def test_unreadable_contents_are_named(tmp_path: Path, data: bytes, key: str) -> None:
    for path in both_ways(tmp_path, {"attention.py": data, "mlp.py": b"M = 2\n"}):
        assert problem(path).startswith(f"intake.{key}: attention.py")
        assert taken(path).files == {"mlp.py": "M = 2\n"}


def test_a_file_of_exactly_the_cap_is_taken(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(MIB // 2).hex().encode()
    for path in both_ways(tmp_path, {"attention.py": data, "mlp.py": b""}):
        assert len(taken(path).files["attention.py"]) == MIB


def test_a_cookie_cannot_choose_a_slow_codec(tmp_path: Path) -> None:
    data = b"# coding: punycode\n" + b"a" * 500_000 + b"-" + b"\xe9a" * 200_000
    assert "attention.py" in taken(folder(tmp_path / "slow", {"attention.py": data})).files


# Things that are no ordinary files


def test_a_symlink_to_a_file_is_named_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("SECRET = 1\n")
    path = folder(tmp_path / "li", {"mlp.py": b""})
    (path / "attention.py").symlink_to(tmp_path / "secret.py")
    assert problem(path).startswith("intake.symlink: attention.py")
    assert "SECRET" not in str(taken(path))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_hard_link_to_a_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    secret = folder(tmp_path, {"secret.py": b"answers = 1\n"}) / "secret.py"
    path = folder(tmp_path / "li", GOOD)
    (path / "attention.py").unlink()
    os.link(secret, path / "attention.py")
    assert taken(path).files["attention.py"]  # one owner: a backup that saves room
    os.chown(path, 50000, 50000)
    assert problem(path).startswith("intake.hard_link: attention.py")


def test_a_symlinked_folder_is_named_and_not_entered(tmp_path: Path) -> None:
    folder(tmp_path / "other", GOOD)
    path = folder(tmp_path / "li", {"mlp.py": b""})
    (path / "work").symlink_to(tmp_path / "other", target_is_directory=True)
    text = problem(path)
    assert text.startswith("intake.behind_symlink")
    assert "work" in text


@pytest.mark.parametrize("target", ["other", "other.zip"])
def test_a_hand_in_that_is_itself_a_link_is_refused(tmp_path: Path, target: str) -> None:
    folder(tmp_path / "other", GOOD)
    pack(tmp_path / "other.zip", GOOD)
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / target.replace("other", "li")).symlink_to(tmp_path / target)
    (entry,) = find(tmp_path / "class", LAB)
    assert entry.student == "li"
    assert problem(entry.path, "").startswith("intake.symlink")


def test_a_loop_of_links_and_a_dangling_link(tmp_path: Path) -> None:
    path = folder(tmp_path / "li", {"mlp.py": b""})
    (path / "attention.py").symlink_to("attention.py")
    (path / "again").symlink_to(path)
    assert problem(path).startswith("intake.symlink")


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    path = folder(tmp_path / "li", {"mlp.py": b""})
    os.mkfifo(path / "attention.py")
    assert problem(path).startswith("intake.special: attention.py")
    os.mkfifo(tmp_path / "bob.zip")
    assert problem(tmp_path / "bob.zip", "").startswith("intake.special: bob.zip")


def test_a_folder_called_like_the_file(tmp_path: Path) -> None:
    path = folder(tmp_path / "li", {"attention.py/readme.txt": b"", "mlp.py": b""})
    assert problem(path).startswith("intake.folder: attention.py")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path / "li", GOOD)

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert problem(path) == "intake.unreadable: attention.py could not be read (Permission denied)."


def test_a_file_swapped_after_it_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder(tmp_path / "li", {**GOOD, "../other.py": b"OTHER = 1\n"})
    real = os.open
    monkeypatch.setattr(os, "open", lambda _, *rest: real(tmp_path / "other.py", *rest))
    assert problem(path).startswith("intake.special")


# Nasty zips


def test_not_a_zip(tmp_path: Path) -> None:
    for name, data in {"a.zip": b"no zip", "b.zip": b"", "c.7z": b"no 7z"}.items():
        (tmp_path / name).write_bytes(data)
        assert problem(tmp_path / name, "").startswith(f"intake.not_a_zip: {name}")


def test_an_empty_zip(tmp_path: Path) -> None:
    assert problem(pack(tmp_path / "a.zip", {}), "").startswith("intake.empty: a.zip")
    assert problem(pack(tmp_path / "b.zip", {"only/": b""}), "").startswith("intake.empty")
    assert problem(folder(tmp_path / "c", {}), "").startswith("intake.empty: c")


@pytest.mark.parametrize(
    "name", ["../attention.py", "/attention.py", "a/../../attention.py", "..\\attention.py",
             "C:\\attention.py"]
)  # fmt: skip
def test_a_name_that_points_outside_is_never_read(tmp_path: Path, name: str) -> None:
    text = problem(pack(tmp_path / "slip.zip", {name: b"EVIL = 1", "mlp.py": b""}))
    assert text.startswith("intake.outside")
    both = pack(tmp_path / "both.zip", {name: b"EVIL = 1", "lab/attention.py": b"A = 1\n"})
    assert taken(both).files["attention.py"] == "A = 1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.zip", "slip.zip"]


def with_mode(path: Path, mode: int, data: bytes = b"/etc/passwd") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo("attention.py")
        member.create_system = 3
        member.external_attr = mode << 16
        archive.writestr(member, data)
    return path


def test_links_and_devices_in_a_zip(tmp_path: Path) -> None:
    link = with_mode(tmp_path / "link.zip", stat.S_IFLNK | 0o777)
    assert problem(link).startswith("intake.symlink")
    fifo = with_mode(tmp_path / "fifo.zip", stat.S_IFIFO | 0o666)
    assert problem(fifo).startswith("intake.special")
    plain = with_mode(tmp_path / "plain.zip", stat.S_IFREG | 0o644, b"A = 1\n")
    assert taken(plain).files["attention.py"] == "A = 1\n"


def test_a_bomb_is_refused_by_size_and_by_ratio(tmp_path: Path) -> None:
    big = pack(tmp_path / "big.zip", {"attention.py": b"\n" * (64 * MIB)})
    assert problem(big).startswith("intake.too_big")
    tight = pack(tmp_path / "tight.zip", {"attention.py": b"\n" * MIB})
    assert problem(tight).startswith("intake.bomb")


@pytest.mark.parametrize("claimed", [10, MIB, 2**31])
def test_a_bomb_that_lies_about_its_size(tmp_path: Path, claimed: int) -> None:
    bomb = pack(tmp_path / "bomb.zip", {"attention.py": b"\n" * (8 * MIB), "mlp.py": b"M = 2\n"})
    true_size = (8 * MIB).to_bytes(4, "little")
    data = bomb.read_bytes()
    assert data.count(true_size) == 2
    bomb.write_bytes(data.replace(true_size, claimed.to_bytes(4, "little")))
    assert problem(bomb).split(":")[0] in ("intake.damaged", "intake.too_big", "intake.bomb")
    assert taken(bomb).files == {"mlp.py": "M = 2\n"}


def test_too_many_members(tmp_path: Path) -> None:
    many = {f"data/{number}.txt": b"" for number in range(2001)}
    for path in both_ways(tmp_path, {**GOOD, **many}):
        assert problem(path, "").startswith("intake.too_many")
    cache = {f".git/{number}": b"" for number in range(2001)}
    assert not taken(pack(tmp_path / "git.zip", {**GOOD, **cache})).problems


def test_a_table_of_members_is_not_read_when_it_is_huge(tmp_path: Path) -> None:
    names = {f"{number:06}" + "x" * 200: b"" for number in range(5000)}
    huge = pack(tmp_path / "huge.zip", {**GOOD, **names}, zipfile.ZIP_STORED)
    assert problem(huge, "").startswith("intake.too_many")


def test_password_and_unusual_methods(tmp_path: Path) -> None:
    lzma = pack(tmp_path / "lzma.zip", {"attention.py": b"A = 1\n"}, zipfile.ZIP_LZMA)
    assert problem(lzma).startswith("intake.zip_method")
    data = bytearray(pack(tmp_path / "locked.zip", {"attention.py": b"A = 1\n"}).read_bytes())
    data[data.index(b"PK\x03\x04") + 6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(data)
    assert problem(tmp_path / "locked.zip").startswith("intake.encrypted")


def test_no_damage_to_a_zip_makes_intake_raise(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**GOOD, "π/x.py": b"print(1)\n" * 50}.items():
            archive.writestr(name, data)
    whole = stream.getvalue()
    chance = random.Random(7)
    path = tmp_path / "damaged.zip"
    keys: set[str] = set()
    for _ in range(1500):
        spoiled = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            spoiled[chance.randrange(len(spoiled))] = chance.choice(
                (0, 1, 0x7F, 0xFF, chance.randrange(256))
            )
        path.write_bytes(
            spoiled[: chance.choice((len(spoiled), len(spoiled), chance.randrange(len(spoiled))))]
        )
        keys.update(message.key for message in read(Entry("x", path), LAB).problems.values())
    assert {"intake.not_a_zip", "intake.damaged"} <= keys


# Which hand-ins there are, and what their students are called


def test_a_class_of_folders_and_zips_is_sorted_by_id(tmp_path: Path) -> None:
    folder(tmp_path / "王伟", GOOD)
    folder(tmp_path / "bob", {f"lab2/{name}": data for name, data in GOOD.items()})
    pack(tmp_path / "alice.zip", GOOD)
    folder(tmp_path, {"grades.xlsx": b"", ".DS_Store": b"", "__MACOSX/x": b"", "carol.rar": b"x"})
    entries = find(tmp_path, LAB)
    assert [entry.student for entry in entries] == ["alice", "bob", "carol", "王伟"]
    problems = {entry.student: read(entry, LAB).problems for entry in entries}
    assert [student for student, found in problems.items() if found] == ["carol"]


def test_a_single_hand_in(tmp_path: Path) -> None:
    folder(tmp_path / "alice", {**GOOD, "checks/test.py": b"", "old/attention.py": b""})
    pack(tmp_path / "bob.zip", GOOD)
    for source, student in ((tmp_path / "alice", "alice"), (tmp_path / "bob.zip", "bob")):
        (entry,) = find(source, LAB)
        assert entry.student == student
        assert read(entry, LAB).files["attention.py"] == "A = 1\n"
    wrong = folder(tmp_path / "carol", {"Attention.py": b""})
    assert [entry.student for entry in find(wrong, LAB)] == ["carol"]


def test_the_source_itself_may_be_a_dot_or_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder(tmp_path / "alice", GOOD))
    (tmp_path / "link").symlink_to(tmp_path / "alice")
    for source in (Path("."), tmp_path / "link"):
        (entry,) = find(source, LAB)
        assert entry.student == "alice"
        assert not read(entry, LAB).problems


def test_a_stray_file_does_not_hide_the_class(tmp_path: Path) -> None:
    folder(tmp_path, {"attention.py": b"", "a/attention.py": b"", "b/attention.py": b""})
    assert [entry.student for entry in find(tmp_path, LAB)] == ["a", "b"]


@pytest.mark.parametrize(("name", "key"), [("nothing", "no_source"), ("empty", "no_hand_ins")])
def test_a_wrong_source_is_named_in_both_languages(tmp_path: Path, name: str, key: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=name) as caught:
        find(tmp_path / name, LAB)
    assert caught.value.reason.key == f"intake.{key}"
    assert render(caught.value.reason, "zh") in str(caught.value)


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("li_wei-2.x", "li_wei-2.x"),
        ("王 伟", "王_伟"),
        ("Zo\u0065\u0308", "Zoë"),
        ("../../etc", "_._.._etc"),
        (".ssh", "_ssh"),
        ("-rf", "_rf"),
        ("=cmd|x", "_cmd_x"),
        ("a\nb\x1b[31m\u202e", "a_b__31m_"),
        ("CON", "_CON"),
        ("lpt1.txt", "_lpt1.txt"),
        ("name.", "name_"),
        ("secret", "_secret"),
        ("class.json", "_class.json"),
        ("overrides.toml", "_overrides.toml"),
        ("", "_"),
        ("\udcff", "_"),
        ("x" * 300, "x" * 80),
    ],
)
def test_safe_ids(name: str, student: str) -> None:
    assert safe_id(name) == student


def test_long_ids_fit_a_file_system(tmp_path: Path) -> None:
    for name in ("伟" * 90, "𠮷" * 90):
        first, second = unique_ids([name, name])
        assert first != second
        assert len(second) <= 80
        (tmp_path / second).mkdir()


def test_ids_are_unique_where_case_and_width_are_ignored() -> None:
    names = ["Bob", "bob", "bob-2", "ｂｏｂ", "STRASSE", "straße"]
    ids = unique_ids(names)
    assert ids[0] == "Bob"
    assert ids[2] == "bob-2"
    assert len({one.casefold() for one in ids}) == len(names)
    assert ids[1] == "bob-3"
    assert ids[5] == "straße-2"


def test_a_changed_id_is_noted(tmp_path: Path) -> None:
    folder(tmp_path / "li wei", GOOD)
    folder(tmp_path / "Ann", GOOD)
    pack(tmp_path / "ann.zip", GOOD)
    entries = find(tmp_path, LAB)
    assert [entry.student for entry in entries] == ["Ann", "ann-2", "li_wei"]
    notes = [[note.key for note in read(entry, LAB).notes] for entry in entries]
    assert notes == [[], ["intake.renamed"], ["intake.renamed"]]


def test_hostile_folder_names_become_safe_ids(tmp_path: Path) -> None:
    for name in ("a\nb", "<script>", "=1+1", "x\u202ey", "..."):
        folder(tmp_path / "class" / name, GOOD)
    os.mkdir(os.fsencode(tmp_path / "class") + b"/\xff\xfe")
    entries = find(tmp_path / "class", LAB)
    assert len(entries) == 5  # `...` is a dot-file
    for entry in entries:
        assert all(letter.isalnum() or letter in "-_." for letter in entry.student)


def test_intake_needs_neither_torch_nor_jinja(tmp_path: Path) -> None:
    code = (
        "import sys; import autograder.intake, autograder.report.write; "
        "print([name for name in ('torch', 'numpy', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_names_in_gbk_bytes_stay_readable(tmp_path: Path) -> None:
    for name in ("张伟", "王芳"):
        folder = os.path.join(os.fsencode(tmp_path), name.encode("gbk"))
        os.mkdir(folder)
        for file in LAB.files:
            with open(os.path.join(folder, file.encode()), "w") as stream:
                stream.write("x = 1\n")
    entries = find(tmp_path, LAB)
    assert sorted(entry.student for entry in entries) == ["张伟", "王芳"]
    assert not any(read(entry, LAB).problems for entry in entries)


def test_a_stray_file_beside_zips_does_not_hide_the_class(tmp_path: Path) -> None:
    (tmp_path / "attention.py").write_text("x = 1\n")
    for name in ("ann", "bob"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr("attention.py", "x = 1\n")
    assert [entry.student for entry in find(tmp_path, LAB)] == ["ann", "bob"]
