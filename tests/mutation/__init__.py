"""Automatic mutants: small changes to the solutions, each of which the grader has to notice.

A lab joins with a package here that is named like it (``lab2``): ``random_cases.py`` with
``answers(modules, number)``, which asks everything of a hand-in that the contract promises, and
``equivalent.toml``, the kept list of survivors that are no mistakes. A lab that has not joined
stands in ``run.WITHOUT`` with the reason.
"""
