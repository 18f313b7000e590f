"""``checks``: one function that is the body of several checks, listed above it in a table.

Most checks of a lab ask the same of a callable on other cases. Such a question is written once::

    @checks(\"\"\"
        test_gate_runs: gate
            It runs and gives the right numbers.
            能运行，且数值正确。

        test_gate_wide: gate_wide gate_flat
            Any shape [..., dim] works.
            形状 [..., dim] 任意。
        \"\"\")
    def _expect_parity(student: Student, case: Case) -> None:
        unit = student.new("mlp.Gate", case["dim"], weights=case.weights)
        expect_close(unit(case["x"]), case["y"], case)

A row is the name of a check with its recipes; below it stands the title, English and Chinese.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from autograder.checks.expect import cases
from autograder.course.labfile import rows_of

_F = TypeVar("_F", bound=Callable[..., None])


def checks(table: str, *values: Any, **named: Any) -> Callable[[_F], _F]:
    """Make every row of a table a check with this body.

    Args:
        table: the rows; see :mod:`autograder.checks.contracts`.
        values: what the body gets after ``student`` and ``case``.
        named: the same, by name.
    """

    def made(body: _F) -> _F:
        assert isinstance(body, FunctionType)
        given = inspect.signature(body).bind(None, None, *values, **named)
        given.apply_defaults()
        for name, (recipes, title) in rows_of(table).items():
            if name in body.__globals__:
                raise ValueError(f"{body.__module__}: {name} stands twice")
            # A twin, so that pytest shows the place of the body; values are its defaults.
            check = FunctionType(body.__code__, body.__globals__, name, given.args[2:])
            check.__kwdefaults__ = given.kwargs
            check.__doc__, check.__module__ = title, body.__module__
            body.__globals__[name] = cases(*recipes)(check)
        return body

    return made
