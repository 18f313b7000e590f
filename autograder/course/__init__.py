"""The parts of a course: labs, exercises, checks, outcomes, messages in two languages."""
