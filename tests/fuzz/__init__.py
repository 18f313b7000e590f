"""Fuzzing of everything that reads bytes which strangers wrote."""
