"""The class's mistakes as a short list for the terminal, as Markdown, and as CSV."""

from __future__ import annotations

import csv
import io

from autograder.report import escape
from autograder.report.class_mistakes import Mistake, Survey, revealing
from autograder.report.recognised import section_of, wording

COLUMNS = ("misconception", "group", "students", "count", "check", "section")
TOP = 10  # lines on the terminal
_WIDTH = 100
_COUNT, _NAME, _SECTION = 4, 54, 20
_OR = {"en": "; ", "zh": "；"}


def lines(survey: Survey, language: str) -> list[str]:
    """At most ten mistakes, the most frequent first, in at most 100 columns.

    Each with how many made it, its name, what to teach again, and who made it.
    """
    if not survey.failing:
        return []
    told = ["", wording("class_title", language)]
    for mistake in survey.mistakes[:TOP]:
        room = _WIDTH - _COUNT - _NAME - _SECTION - 3
        titles = [one.section.in_(language) for one in mistake.words]
        cells = [
            f"{len(mistake.students):>{_COUNT}}",
            escape.fitted(name_of(mistake, language), _NAME),
            escape.fitted("; ".join(dict.fromkeys(titles)), _SECTION),
            escape.fitted(", ".join(map(escape.line, mistake.students)), room),
        ]
        told.append(" ".join(cells).rstrip())
    more = len(survey.mistakes) - TOP
    if more > 0:
        told.append(wording("all_in", language, count=more))
    if not survey.mistakes:
        told.append(wording("none", language))
    return [*told, *others(survey, language)]


def markdown(survey: Survey, language: str) -> str:
    """All of them in a table, student names in code spans where they need it."""
    told = [f"# {wording('class_title', language)} · {_cell(survey.lab.title.in_(language))}", ""]
    if survey.mistakes:
        heads = ("count", "misconception", "group", "check", "section", "students")
        told += [wording("class_intro", language), ""]
        told += ["| " + " | ".join(wording(head, language) for head in heads) + " |"]
        told += ["| ---: |" + " --- |" * (len(heads) - 1)]
        for mistake in survey.mistakes:
            cells = [
                str(len(mistake.students)),
                f"**{_cell(name_of(mistake, language))}**",
                _cell(_groups(mistake)),
                _cell(_check(survey, mistake, language)),
                _cell(sections_of(mistake, language)),
                ", ".join(escape.markdown(one).replace("|", "\\|") for one in mistake.students),
            ]
            told.append("| " + " | ".join(cells) + " |")
    else:
        told.append(wording("none", language))
    return "\n".join([*told, "", *others(survey, language)]) + "\n"


def table(survey: Survey, language: str) -> str:
    """CSV (commas, ``\\n``) with the columns ``COLUMNS``; students joined by ``; ``."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for mistake in survey.mistakes:
        cells = [
            escape.csv_cell(name_of(mistake, language)),
            escape.csv_cell(_groups(mistake)),
            escape.csv_list(mistake.students),
            str(len(mistake.students)),
            escape.csv_cell(_check(survey, mistake, language)),
            escape.csv_cell(sections_of(mistake, language)),
        ]
        writer.writerow(cells)
    return stream.getvalue()


def name_of(mistake: Mistake, language: str) -> str:
    """What is said of it: its name, or how sure it is and which ones it may be."""
    names = _OR[language].join(escape.line(one.name.in_(language)) for one in mistake.words)
    if mistake.key == "named":
        return names
    if mistake.key == "either":
        return wording("class_either", language, names=names)
    if mistake.key == "looks_like":
        return wording("class_looks_like", language, names=names)
    return wording("class_looks_like_either", language, names=names)


def _groups(mistake: Mistake) -> str:
    return "; ".join(dict.fromkeys(escape.line(one.group) for one in mistake.words))


def sections_of(mistake: Mistake, language: str) -> str:
    """Titles of the sections to teach again."""
    return "; ".join(dict.fromkeys(section_of(one, language) for one in mistake.words))


def _check(survey: Survey, mistake: Mistake, language: str) -> str:
    """The check that revealed it most often, and how many others did so, too."""
    titles = {check.name: check.title.in_(language) for check in survey.lab.checks}
    names = revealing(survey.lab, mistake)
    if not names:
        return ""
    title = escape.line(titles.get(names[0], names[0]).replace("`", ""))
    if len(names) == 1:
        return title
    return wording("more_checks", language, title=title.rstrip(".。"), count=len(names) - 1)


def others(survey: Survey, language: str) -> list[str]:
    """How much is not explained: in the hand-ins that lost points nothing was recognised."""
    if not survey.failing:
        return [wording("nobody_lost", language)]
    count = survey.wrong + survey.silent + survey.files
    told = [wording("others", language, count=count, failing=survey.failing)]
    if count:
        values = {"wrong": survey.wrong, "silent": survey.silent, "files": survey.files}
        told.append(wording("others_why", language, **values))
    return told


def _cell(text: str) -> str:
    return escape.prose(escape.line(text))
