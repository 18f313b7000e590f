"""What solutions are compared with: oracles in float64, and the comparison with Hugging Face."""
