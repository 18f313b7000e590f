"""The conduct of grading: run, engine and its processes, journal, cases, shards, decisions."""
