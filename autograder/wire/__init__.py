"""The wire between judge and worker: frames, messages, caps. Both sides import it."""
