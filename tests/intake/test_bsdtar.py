"""RAR and 7z: read where bsdtar is installed, else named with what to do."""

from __future__ import annotations

import io
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from autograder.course.labfile import ROOT
from autograder.course.messages import render
from autograder.intake import archives
from autograder.intake.listing import SourceError, find
from autograder.sandbox import workers
from autograder.worker import landlock
from tests.archives import (
    GOOD,
    LAB,
    MIB,
    RIGHT,
    class_of,
    keys,
    laid,
    placed,
    problem,
    rar,
    taken,
    zipped,
)

needs_bsdtar = pytest.mark.skipif(shutil.which("bsdtar") is None, reason="bsdtar is not installed")


def seven(folder: Path, *options: str) -> bytes:
    """A folder as a 7z."""
    command = ["bsdtar", "--format", "7zip", *options, "-cf", "-", "-C", str(folder), "."]
    return subprocess.run(command, capture_output=True, check=True).stdout


@needs_bsdtar
def test_a_rar_and_a_7z(tmp_path: Path) -> None:
    laid(tmp_path / "src", {f"作业/{name}": data for name, data in GOOD.items()})
    for name, data in (("a.7z", seven(tmp_path / "src")), ("b.rar", rar(GOOD))):
        assert taken(placed(tmp_path / name, data)).files == RIGHT
        assert taken(placed(tmp_path / "wrong.zip", data)).files == RIGHT  # a renamed one
        inside = placed(tmp_path / "outer.zip", zipped({f"up/{name}": data}))
        assert taken(inside).files == RIGHT
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {"src", "a.7z", "b.rar", "wrong.zip", "outer.zip"}


@needs_bsdtar
def test_a_class_that_is_a_rar_or_a_7z(tmp_path: Path) -> None:
    files = {f"{who}/{name}": data for who in ("ann", "bob") for name, data in GOOD.items()}
    folder = laid(tmp_path / "src", files)
    for name, data in (("c.7z", seven(folder)), ("c.rar", rar(files)), ("c.zip", seven(folder))):
        submissions = class_of(placed(tmp_path / name, data))
        assert {who: one.files for who, one in submissions.items()} == {"ann": RIGHT, "bob": RIGHT}


@needs_bsdtar
def test_nobody_takes_a_class_along(tmp_path: Path) -> None:
    files = {f"{who}/{name}": data for who in ("ann", "bob") for name, data in GOOD.items()}
    odd = {b"bob/password \xff.txt".decode("utf-8", "surrogateescape"): b""}
    submissions = class_of(placed(tmp_path / "c.rar", rar({**files, **odd})))
    assert {who: one.files for who, one in submissions.items()} == {"ann": RIGHT, "bob": RIGHT}


@needs_bsdtar
def test_a_class_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_OUTPUT_BYTES", MIB)
    files = {f"{who}/{name}": data for who in ("ann", "bob") for name, data in GOOD.items()}
    folder = laid(tmp_path / "src", {**files, "bob/weights.bin": bytes(2 * MIB)})
    with pytest.raises(SourceError, match="unpack it and grade the folder"):
        find(placed(tmp_path / "c.7z", seven(folder)), LAB)


@needs_bsdtar
def test_a_class_with_rars_in_it(tmp_path: Path) -> None:
    files = {"ann.rar": rar(GOOD), "cat/up.rar": rar(GOOD), "bob.zip": zipped(GOOD)}
    for source in (
        laid(tmp_path / "c", files),
        placed(tmp_path / "c.zip", zipped(files)),
        placed(tmp_path / "c.rar", rar(files)),  # that ends with a zip, and is none
        placed(tmp_path / "c.7z", seven(tmp_path / "c", "--options", "7zip:compression=store")),
    ):
        submissions = class_of(source)
        assert {name: one.files for name, one in submissions.items()} == dict.fromkeys(
            ("ann", "bob", "cat"), RIGHT
        )


@needs_bsdtar
def test_names_and_links_in_them(tmp_path: Path) -> None:
    for name in ("../attention.py", "/attention.py", "a/../../attention.py"):
        path = placed(tmp_path / "a.rar", rar({name: b"EVIL = 1", "mlp.py": b"M = 2\n"}))
        assert problem(path).startswith("outside")
    odd = {"-rf.py": b"", "*.py": b"", "@x.py": b"", "a\nb.py": b"", "mlp.py": b""}
    path = placed(tmp_path / "b.rar", rar(odd))
    text = problem(path)
    assert text.startswith("missing_among")
    assert "a\\nb.py" in text
    folder = laid(tmp_path / "src", {"mlp.py": b"M = 2\n"})
    (folder / "attention.py").symlink_to("/etc/passwd")
    assert problem(placed(tmp_path / "c.7z", seven(folder))).startswith("symlink: attention.py")


@needs_bsdtar
def test_a_disk_image_in_a_rar_is_not_read_instead_of_it(tmp_path: Path) -> None:
    laid(tmp_path / "src", {"attention.py": b"EVIL = 1\n"})
    command = ["bsdtar", "--format", "iso9660", "-cf", "-", "-C", str(tmp_path / "src"), "."]
    image = subprocess.run(command, capture_output=True, check=True).stdout[32768:]
    start = rar({**GOOD, "x.bin": b"@"}).index(b"@")
    path = placed(tmp_path / "a.rar", rar({**GOOD, "x.bin": bytes(32768 - start) + image}))
    assert problem(path, "").startswith("not_a_zip")


