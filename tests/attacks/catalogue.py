"""The whole list of attacks and faults, by number."""

from __future__ import annotations

from tests.attacks import answers, forging, intake, machine, score
from tests.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = tuple(
    sorted(
        (*score.ATTACKS, *forging.ATTACKS, *answers.ATTACKS, *machine.ATTACKS, *intake.ATTACKS),
        key=lambda attack: attack.id,
    )
)
# Faults that are no hand-in: the tests of `faults` make them happen.
FAULTS = {
    63: "the zygote is killed while a class is graded",
    64: "the machine is busy while a class is graded",
}
OUT_OF_SCOPE = {
    46: "a score as an oracle: hidden cases only at the deadline, coarse feedback",
    66: "an exploit of the kernel: a virtual machine for hostile public use",
}
assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)


def numbers(attacks: tuple[Attack, ...] = ATTACKS) -> set[int]:
    """The numbers of the list that these attacks try."""
    return {attack.number for attack in attacks}
