# For instructors without Linux: isolation and all, in a container with Docker's own profile.
#
#   docker build -t qwen3-labs .
#   docker run --rm qwen3-labs doctor
#   mkdir -p graded
#   docker run --rm -v "$PWD/hand-ins:/in:ro" -v "$PWD/graded:/out" qwen3-labs \
#       grade /in --out /out
#
# On Linux add --user "$(id -u)": the reports then belong to you, and not to the user 1000.
# No --privileged, no --security-opt: Docker 23 and newer let a process bind seccomp and
# Landlock, and a profile of your own has to. `doctor` says what holds.
FROM python:3.11-slim

# The CPU build: a tenth of the size of the one that pip takes by default.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

ENV LANG=C.UTF-8 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /app
# First what seldom changes: without these files nothing is installed anew.
COPY pyproject.toml constraints.txt README.md ./
RUN pip install -c constraints.txt --index-url "$TORCH_INDEX" torch \
    && pip install -c constraints.txt .

COPY labs ./labs
COPY solutions ./solutions
COPY autograder ./autograder
# Python's own cache of compiled code is written now: the user below may not.
RUN python -m compileall -q autograder labs/given \
    && useradd --uid 1000 --create-home grader \
    && mkdir /in /out \
    && chown grader: /out

USER grader
VOLUME ["/out"]
ENTRYPOINT ["python", "-m", "autograder"]
CMD ["doctor"]
