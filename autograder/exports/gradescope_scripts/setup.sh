#!/usr/bin/env bash
# Gradescope runs this once, as root, while it builds the image.
set -euo pipefail

root="${AUTOGRADER_ROOT:-/autograder}"
source="$root/source"
code="$source/qwen3-labs"
python="${QWEN3_LABS_PYTHON:-}"
venv="${QWEN3_LABS_VENV:-/opt/qwen3-labs}"

if [ -z "$python" ]; then
    usable() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'; }
    found=""
    for name in python3.13 python3.12 python3.11 python3; do
        if command -v "$name" > /dev/null && usable "$name" 2> /dev/null; then
            found="$name"
            break
        fi
    done
    if [ -z "$found" ]; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get update
        for name in python3.12 python3.11; do
            if apt-get install -y --no-install-recommends "$name" "$name-venv"; then
                found="$name"
                break
            fi
        done
    fi
    if [ -z "$found" ]; then
        echo "no Python 3.11 or newer: choose a newer base image for this autograder"
        exit 1
    fi
    "$found" -m venv "$venv"
    python="$venv/bin/python"
    cd "$code"
    # The CPU build: a tenth of the size of the one that pip takes by default.
    "$python" -m pip install --no-cache-dir -c constraints.txt \
        --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" torch
    "$python" -m pip install --no-cache-dir -c constraints.txt -e .
fi

# Student code runs as nobody; where Landlock is missing, this is what keeps answers from it.
chmod 700 "$code/solutions" "$source"/settings.json
chmod 600 "$source/secret"

cd "$code"
"$python" -m autograder.exports.gradescope_run "$root" prepare
