"""The face of pytest: fixtures, cases, outcomes, and the loop that runs a hand-in."""
