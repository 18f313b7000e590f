"""``python -m tests.attacks`` grades every attack; ``--ablate`` shows that each can succeed."""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence

from tests.attacks import faults
from tests.attacks.ablate import ablate
from tests.attacks.catalogue import ATTACKS, ELSEWHERE, FAULTS, OUT_OF_SCOPE
from tests.attacks.graded import grade, judge, of_all, write_class
from tests.attacks.ordinary import unavailable, unused_user
from tests.attacks.world import world

Row = tuple[str, str, str, str]
WIDTHS = (5, 62, 24)


def show(row: Row) -> None:
    """One line of the table."""
    cells = [cell[:width].ljust(width) for cell, width in zip(row, WIDTHS, strict=False)]
    print(" ".join((*cells, row[-1])), flush=True)


def contained(uid: int) -> tuple[set[int], set[int]]:
    """Grade the catalogue as ``uid``; the numbers tried, and those contained."""
    who = "root" if uid == 0 else "an ordinary user"
    print(f"\nas {who} (uid {uid})", flush=True)
    tried: set[int] = set()
    bad: set[int] = set()
    with world(uid) as made:
        folder, honest = write_class(made, ATTACKS)
        quiet = grade(made, "quiet", honest, uid)
        run = grade(made, "attacked", folder, uid)
        together = of_all(made, run, quiet)
        for attack in ATTACKS:
            verdict = judge(attack, run, quiet)
            if verdict.not_run:
                show((attack.id, attack.title, "not run", verdict.not_run))
                continue
            tried.add(attack.number)
            word = "contained" if verdict.contained else "NOT CONTAINED"
            show((attack.id, attack.title, f"{word}, {verdict.earned}", attack.held))
            if not verdict.contained:
                bad.add(attack.number)
                for fault in verdict.faults:
                    print(f"      {fault}")
        killed = faults.zygote_killed(made, honest, uid)
        found = {63: faults.never_less(killed, quiet, equal=True)}
        found[64] = faults.never_less(faults.busy(made, honest, uid), quiet, equal=True)
    for number, title in FAULTS.items():
        tried.add(number)
        word = "NOT CONTAINED" if found[number] else "contained"
        show((f"{number}", title, word, "not graded instead of 0; deadlines count CPU time"))
        bad |= {number} if found[number] else set()
        for fault in found[number]:
            print(f"      {fault}")
    for number, why in OUT_OF_SCOPE.items():
        show((f"{number}", why, "not tried", "out of scope"))
    for fault in together:
        print(f"NOT CONTAINED, all together: {fault}")
    return tried, set() if together else tried - bad


def tested() -> tuple[set[int], set[int]]:
    """Run the tests of what is no hand-in of a class; the numbers tried, and those contained."""
    print("\nin tests of their own", flush=True)
    good = set()
    for number, (title, test) in ELSEWHERE.items():
        line = [sys.executable, "-m", "pytest", "-q", "-n", "0", test]
        done = subprocess.run(line, capture_output=True, text=True)
        passed = done.returncode == 0
        good |= {number} if passed else set()
        show((f"{number}", title, "contained" if passed else "NOT CONTAINED", test.split("::")[0]))
        print("" if passed else done.stdout, end="")
    return set(ELSEWHERE), good


def attacks(hand_ins: bool) -> int:
    """Grade as root and as an ordinary user, where this machine lets us."""
    if sys.platform != "linux":
        print("attacks: not run, needs Linux")
        return 1
    # Orphans come to this process then, and can be counted.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    users = [os.geteuid()]
    reasons = []
    if os.geteuid() == 0:
        if why := unavailable():
            reasons.append(f"as an ordinary user: not run ({why})")
        else:
            users.append(unused_user())
    else:
        reasons.append("as root: not run (this is no root)")
    results = [contained(uid) for uid in users]
    print("\n" + "\n".join(reasons) if reasons else "")
    for uid, (tried, held) in zip(users, results, strict=True):
        print(f"as uid {uid}: {len(tried)} tried, {len(held)} contained")
    results += [] if hand_ins else [tested()]
    tried = set.union(*(one for one, _ in results))
    # What is tried as one user only counts if it held there.
    held = {n for n in tried if all(n in good for one, good in results if n in one)}
    print(f"attacks {len(tried)}, contained {len(held)}")
    return 0 if tried == held and len(tried) >= (68 if hand_ins else 75) else 1


def main(argv: Sequence[str]) -> int:
    """0 when everything tried is contained, or with ``--ablate`` succeeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--ablate", action="store_true", help="with the layers switched off")
    parser.add_argument("--only", default="", help="with --ablate: these ids, as in 04,14b")
    parser.add_argument("--hand-ins", action="store_true", help="not those that are tests anyway")
    chosen = parser.parse_args(argv)
    if chosen.ablate:
        return ablate(show, chosen.only.split(",") if chosen.only else ())
    return attacks(chosen.hand_ins)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
