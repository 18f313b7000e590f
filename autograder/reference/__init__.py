"""The right answers: the float64 reference, and the proof that it is Qwen3."""
