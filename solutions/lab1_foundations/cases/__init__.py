"""Lab 1: the cases. Adversarial on purpose: nothing an ordinary case hides stays hidden.

All sizes of a case are distinct (batch, heads, queries, keys, head_dim, size of the values), and
heads * head_dim is not hidden. A case that is named after a property is blind to the other
mistakes: where a query *looks something up*, its best key leads so far that neither the scale
nor the kind of softmax matters; where keys are zero, it averages what it may see.
"""

from . import (
    attention,
    attention_probes,
    decoding,
    feed_forward,
    multi_head,
    norms,
    softmax,
    tokens,
    vectors,
)

PARTS = (
    softmax,
    attention,
    attention_probes,
    multi_head,
    norms,
    feed_forward,
    tokens,
    decoding,
    vectors,
)

__all__ = ["PARTS"]
