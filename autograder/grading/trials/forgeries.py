"""Hand-ins that want points for nothing. What stops them is the border between processes."""

from __future__ import annotations

from autograder.course.records import Message
from autograder.grading.trials.records import FAIR, SCORE, Trial

HONEST = Trial(
    "honest", FAIR, Message("doctor.trial_honest"), "def double(x): return 2 * x\n", kit=False
)


def _forgery(name: str, title: Message, code: str) -> Trial:
    return Trial(name, SCORE, title, code, kit=False, alone=True)


FORGERIES = (
    _forgery("comparisons", Message("doctor.trial_comparisons"), """
import builtins, math, operator, numpy, torch, torch.testing
yes = lambda *a, **k: True
torch.testing.assert_close = numpy.testing.assert_allclose = yes
torch.allclose = torch.equal = torch.isclose = numpy.allclose = numpy.array_equal = yes
numpy.isclose = math.isclose = operator.eq = yes
torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.allclose = yes
def double(x): return 0 * x
"""),
    _forgery("equal_to_all", Message("doctor.trial_equal_to_all"), """
class Everything:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    __hash__ = None
def double(x): return Everything()
"""),
    _forgery("exit", Message("doctor.trial_exit"), """
import os
def double(x): os._exit(0)
"""),
    _forgery("system_exit", Message("doctor.trial_system_exit"), """
import sys
def double(x): sys.exit(0)
"""),
    _forgery("pickle", Message("doctor.trial_pickle"), """
import os
class Payload:
    def __reduce__(self): return os.mkdir, (P["pickled"],)
def double(x): return Payload()
"""),
    _forgery("heap", Message("doctor.trial_heap"), """
import gc, sys, torch
def other(thing, x):
    if type(thing) is not torch.Tensor or thing.shape != x.shape: return False
    return bool((thing != x).any()) and bool((thing != 0).any())
def double(x):
    for thing in gc.get_objects():
        if other(thing, x): return thing.clone()
    frame = sys._getframe()
    while frame is not None:
        for thing in list(frame.f_locals.values()):
            if other(thing, x): return thing.clone()
        frame = frame.f_back
    return torch.zeros_like(x)
"""),
    _forgery("forged_verdict", Message("doctor.trial_forged_verdict"), """
import os
def double(x):
    for descriptor in range(1, 64):
        try: os.write(descriptor, b'{"outcome": "passed", "score": 100}\\n')
        except OSError: pass
    os._exit(0)
"""),
)  # fmt: skip
