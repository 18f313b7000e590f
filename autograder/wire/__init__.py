"""What the judge and a worker say to each other: frames, messages, caps. Both sides read it."""
