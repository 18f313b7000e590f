# qwen3-labs. `make` alone prints this menu; everything works as `python -m autograder …` too.
# Variables: LAB=2  K=rotary  PROMPT="Call me"  TEMPERATURE=0  RANKS=2  PRINTS=1  LAB_LANG=zh
#            PROMPT2="The sea" (chat in lab 7: the second prompt)  PORT=8000 (serve)
#            TOKENIZER=labs/lab1_foundations/tokens.py (chat with your own tokenizer)
#            VENV=path (use your own environment)  TORCH_INDEX=url (where pip finds torch)
#            WHEELS=folder (set up from these wheels, without a network)
# <instructors>
#            WEIGHTS=folder-or-hub-id
# </instructors>

LAB ?= 2
export PROMPT PROMPT2
FROM ?= 2
TO ?= 4
FORCE ?=
# <instructors>
OUT ?= graded
DEMO_OUT := $(if $(filter file,$(origin OUT)),graded-demo,$(OUT))
HANDINS ?= examples/submissions
# </instructors>
VENV ?= .venv
PYTHON ?= python3
TORCH_INDEX ?=
WHEELS ?=
# The grader, where it comes with the course as a wheel.
GRADER := $(lastword $(sort $(wildcard grader/*.whl)))

ifeq ($(OS),Windows_NT)
PY := $(VENV)/Scripts/python
else
PY := $(VENV)/bin/python
endif
RUN := $(PY) -m autograder
WITH_K := $(if $(K),-k "$(K)")
# <instructors>
WITH_WEIGHTS := $(if $(WEIGHTS),--weights "$(WEIGHTS)")
# </instructors>
# Without LAB= on the command line: all labs.
ALL_OR_LAB := $(if $(filter file,$(origin LAB)),,--lab "$(LAB)")
# <instructors>
# Students install the core; `make grade`, `make check` and others install what they need besides.
# </instructors>
ifeq ($(VENV),.venv)
# Named after what they were made from: in a copied folder, file times differ.
MADE_OF := $(shell cat pyproject.toml constraints.txt $(GRADER) | cksum | cut -d" " -f1)
READY_CORE := $(VENV)/.ready-core-$(MADE_OF)
READY_NOTEBOOKS := $(VENV)/.ready-notebooks-$(MADE_OF)
# <instructors>
READY_DEV := $(VENV)/.ready-dev-$(MADE_OF)
# </instructors>
else
READY_CORE := has-core
READY_NOTEBOOKS := has-notebooks
# <instructors>
READY_DEV := has-dev
# </instructors>
.PHONY: has-core has-notebooks has-dev
endif
# <instructors>

.PHONY: setup-dev grade demo new-lab try build audit tidy check check-all fuzz attacks attacks-ablate bench bench-others bench-diagnosis bench-scaling
.PHONY: mutants mutants-auto chaos soak compat release release-check notebooks-check clean
# </instructors>
.PHONY: menu help setup test watch hint debug submit spot review chat serve notebook carry reset report doctor
.DEFAULT_GOAL := menu

menu help:
	@echo "students      make test [LAB=2 K=rotary] check your files on the public cases"
	@echo "              make watch LAB=2           check again whenever you save"
	@echo "              make hint LAB=2 [K=rotary] a hint; ask again for more"
	@echo "              make debug LAB=2 K=rotary  the same checks in one process, for breakpoints"
	@echo "              make spot LAB=1            what is wrong with these claims? (ungraded)"
	@echo "              make review                the claims you got wrong, again; five minutes a day"
	@echo "              make chat LAB=2            talk to a tiny Qwen3 that runs on your code"
	@echo "              make serve LAB=7 [PORT=8000]  your engine over HTTP, for OpenAI clients"
	@echo "              make submit LAB=2 ID=… NAME=…  check your files and pack them to hand in"
	@echo "              make notebook              the labs in pictures, in your browser"
	@echo "              make carry FROM=2 TO=4     copy your files from lab 2 into lab 4"
	@echo "              make reset LAB=2           start over; your files are kept in backups/"
	@echo "              make report                write scores and pictures into my_report.md"
	@echo "              make doctor                can this machine run the labs?"
	@echo "              make setup [WHEELS=folder] install what you need (the other commands do it, too)"
# <instructors>
	@echo "instructors   make demo                  grade the sample class into graded-demo/"
	@echo "              make grade HANDINS=folder OUT=folder [WEIGHTS=...]"
	@echo "              make doctor                try attacks on this machine, and say what holds"
	@echo "authors       make new-lab NAME=lab8_gate [FILES=\"a.py b.py\"]  a tiny lab to start from"
	@echo "              make try LAB=2             check a lab in the making, in seconds"
	@echo "              make build LAB=2           write everything that is generated for a lab"
	@echo "              make audit LAB=2           prove what a lab promises"
	@echo "              make release               the students' copy into dist/"
	@echo "developers    make check | check-all | fuzz | bench | chaos | soak | compat"
	@echo "              make attacks | attacks-ablate   hostile hand-ins; the same with defences off"
	@echo "              make mutants [LAB=2]       every known mistake is caught and named"
	@echo "              make mutants-auto LAB=2    small changes to the solution, all graded"

# Test processes at a time: one more than two cores, since tests of processes wait a lot. The tests
# of a module, or of a lab's proofs, stay in one.
JOBS ?= 3
# </instructors>

INSTALL := $(PY) -m pip install $(if $(WHEELS),--no-index --find-links "$(WHEELS)") \
	$(if $(filter .venv,$(VENV)),-c constraints.txt)
# Without a GPU, Linux takes PyTorch's builds for the CPU: a tenth of the download. Where they cannot
# be reached, torch comes from where everything else does, as its dependencies always do.
CPU_BUILDS := https://download.pytorch.org/whl/cpu
HAS_GPU := $(PY) -c "import sys, shutil; sys.exit(sys.platform == 'linux' and not shutil.which('nvidia-smi'))"
ifneq ($(WHEELS),)
WITH_TORCH :=
else ifneq ($(TORCH_INDEX),)
WITH_TORCH = $(INSTALL) --no-deps --index-url "$(TORCH_INDEX)" torch
else
WITH_TORCH = $(HAS_GPU) || $(INSTALL) --no-deps --retries 0 --timeout 10 \
	--index-url $(CPU_BUILDS) torch || echo "no answer; torch will come with the other packages"
endif
# Forced, since a newer grader may have the same version.
WITH_GRADER = $(if $(GRADER),$(INSTALL) --force-reinstall --no-deps "$(GRADER)")
define NEW_VENV
@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "$(PYTHON) is missing or \
older than 3.11: sudo apt install python3.11-venv, then make setup PYTHON=python3.11 (without root: \
uv or conda, see README.md)" >&2; exit 2; }
@$(PYTHON) -c "import venv, ensurepip" 2>/dev/null || { echo "$(PYTHON) cannot make environments: \
sudo apt install python3-venv (without root: uv or conda, see README.md)" >&2; exit 2; }
$(PYTHON) -m venv "$(VENV)"
endef

ifeq ($(VENV),.venv)
$(PY):
	$(NEW_VENV)

$(READY_CORE): | $(PY)
	@echo "setting up $(VENV): only this once, and it takes a few minutes"
	$(WITH_TORCH)
	$(WITH_GRADER)
	$(INSTALL) -e ".[chat]"
	@touch "$@"

$(READY_NOTEBOOKS): $(READY_CORE)
	$(INSTALL) -e ".[chat,notebooks]"
	@touch "$@"

# <instructors>
$(READY_DEV): $(READY_CORE)
	$(INSTALL) -e ".[dev]"
	@touch "$@"

setup-dev: $(READY_DEV)
# </instructors>
setup: $(READY_CORE)
else
# Only `make setup` writes to an environment of yours, and its torch stays: pip only adds what is
# missing. All other commands just say what is missing.
$(PY):
	@echo "$(VENV) is not an environment; make setup VENV=$(VENV) makes one there" >&2; exit 2

has-core: | $(PY)
	@$(PY) -c "import autograder" 2>/dev/null || \
	{ echo "$(VENV) lacks the grader: make setup VENV=$(VENV)" >&2; exit 2; }
	@$(SAID) $(PY) -m autograder.doctor.machine chat

has-notebooks: | $(PY)
	@$(SAID) $(PY) -m autograder.doctor.machine chat notebooks

setup:
	@test -x "$(PY)" || $(PYTHON) -m venv "$(VENV)"
	$(if $(TORCH_INDEX),$(WITH_TORCH))
	$(WITH_GRADER)
	$(INSTALL) -e ".[chat]"

# <instructors>
has-dev: | $(PY)
	@$(SAID) $(PY) -m autograder.doctor.machine dev

setup-dev: setup
	$(INSTALL) -e ".[dev]"
# </instructors>
endif

# What a command that is shown has to repeat, so that it can be copied as it is.
SETTINGS := $(if $(LAB_LANG),LAB_LANG=$(LAB_LANG)) $(if $(filter-out .venv,$(VENV)),VENV=$(VENV))
SAID := AUTOGRADER_MAKE="$(strip $(SETTINGS))"

# A sentence has said what is wrong: make adds no "Error 1" below it. Any other status is a fault.
ENOUGH := || [ $$? -le 2 ]

test: $(READY_CORE)
	@$(SAID) $(RUN) test $(ALL_OR_LAB) $(WITH_K) $(if $(PRINTS),--prints) $(WITH_WEIGHTS) $(ENOUGH)

watch: $(READY_CORE)
	@$(SAID) $(RUN) watch --lab "$(LAB)" $(WITH_K) $(ENOUGH)

hint: $(READY_CORE)
	@$(SAID) $(RUN) hint --lab "$(LAB)" $(WITH_K) $(ENOUGH)

debug: $(READY_CORE)
	@$(RUN) debug --lab "$(LAB)" $(WITH_K) $(ENOUGH)

# From the command line only: some shells set a NAME of their own.
submit: $(READY_CORE)
	@$(SAID) $(RUN) submit --lab "$(LAB)" $(if $(FORCE),--force) \
		--id "$(if $(filter command,$(origin ID)),$(ID))" \
		--name "$(if $(filter command,$(origin NAME)),$(NAME))" $(ENOUGH)

spot: $(READY_CORE)
	@$(SAID) $(RUN) spot --lab "$(LAB)" $(ENOUGH)

review: $(READY_CORE)
	@$(SAID) $(RUN) review $(ENOUGH)

chat: $(READY_CORE)
	@$(RUN) chat --lab "$(LAB)" $(if $(TEMPERATURE),--temperature "$(TEMPERATURE)") \
		$(if $(RANKS),--ranks "$(RANKS)") $(if $(TOKENIZER),--tokenizer "$(TOKENIZER)") $(ENOUGH)

# Ctrl-C ends the server alone, which then says how it went.
serve: $(READY_CORE)
	@trap : INT; $(RUN) serve --lab "$(LAB)" $(if $(PORT),--port "$(PORT)") $(ENOUGH)

notebook: $(READY_NOTEBOOKS)
	@$(PY) -m jupyter lab notebooks

# Copies your files into a lab that builds on them; never overwrites your work.
carry: $(READY_CORE)
	@$(SAID) $(RUN) carry --from "$(FROM)" --to "$(TO)" $(if $(FORCE),--force) $(ENOUGH)

# The files of a lab as they were handed out; yours are kept in backups/. K=mlp: that file alone.
reset: $(READY_CORE)
	@$(SAID) $(RUN) reset --lab "$(LAB)" $(WITH_K) $(ENOUGH)

report: $(READY_CORE)
	@$(SAID) $(RUN) report $(ALL_OR_LAB) $(ENOUGH)

# <instructors>
# Run again, it goes on with the class in OUT: what still holds is kept.
grade: $(READY_CORE)
	@$(RUN) grade "$(HANDINS)" --lab "$(LAB)" --out "$(OUT)" $(WITH_WEIGHTS) --resume

# Runs where layers of isolation are missing, too; the level is printed and in every report.
# Into a folder of its own unless OUT is given: a graded class must not be overwritten.
demo: $(READY_CORE)
	@$(RUN) grade examples/submissions --lab 2 --out "$(DEMO_OUT)" --again --allow-weak-isolation

# </instructors>
doctor: $(READY_CORE)
	@$(SAID) $(RUN) doctor $(ENOUGH)

# <instructors>
# The students' copy: a folder for a template repository and a zip, in dist/.
release: $(READY_CORE)
	@$(RUN) release

# The zip on a bare machine: unpacked, set up anew from the package index, solved: 100 in every lab.
release-check: $(READY_DEV)
	$(PY) -m pytest -q tests/authoring/test_release_install.py

# Every notebook from top to bottom, with nothing written and with the solutions; in check-all, too.
notebooks-check: $(READY_DEV)
	$(PY) -m pytest -q tests/authoring/test_notebooks_run.py

new-lab: $(READY_CORE)
	@$(RUN) new-lab "$(NAME)" $(if $(FILES),--files $(FILES))

try: $(READY_CORE)
	@$(RUN) try --lab "$(LAB)"

build: $(READY_CORE)
	@$(RUN) build --lab "$(LAB)"

audit: $(READY_DEV)
	@$(RUN) audit $(ALL_OR_LAB)

# Types and the audits of all labs are tests like the others: tests/test_house.py.
# Compiled modules are kept, also where somebody's environment says not to: commands start sooner.
TESTS = PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n $(JOBS) $(OPTIONS)

tidy: $(READY_DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -c "from importlinter.cli import lint_imports_command as c; c()"

check: tidy
	$(TESTS) -m "not slow"

check-all: tidy
	$(TESTS)

fuzz: $(READY_DEV)
	$(PY) -m tests.fuzz

attacks: $(READY_DEV)
	@$(PY) -m tests.attacks

attacks-ablate: $(READY_DEV)
	@$(PY) -m tests.attacks --ablate

# How long the tests take (half an hour), then what grading costs.
bench: $(READY_DEV)
	$(PY) -m benchmarks.suite
	$(PY) benchmarks/bench.py

# Beside otter-grader, nbgrader and check50, each in an environment of its own (in .others/).
bench-others: $(READY_DEV)
	@$(PY) -m benchmarks.others

# 100, 1,000 and 10,000 hand-ins (an hour); an interrupted run goes on where it was.
bench-scaling: $(READY_DEV)
	$(PY) benchmarks/scaling.py

# CPU per right and per wrong hand-in, with diagnosis and without.
bench-diagnosis: $(READY_DEV)
	$(PY) -m benchmarks.diagnosis "$(LAB)"

# Every known mistake is caught and named, in other hosts and in company; all labs without LAB=.
mutants: $(READY_DEV)
	@$(PY) -m tests.proof $(if $(filter file,$(origin LAB)),,$(LAB))

# Every small change to a solution loses points, or is shown to change no answer.
mutants-auto: $(READY_DEV)
	@$(PY) -m tests.mutation --lab "$(LAB)"

# Kills of every kind of process while classes are graded; nothing may be lost or changed.
chaos: $(READY_DEV)
	@$(PY) -m tests.chaos

# 2,000 hand-ins in one go: what leaks would have grown by the end.
soak: $(READY_DEV)
	@$(PY) benchmarks/soak.py

compat: $(READY_DEV)
	$(PY) -m tools.compat

clean:
	rm -rf graded-demo .recordings .hints.json .spot.json .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
# </instructors>
