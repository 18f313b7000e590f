"""``make mutants [LAB=2]``: every known mistake is caught and named, and no right code is."""

from __future__ import annotations

import sys

from autograder.authoring.styles import texts_of
from autograder.course import labfile
from autograder.course.score import points_of
from autograder.diagnosis import misconceptions
from tests.proof.combined import Judge, drawn, share
from tests.proof.hosts import HOSTS, SOLUTION, Host, listed
from tests.proof.naming import hits, unnamed, wrongly_named
from tests.proof.spellings import faults as faults_of_spellings
from tests.proof.spellings import spellings, sure
from tests.proof.subject import SUBJECTS, Subject, end_engines

PAIRS, TRIPLES = 300, 200


def main(argv: list[str]) -> int:
    """Prove for the labs that are named (default: all); 0 when every bar is met."""
    wanted = [labfile.find_lab(name).name.split("_")[0] for name in argv[1:]] or list(SUBJECTS)
    return max(_lab(SUBJECTS[name]) for name in wanted)


def _lab(subject: Subject) -> int:
    print(f"{subject.lab.name}:", flush=True)
    faults = _singles(subject)
    for host in HOSTS if subject.lab.name == SOLUTION.name else ():
        faults += _other_host(subject, host)
    faults += _spelled(subject)
    faults += _combined(subject)
    end_engines()
    for fault in faults:
        print(f"  ! {fault}")
    return 1 if faults else 0


def _singles(subject: Subject) -> list[str]:
    right = {style.name: texts_of(style, subject.lab.files) for style in subject.styles}
    right["solution"] = subject.sources
    accepted = subject.grade(right)
    full = [
        name
        for name, hand_in in accepted.items()
        if points_of(subject.lab, hand_in.results).earned == 100 and not hand_in.findings
    ]
    entries = {entry.id: entry for entry in subject.mistakes}
    wrong = {n: misconceptions.apply(entry, subject.sources) for n, entry in entries.items()}
    records = subject.grade(wrong)
    true = {name: {entry.class_name} for name, entry in entries.items()}
    families = {n: {subject.family[c] for c in subject.lost(h)} for n, h in records.items()}
    caught = [n for n, e in entries.items() if families[n] & (set(e.families) or families[n])]
    missing = unnamed(true, records)
    faults = [f"{name}: not caught" for name in sorted(entries.keys() - set(caught))]
    faults += [f"{name}: not named" for name in missing]
    faults += [f"{name}: named {one}" for name, one in wrongly_named(true, records)]
    faults += [f"{name}: right, but not accepted" for name in sorted(right.keys() - set(full))]
    print(
        f"  misconceptions {len(entries)}, caught {len(caught)}, "
        f"named {len(entries) - len(missing)}, accepted {len(full)}/{len(right)} "
        f"({len({e.class_name for e in entries.values()})} classes)",
        flush=True,
    )
    return faults


def _other_host(subject: Subject, host: Host) -> list[str]:
    known, sources = listed(), host.mistakes
    records = subject.grade(sources)
    true = {name: {known[name].class_name} for name in sources}
    seen = [name for name in sources if hits(records[name], true[name])]
    wrong = list(wrongly_named(true, records))
    print(
        f"  in the host {host.name}: mistakes {len(sources)}, "
        f"named {share(seen, len(sources))}, wrong names {len(wrong)}; not named: "
        f"{', '.join(sorted(sources.keys() - set(seen))) or 'none'}",
        flush=True,
    )
    faults = [f"in the host {host.name}, {name}: named {one}" for name, one in wrong]
    few = [f"in the host {host.name} fewer than 97 %"] if len(seen) < 0.97 * len(true) else []
    return faults + few


def _spelled(subject: Subject) -> list[str]:
    written = spellings(subject)
    graded = subject.named({name: one.files for name, one in written.items()})
    named = [name for name, one in written.items() if sure(graded[name]) & one.names]
    found = list(faults_of_spellings(subject, written, graded))
    slips = len({one.slip for one in written.values()})
    print(
        f"  spellings {len(written)} of {slips} slips, "
        f"named {share(named, len(written))}, faults {len(found)}",
        flush=True,
    )
    return found


def _combined(subject: Subject) -> list[str]:
    judge, faults = Judge(subject), []
    for word, size, count in (("pairs", 2, PAIRS), ("triples", 3, TRIPLES)):
        hand_ins = drawn(subject, size, count)
        records = subject.named(hand_ins.sources)
        judged, like_one = judge.judge(hand_ins, records), judge.like_one(hand_ins, records)
        there = judged.count - len(judged.right)
        print(
            f"  {word} {count}: one or more named {share(judged.hit, there)}, "
            f"all {share(judged.whole, there)}, wrong names {len(judged.wrong)}; apart: "
            f"{len(judged.right)} equal to the right solution, {len(like_one)} to a single mistake",
            flush=True,
        )
        faults += [f"{word}: wrong name {one}" for one in judged.wrong]
        if size == 2 and len(judged.hit) < 0.95 * there:
            faults.append(f"of {word} fewer than 95 % are named")
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv))
