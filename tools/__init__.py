"""Programs that are run by hand and seldom: the tiny checkpoint, releases of transformers."""
