"""Random cases of lab 7, and the survivors that are no mistakes."""
