"""Hidden cases can be drawn from any secret: a class must not hang on the luck of its draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.course import labfile
from autograder.reference import recipes


@pytest.mark.parametrize(
    "solution", sorted(labfile.SOLUTIONS.glob("lab*")), ids=lambda path: path.name
)
def test_every_secret_draws_hidden_cases(solution: Path) -> None:
    made = recipes.of_lab(solution)
    drawn = [recipes.build(made, f"class {number}".encode()) for number in range(5)]
    assert all(case.hidden for cases in drawn for case in cases)
    assert len({tuple(case.about.en for case in cases) for cases in drawn}) > 1


def test_lab1_finds_a_good_text_long_before_it_would_give_up() -> None:
    package = recipes.package_of(labfile.SOLUTIONS / "lab1_foundations")
    until = package.tokens.until
    until.__defaults__ = (until.__defaults__[0] // 4,)
    texts = [one for one in vars(package.tokens).values() if isinstance(one, recipes.Recipe)]
    for number in range(4):
        assert recipes.build(texts, f"class {number}".encode())
