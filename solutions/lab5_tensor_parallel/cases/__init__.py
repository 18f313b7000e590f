"""Lab 5: the cases. Adversarial on purpose, in the manner of lab 2's.

Sizes of a case are distinct, heads * head_dim is not hidden, norm weights are random, sequences
have different lengths. What a rank holds is data of the case, so that no check shows how a weight
is cut; cases of one rank say nothing of cutting at all.
"""

from . import attention, engine, flat, layer, linear, loading, mlp, norm, rotary, vocabulary

PARTS = (linear, norm, flat, attention, mlp, layer, loading, vocabulary, rotary, engine)

__all__ = ["PARTS"]
