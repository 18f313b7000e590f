#!/bin/bash
# Merges what grade.sbatch has graded: merge.sh OUT [options of `python -m autograder merge`].
set -euo pipefail
out=$1
shift
exec "${PYTHON:-.venv/bin/python}" -m autograder merge "$out/class" "$out"/parts/* "$@"
