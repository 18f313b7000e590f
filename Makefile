# qwen3-labs. `make` alone prints this menu; everything works as `python -m autograder …` too.
# Variables: LAB=2  K=rotary  PROMPT="Call me"  WEIGHTS=folder-or-hub-id  LAB_LANG=zh
#            VENV=path (an environment of yours)  TORCH_INDEX=url (where pip finds torch)

LAB ?= 2
export PROMPT
OUT ?= graded
DEMO_OUT := $(if $(filter file,$(origin OUT)),graded-demo,$(OUT))
HANDINS ?= examples/submissions
VENV ?= .venv
PYTHON ?= python3
TORCH_INDEX ?=

ifeq ($(OS),Windows_NT)
PY := $(VENV)/Scripts/python
else
PY := $(VENV)/bin/python
endif
RUN := $(PY) -m autograder
WITH_K := $(if $(K),-k "$(K)")
WITH_WEIGHTS := $(if $(WEIGHTS),--weights "$(WEIGHTS)")
# Students install the core; `make grade`, `make check` and friends what they need beyond it.
READY_CORE := $(VENV)/.ready-core
READY_DEV := $(VENV)/.ready-dev

.PHONY: menu setup setup-dev test debug chat grade demo doctor build audit check check-all fuzz attacks attacks-ablate bench chaos soak compat clean
.DEFAULT_GOAL := menu

menu:
	@echo "students      make test LAB=2 [K=rotary] check your files on the public cases"
	@echo "              make debug LAB=2 K=rotary  the same in one process, for breakpoints"
	@echo "              make chat LAB=2            talk to the tiny Qwen3 through your code"
	@echo "              make setup [TORCH_INDEX=u] install what students need (done by the others)"
	@echo "instructors   make demo                  grade the sample class into graded-demo/"
	@echo "              make grade HANDINS=folder OUT=folder [WEIGHTS=...]"
	@echo "              make doctor                try attacks on this machine, say what holds"
	@echo "authors       make build LAB=2           write stubs and public cases anew"
	@echo "              make audit LAB=2           prove what a lab promises"
	@echo "developers    make check | check-all | fuzz | bench | chaos | soak | compat"
	@echo "              make attacks | attacks-ablate   hostile hand-ins; the same, set free"

# An environment of yours keeps its torch: pip only adds what is missing.
PINNED := $(if $(filter .venv,$(VENV)),-c constraints.txt)

$(PY):
	$(PYTHON) -m venv "$(VENV)"

$(READY_CORE): pyproject.toml constraints.txt | $(PY)
	@echo "setting up $(VENV) (once; a few minutes)"
	$(if $(TORCH_INDEX),$(PY) -m pip install -q $(PINNED) --index-url "$(TORCH_INDEX)" torch)
	$(PY) -m pip install -q $(PINNED) -e ".[chat]"
	@touch "$@"

$(READY_DEV): $(READY_CORE)
	$(PY) -m pip install -q $(PINNED) -e ".[dev]"
	@touch "$@"

setup: $(READY_CORE)
setup-dev: $(READY_DEV)

# What "next:" in the scoreboard shows: a command that can be copied as it is.
MAKE_TEST := make test$(if $(filter-out .venv,$(VENV)), VENV=$(VENV)) LAB=$(LAB) K=

test: $(READY_CORE)
	@AUTOGRADER_NEXT="$(MAKE_TEST)" $(RUN) test --lab "$(LAB)" $(WITH_K) $(WITH_WEIGHTS)

debug: $(READY_CORE)
	@$(RUN) debug --lab "$(LAB)" $(WITH_K)

chat: $(READY_CORE)
	@$(RUN) chat --lab "$(LAB)"

grade: $(READY_CORE)
	@$(RUN) grade "$(HANDINS)" --lab "$(LAB)" --out "$(OUT)" $(WITH_WEIGHTS)

# Runs where layers of isolation are missing, too; the level is printed and in every report.
# Into a folder of its own unless OUT is given: a graded class must not be overwritten.
demo: $(READY_CORE)
	@$(RUN) grade examples/submissions --lab 2 --out "$(DEMO_OUT)" --allow-weak-isolation

doctor: $(READY_CORE)
	@$(RUN) doctor

build: $(READY_CORE)
	@$(RUN) build --lab "$(LAB)"

audit: $(READY_DEV)
	@$(RUN) audit --lab "$(LAB)"

check: $(READY_DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(RUN) audit --lab 2
	$(PY) -m pytest -q -m "not slow"

check-all: $(READY_DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(RUN) audit --lab 2
	$(PY) -m pytest -q

fuzz: $(READY_DEV)
	$(PY) -m tests.fuzz

attacks: $(READY_DEV)
	@$(PY) -m tests.attacks

attacks-ablate: $(READY_DEV)
	@$(PY) -m tests.attacks --ablate

bench: $(READY_DEV)
	$(PY) benchmarks/bench.py

# Kills of every kind of process while classes are graded; nothing may be lost or changed.
chaos: $(READY_DEV)
	@$(PY) -m tests.chaos

# 2,000 hand-ins in one go: what leaks would have grown by the end.
soak: $(READY_DEV)
	@$(PY) benchmarks/soak.py

compat: $(READY_DEV)
	$(PY) -m autograder.reference.compat

clean:
	rm -rf graded-demo .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
