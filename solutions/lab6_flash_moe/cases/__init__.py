"""Lab 6: the cases. Adversarial on purpose, in the manner of the other labs'.

All sizes of a case are distinct. Cases of attention are blind to what other families get wrong:
queries of zero average values, whatever scores and softmax do; as many kv heads as heads leave no
sharing; one tile leaves no running maximum. Routed tokens have no tie at the ``top_k``-th place.
"""

from . import attention, attention_costs, experts, loss, router, scores

PARTS = (scores, attention, attention_costs, router, experts, loss)

__all__ = ["PARTS"]
