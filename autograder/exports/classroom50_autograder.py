"""The autograder of Classroom 50, run in a student's checkout: one lab on its public cases.

The grader lies beside this file, so a student's copy of it does not count. What is needed is
installed first: no package but Python's own is used here. Contract: foundation50/classroom50,
``wiki/Advanced-Autograding.md``; ``status`` other than 0 says that the fault is not the student's.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from datetime import datetime, timezone
from pathlib import Path

LAB = "lab2_qwen3_block"
LANGUAGE = "en"
TORCH = "https://download.pytorch.org/whl/cpu"


def main() -> None:
    """Check the files of the lab, here or in the lab's folder, and write ``result.json``."""
    here = Path.cwd()
    folder = here / "labs" / LAB
    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(Path(__file__).with_name("qwen3-labs.zip")) as archive:
            archive.extractall(place)
        pip = [sys.executable, "-m", "pip", "install", "-q", "-c", "constraints.txt"]
        subprocess.run([*pip, "--index-url", TORCH, "torch"], cwd=place, check=True)
        subprocess.run([*pip, "-e", "."], cwd=place, check=True)
        checked = Path(place) / "checked.json"
        test = [sys.executable, "-m", "autograder", "test", "--lab", LAB, "--lang", LANGUAGE]
        test += ["--folder", str(folder if folder.is_dir() else here), "--json", str(checked)]
        if subprocess.run(test, cwd=place).returncode > 1:
            sys.exit("nothing could be checked")
        result = json.loads(checked.read_text(encoding="utf-8"))
    (here / "result.json").write_text(json.dumps(identity() | result, indent=1) + "\n")


def identity() -> dict[str, str]:
    """Return whose result it is, of which commit, as the runner tells it."""
    told = os.environ
    shown = ["git", "show", "-s", "--format=%ct", "HEAD"]
    committed = subprocess.run(shown, capture_output=True, text=True).stdout.strip()
    seconds = int(committed) if committed.isdigit() else None
    when = datetime.now(timezone.utc)  # noqa: UP017  whichever Python the runner has
    if seconds is not None:
        when = datetime.fromtimestamp(seconds, timezone.utc)  # noqa: UP017
    return {
        "schema": "classroom50/result/v1",
        "classroom": told["CLASSROOM"],
        "assignment": told["ASSIGNMENT"],
        "submission": told["SUBMISSION_TAG"],
        "commit": told["COMMIT_URL"],
        "release": told["RELEASE_URL"],
        "review": told.get("REVIEW_URL") or told["COMMIT_URL"],
        "datetime": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


if __name__ == "__main__":
    main()
