"""How a class is graded: the engine and its processes, journal, cases, shards, decisions."""
