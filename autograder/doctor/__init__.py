"""What a machine can do and hold: facts, attacks that are tried, advice."""
