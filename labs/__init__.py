"""The labs: one folder per lab, and ``given``, the code that students get for free."""
