"""Takes one hand-in through all checks, in a process of its own."""
