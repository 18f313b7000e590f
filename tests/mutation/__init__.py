"""Automatic mutants: small changes to the solutions, each of which the grader has to notice.

A lab joins with a package here that is named like it (``lab2``): ``random_cases.py`` with
``PARTS``, the questions to each file, which ask together for everything that the contract promises,
and ``equivalent.toml``, the kept list of survivors that are no mistakes. A lab of which not all is
proved yet stands in ``run.OPEN`` with the reason.
"""