@needs_bsdtar
def test_a_password_is_named(tmp_path: Path) -> None:
    path = placed(tmp_path / "a.rar", rar(GOOD, flags=0x04))
    assert problem(path, "").startswith("encrypted: a.rar")


@needs_bsdtar
def test_damaged_ones(tmp_path: Path) -> None:
    whole = rar({**GOOD, "big.py": b"x = 1\n" * 1000})
    laid(tmp_path / "src", GOOD)
    packed = seven(tmp_path / "src")
    for number, data in enumerate((whole[:60], whole[:2000], packed[:150], packed[:8])):
        suffix = "rar" if data[:1] == b"R" else "7z"
        assert problem(placed(tmp_path / f"{number}.{suffix}", data), "").startswith("not_a_zip")


@needs_bsdtar
def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_OUTPUT_BYTES", 8 * MIB)
    laid(tmp_path / "src", {"zeros.py": bytes(12 * MIB)})
    data = seven(tmp_path / "src")
    assert len(data) < MIB
    assert problem(placed(tmp_path / "a.7z", data), "").startswith("too_much")
    laid(tmp_path / "src", {"zeros.py": bytes(6 * MIB), "attention.py": b""})
    path = placed(tmp_path / "b.7z", seven(tmp_path / "src"))
    assert problem(path, "mlp.py").startswith("missing_among")


def test_without_bsdtar_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    files = {"ann.rar": rar(GOOD), "bob.7z": b"7z\xbc\xaf\x27\x1c\0\0", "cat.zip": zipped(GOOD)}
    submissions = class_of(laid(tmp_path / "c", files))
    for name in ("ann", "bob"):
        message = submissions[name].problems[""]
        assert message.key == "intake.no_unpacker"
        for language, words in (
            ("en", ("ordinary .zip", "bsdtar")),
            ("zh", ("普通 .zip", "bsdtar")),
        ):
            assert all(word in render(message, language) for word in words)
    assert submissions["cat"].files == RIGHT
    assert keys(submissions["ann"].notes) == []


FAKE = """#!/bin/sh
{body}
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Puts a script in the place of bsdtar, where the user of the process may reach it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)

        def make(body: str) -> Path:
            script = folder / "bsdtar"
            script.write_text(FAKE.format(body=body))
            script.chmod(script.stat().st_mode | stat.S_IRWXU | 0o055)
            monkeypatch.setattr(archives, "program", lambda: str(script))
            return placed(tmp_path / "a.rar", rar(GOOD))

        yield make


def test_one_that_hangs_is_ended(fake, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(archives, "WALL_SECONDS", 0.5)
    start = time.monotonic()
    assert problem(fake("exec sleep 30"), "").startswith("not_a_zip")
    assert time.monotonic() - start < 15


def test_one_that_floods_is_ended(fake, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(archives, "MAX_OUTPUT_BYTES", MIB)
    assert problem(fake("exec head -c 40000000 /dev/zero"), "").startswith("too_much")
    assert problem(fake("head -c 200000 /dev/zero >&2; exec sleep 30"), "").startswith("not_a_zip")


def test_one_that_asks_for_a_password(fake) -> None:  # type: ignore[no-untyped-def]
    assert problem(fake("echo 'Enter passphrase:' >&2; exit 1"), "").startswith("encrypted")


def test_it_has_no_environment_and_limits(fake, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("AUTOGRADER_SECRET", "do not tell")
    path = fake("env; ulimit -t; ulimit -f; ulimit -v; pwd; id -u")
    with path.open("rb") as stream:
        said = archives.as_tar(stream, "a.rar").decode().split()
    assert not any("do not tell" in word or "SECRET" in word for word in said)
    assert "LC_ALL=C.UTF-8" in said
    cpu, size, memory, folder, user = said[-5:]
    assert (cpu, size, folder) == (str(archives.CPU_SECONDS), "0", "/")
    assert int(memory) < 2 * archives.MEMORY_BYTES >> 10
    assert user != "0"


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_confined_program_reads_nothing_but_the_system(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        secret = placed(Path(name) / "secret", b"canary")
        secret.chmod(0o644)
        seen = {}
        for program in ("/bin/cat", str(shutil.copy("/bin/cat", Path(name) / "cat"))):
            command = workers.command(
                "autograder.worker.confine", ROOT, "5", str(1 << 28), program, str(secret)
            )
            done = subprocess.run(command, capture_output=True, env={}, timeout=60)
            seen[program == "/bin/cat"] = b"canary" in done.stdout
    assert seen[False]  # a program from elsewhere is not held, so the file could be read
    assert seen[True] is not bool(landlock.abi())


def test_it_cannot_write(fake) -> None:  # type: ignore[no-untyped-def]
    path = fake('echo x > "$(dirname "$0")/made"; exit 0')
    folder = Path(str(archives.program())).parent
    folder.chmod(0o777)
    with path.open("rb") as stream:
        archives.as_tar(stream, "a.rar")
    assert (folder / "made").read_bytes() == b""  # it was reached, and nothing got into it


def test_bytes_in_memory_are_given_to_it(fake) -> None:  # type: ignore[no-untyped-def]
    fake("exec wc -c")
    assert archives.as_tar(io.BytesIO(rar(GOOD)), "a.rar").split() == [b"%d" % len(rar(GOOD))]
