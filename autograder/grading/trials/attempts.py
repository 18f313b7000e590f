"""What is tried against each guarantee of the jail, two trials or more for every one."""

from __future__ import annotations

from autograder.grading.trials.reaching import REACHING
from autograder.grading.trials.taking import TAKING

ATTEMPTS = (*REACHING, *TAKING)
