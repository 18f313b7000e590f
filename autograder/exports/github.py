"""A GitHub Actions workflow that checks a lab in a student's repository, as Classroom runs it.

It runs the public cases only: whoever owns a repository can read and change all of it, the workflow
too. So its points are feedback; grades come from ``grade`` on the collected hand-ins.

``classroom-resources/autograding-grading-reporter`` reads the result of a step as base64 of one
JSON object (see ``autograder/report/classroom.py``) from ``<RUNNER>_RESULTS``, and tells Classroom.
"""

from __future__ import annotations

from autograder.course.records import Lab

FOLDER = ".github/workflows"
_TEXT = """\
# Checks {title} on its public cases at every push, and tells the points to GitHub Classroom.
name: {runner}
on:
  push:
  workflow_dispatch:
  repository_dispatch:
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  {runner}:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
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
          python -m pip install -q -c constraints.txt .
      - name: Check
        id: {runner}
        run: |
          passed=0
          python -m autograder test --lab {number} --lang {language} --json result.json || passed=$?
          [ "$passed" -le 1 ]
          echo "result=$(base64 -w 0 result.json)" >> "$GITHUB_OUTPUT"
      - name: Tell the points
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
          {variable}_RESULTS: ${{{{ steps.{runner}.outputs.result }}}}
        with:
          runners: {runner}
"""
TORCH = "https://download.pytorch.org/whl/cpu"  # a tenth of the size of the default


def workflow(lab: Lab, language: str) -> str:
    """The YAML text for a lab; results are in ``language`` (``en`` or ``zh``)."""
    runner = lab.name.partition("_")[0]
    return _TEXT.format(
        title=lab.title.en.replace("\n", " "),
        runner=runner,
        number=runner.removeprefix("lab"),
        language=language,
        variable=runner.upper(),
        torch=TORCH,
    )


def name_of(lab: Lab) -> str:
    """Path of the workflow in a repository."""
    return f"{FOLDER}/{lab.name.partition('_')[0]}.yml"
