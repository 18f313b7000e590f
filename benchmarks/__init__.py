"""Costs of grading, beside those of the same checks asked otherwise: ``make bench``."""
