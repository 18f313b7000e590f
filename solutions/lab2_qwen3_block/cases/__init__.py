"""Lab 2: the cases. Adversarial on purpose: nothing a default tiny config hides stays hidden.

All sizes of a case are distinct (batch, tokens, heads, kv heads, head_dim), neither
heads * head_dim nor batch * tokens is hidden, hidden // heads is no other size, the group size is
not the number of kv heads, and norm weights are random and different within each rotation pair.
A case that is named after a property is blind to the other families: its expected result does
not depend on what they get wrong.
"""

from . import accounting, attention, attention_probes, checkpoint, mlp, rope
from .checkpoint import real_cases

PARTS = (rope, attention, attention_probes, mlp, checkpoint, accounting)

__all__ = ["PARTS", "real_cases"]
