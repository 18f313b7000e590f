"""Lab 3: the cases. Adversarial on purpose, in the manner of lab 2's.

All sizes of a case are distinct, heads * head_dim is not hidden, norm weights are random. Cases of
attention by itself use no cache; those of decoding are given their mask, so that neither pays
for the other's mistakes.
"""

from . import attention, attention_probes, cache, decoding, mlp, rope

PARTS = (rope, cache, attention, attention_probes, decoding, mlp)

__all__ = ["PARTS"]
