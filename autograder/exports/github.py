"""A workflow for a template repository on GitHub, and the autograder of Classroom 50.

Both run the public cases only, on a machine where student code runs beside them: their points are
feedback; grades come from ``grade`` on the collected hand-ins. GitHub Classroom, which used to read
points from workflows, ended in 2026; a workflow of its own tells them in its summary.
"""

from __future__ import annotations

from pathlib import Path

from autograder.course.records import Lab
from autograder.exports import classroom50_autograder, gradescope

FOLDER = ".github/workflows"
GRADER = "qwen3-labs.zip"
_TEXT = """\
# Checks {title} on its public cases at every push. The points are in the summary of the run.
name: {name}
on:
  push:
  workflow_dispatch:
permissions:
  contents: read
jobs:
  {name}:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - name: Take the files
        uses: actions/checkout@v4
      - name: Take Python
        uses: actions/setup-python@v5
        with:
          python-version: "3.11"
          cache: pip
          cache-dependency-path: constraints.txt
      - name: Install
        run: |
          python -m pip install -q -c constraints.txt --index-url {torch} torch
          python -m pip install -q -c constraints.txt grader/*.whl -e .
      - name: Check
        shell: bash  # with pipefail, which the shell of a step that names none lacks
        run: |
          passed=0
          python -m autograder test --lab {number} --lang {language} | tee result.txt || passed=$?
          {{ echo '```'; cat result.txt; echo '```'; }} >> "$GITHUB_STEP_SUMMARY"
          exit "$passed"
"""


def workflow(lab: Lab, language: str) -> str:
    """The YAML text for a lab; results are in ``language`` (``en`` or ``zh``)."""
    name = lab.name.partition("_")[0]
    return _TEXT.format(
        title=lab.title.en.replace("\n", " "),
        name=name,
        number=name.removeprefix("lab"),
        language=language,
        torch=classroom50_autograder.TORCH,
    )


def name_of(lab: Lab) -> str:
    """Path of the workflow in a repository."""
    return f"{FOLDER}/{lab.name.partition('_')[0]}.yml"


def classroom50(root: Path, lab: Lab, language: str) -> dict[str, bytes]:
    """Classroom 50's autograder for a lab, by name: its script, and the grader beside it.

    Args:
        root: the checkout.
        lab: the lab that is checked; nothing of its hidden cases is in the grader.
        language: of the messages, ``en`` or ``zh``.
    """
    script = Path(classroom50_autograder.__file__).read_text(encoding="utf-8")
    for setting, value in {"LAB": lab.name, "LANGUAGE": language}.items():
        line = f'{setting} = "{getattr(classroom50_autograder, setting)}"\n'
        assert line in script
        script = script.replace(line, f'{setting} = "{value}"\n')
    sources = gradescope.sources(root, lab, hidden=False)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sources}
    return {"autograder.py": script.encode(), GRADER: gradescope.packed(files)}
