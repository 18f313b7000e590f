"""What a course consists of: labs, exercises, checks, outcomes, messages in two languages."""
