"""What grading costs, beside what the same checks cost otherwise: ``make bench``."""
