"""One language at a time: help, errors, debug, chat, and reports that change it afterwards."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from autograder.cli.main import _parser, chinese, main
from autograder.course import labfile
from labs.commands.chat import run as chat
from tests.cli.test_student_commands import PLAIN_PYTEST
from tests.warm import grade

EXAMPLES = labfile.ROOT / "examples" / "submissions"
SOLUTION = labfile.SOLUTIONS / "lab2_qwen3_block"
CHINESE = re.compile("[\u4e00-\u9fff]")


# ---------------------------------------------------------------- help


class Missing(dict[str, str]):
    """Words that remember which texts they lack."""

    def __init__(self) -> None:
        super().__init__(chinese())
        self.lacking: set[str] = set()

    def get(self, key: str, default: str | None = None) -> str:  # type: ignore[override]
        if key not in self and key:
            self.lacking.add(key)
        return super().get(key, default or "")


def named_in(page: str) -> list[str]:
    """The commands that a page of help lists."""
    return re.findall(r"^    ([a-z][\w-]*)(?: |$)", page, flags=re.MULTILINE)


def test_every_word_of_help_is_there_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    words = Missing()
    parser = _parser(words)
    pages = [[name] for name in named_in(parser.format_help())]
    assert {"test", "hint", "carry", "grade", "grade-report"} <= {name for (name,) in pages}
    for names in pages:
        with pytest.raises(SystemExit):
            parser.parse_args([*names, "--help"])
        page = capsys.readouterr().out
        if names == ["export"]:
            pages += [[*names, kind] for kind in named_in(page)]
        assert page.startswith("用法：") and "usage" not in page
    assert words.lacking == {"show this help message and exit"}  # argparse's own


@pytest.mark.parametrize(
    ("arguments", "chinese"),
    [
        (["test", "--help", "--lang", "zh"], True),
        (["test", "--lang=zh", "--help"], True),
        (["test", "--lang", "en", "--help"], False),
        (["test", "--help"], True),
        ([], True),
    ],
)
def test_help_is_in_the_language_that_is_asked_for(
    arguments: list[str],
    chinese: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LAB_LANG", "zh")
    try:
        main(arguments)
    except SystemExit as done:
        assert done.code == 0
    page = capsys.readouterr().out
    assert bool(CHINESE.search(page)) == chinese and ("usage:" in page) != chinese


# ---------------------------------------------------------------- one language, not two


def one_language(said: str, language: str) -> bool:
    """Whether a page is Chinese, or holds none of it."""
    return bool(CHINESE.search(said)) == (language == "zh")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_carry_refuses_in_one_language(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mlp.py").write_text("mine\n", encoding="utf-8")
    (tmp_path / "attention.py").write_text("mine\n", encoding="utf-8")
    folders = ["--from-folder", str(SOLUTION), "--folder", str(tmp_path)]
    assert main(["carry", "--from", "2", "--to", "4", "--lang", language, *folders]) == 1
    said = capsys.readouterr().err
    assert one_language(said, language) and "FORCE=1" in said


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("fault", ["absent", "open", "raises"])
def test_chat_says_what_is_wrong_in_one_language(
    language: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    if fault == "absent":
        (folder / "mlp.py").unlink()
    else:
        with (folder / "mlp.py").open("a", encoding="utf-8") as stream:
            todo = 'NotImplementedError("TODO lab2.mlp: x")' if fault == "open" else "OSError('x')"
            stream.write(
                f"\n\ndef forward(self, x):\n    raise {todo}\nQwen3MLP.forward = forward\n"
            )
    files = {name: str(folder / name) for name in ("attention.py", "mlp.py")}
    tiny = labfile.LABS / "given" / "tiny_qwen3"
    assert chat(files, tiny, "Call me", 2, language) == 1
    assert one_language(capsys.readouterr().err, language)


@pytest.mark.slow  # a quick one is among the commands of students
@pytest.mark.parametrize("language", ["zh", "en"])
def test_debug_says_sentences_in_one_language(
    language: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in PLAIN_PYTEST.items():
        monkeypatch.setenv(name, value)
    folder = shutil.copytree(SOLUTION, tmp_path / "mine")
    with (folder / "attention.py").open("a", encoding="utf-8") as stream:
        stream.write("\n\ndef rotate_half(x):\n    return x\n")
    folders = ["--lang", language, "--folder", str(folder)]
    assert main(["debug", "--lab", "2", "-k", "rotate_half", *folders]) == 1
    said = capfd.readouterr().out
    sentence = {"en": "should equal the reference", "zh": "与参考结果不同"}
    assert sentence[language] in said
    assert {"en": "与参考结果", "zh": "differs from"}[language] not in said


# ---------------------------------------------------------------- the other language later


def pages(folder: Path) -> dict[str, str]:
    """Every page of a graded class, by its place, without what time changes."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".md", ".html")
    }


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample class and a file that is no Python, graded once in each language."""
    folder = tmp_path_factory.mktemp("languages")
    hand_in = shutil.copytree(EXAMPLES, folder / "class")
    (hand_in / "ines_syntax").mkdir()
    (hand_in / "ines_syntax" / "attention.py").write_text("def (\n", encoding="utf-8")
    out = {language: folder / language for language in ("en", "zh")}
    for language, place in out.items():
        grade(hand_in, place, "--lab", "2", "--lang", language, "--allow-weak-isolation")
    return out


@pytest.mark.slow
def test_a_class_graded_in_english_is_shown_in_chinese_as_if_graded_so(
    graded: dict[str, Path],
) -> None:
    """And back again: what is stored holds no language."""
    english, chinese = (pages(folder) for folder in graded.values())
    assert english.keys() == chinese.keys() and len(english) >= 2 * 5
    assert all(one_language(page, "zh") for page in chinese.values())
    assert main(["report", str(graded["en"]), "--lang", "zh"]) == 0
    assert pages(graded["en"]) == chinese
    assert main(["report", str(graded["en"]), "--lang", "en"]) == 0
    assert pages(graded["en"]) == english
    assert "全班" in chinese["misconceptions.md"] and "全班" not in english["misconceptions.md"]


WORDS = re.compile(r"(?<![\w/.`$\\-])[a-z]{3,} [a-z]{2,} [a-z]{2,}")


@pytest.mark.slow
def test_a_chinese_report_holds_no_english_sentence(graded: dict[str, Path]) -> None:
    """Beside code, traces and what students print themselves."""
    found = {}
    for path in sorted(graded["zh"].rglob("*.md")):
        text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        odd = [line for line in text.splitlines() if WORDS.search(line)]
        # An exception's text is what torch or the student's code said.
        own = [line for line in odd if "抛出" not in line and "Python 代码" not in line]
        if own:
            found[path.name] = own
    assert found == {}
