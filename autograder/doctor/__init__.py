"""The examination of a machine: facts, attacks that are tried, advice."""
