"""Lab 4: the cases. Adversarial on purpose, in the manner of lab 2's.

Nearly all are about layers built from stand-ins (``labs/given/standin.py``), so that nothing a
student brings from lab 2 matters there; ``attention`` and ``whole`` are about the student's own.
All sizes of a case are distinct, norm weights are random.
"""

from . import attention, generating, layer, loading, masks, model, sampling, whole

PARTS = (layer, masks, model, loading, sampling, generating, attention, whole)

__all__ = ["PARTS"]
