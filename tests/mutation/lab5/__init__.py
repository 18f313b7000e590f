"""Lab 5: random cases that tell its solutions apart, and the mutants that none tells apart."""
