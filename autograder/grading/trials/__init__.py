"""Attacks tried for real in a scratch grading, to see which promises hold on this machine."""
