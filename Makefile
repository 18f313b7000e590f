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
# Under names of our own, and as they were typed: PROMPT is what cmd.exe shows before a command.
export AUTOGRADER_PROMPT = $(if $(filter command,$(origin PROMPT)),$(value PROMPT))
export AUTOGRADER_PROMPT2 = $(if $(filter command,$(origin PROMPT2)),$(value PROMPT2))
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

# The language of what make itself says: LAB_LANG, or else the shell's.
SPEAKS := $(if $(findstring zh,$(or $(LAB_LANG),$(LC_ALL),$(LC_MESSAGES),$(LANG))),zh,en)
ifeq ($(SPEAKS),zh)
SETTING_UP = 正在创建 $(VENV)：只需一次，要几分钟
NO_PYTHON = 没有 $(PYTHON)，或其版本低于 3.11：请先 sudo apt install python3.11-venv，再 make setup \
PYTHON=python3.11（没有 root 权限：用 uv 或 conda，见 README.zh-CN.md）
NO_VENV = $(PYTHON) 无法创建环境：请先 sudo apt install python3-venv（没有 root 权限：用 uv 或 conda，见 README.zh-CN.md）
NO_ANSWER = 没有应答；torch 将与其他软件包一起安装
NOT_THERE = $(VENV) 不是 Python 虚拟环境；make setup VENV=$(VENV) 可以在那里创建
NO_GRADER = $(VENV) 中没有评分程序：请运行 make setup VENV=$(VENV)
else
SETTING_UP = setting up $(VENV): only this once, and it takes a few minutes
NO_PYTHON = $(PYTHON) is missing or older than 3.11: sudo apt install python3.11-venv, then make setup \
PYTHON=python3.11 (without root: uv or conda, see README.md)
NO_VENV = $(PYTHON) cannot make environments: sudo apt install python3-venv (without root: uv or conda, see README.md)
NO_ANSWER = no answer; torch will come with the other packages
NOT_THERE = $(VENV) is not an environment; make setup VENV=$(VENV) makes one there
NO_GRADER = $(VENV) lacks the grader: make setup VENV=$(VENV)
endif

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
	@sed -n 's/^#$(SPEAKS) //p' "$(firstword $(MAKEFILE_LIST))"
#en students      make test [LAB=2 K=rotary] check your files on the public cases
#en               make watch LAB=2           check again whenever you save
#en               make hint LAB=2 [K=rotary] a hint; ask again for more
#en               make debug LAB=2 K=rotary  the same checks in one process, for breakpoints
#en               make spot LAB=1            what is wrong with these claims? (ungraded)
#en               make review                the claims you got wrong, again; five minutes a day
#en               make chat LAB=2            talk to a tiny Qwen3 that runs on your code
#en               make serve LAB=7 [PORT=8000]  your engine over HTTP, for OpenAI clients
#en               make submit LAB=2 ID=… NAME=…  check your files and pack them to hand in
#en               make notebook              the labs in pictures, in your browser
#en               make carry FROM=2 TO=4     copy your files from lab 2 into lab 4
#en               make reset LAB=2           start over; your files are kept in backups/
#en               make report                write scores and pictures into my_report.md
#en               make doctor                can this machine run the labs?
#en               make setup [WHEELS=folder] install what you need (the other commands do it, too)
#zh 学生          make test [LAB=2 K=rotary] 用公开用例检查你的文件
#zh               make watch LAB=2           每次保存后自动再检查
#zh               make hint LAB=2 [K=rotary] 给一条提示；再次运行，会多说一些
#zh               make debug LAB=2 K=rotary  在同一个进程里做同样的检查，可以用断点
#zh               make spot LAB=1            这些说法错在哪里？（不计分）
#zh               make review                再做一遍答错的题；每天五分钟
#zh               make chat LAB=2            与运行在你的代码上的微型 Qwen3 对话
#zh               make serve LAB=7 [PORT=8000]  让你的引擎通过 HTTP 服务 OpenAI 客户端
#zh               make submit LAB=2 ID=… NAME=…  检查你的文件，并打包用于提交
#zh               make notebook              在浏览器里看图学习各个实验
#zh               make carry FROM=2 TO=4     把实验 2 的文件复制到实验 4
#zh               make reset LAB=2           重新开始；你的文件保存在 backups/
#zh               make report                把分数与图写进 my_report.md
#zh               make doctor                这台机器能运行这些实验吗？
#zh               make setup [WHEELS=folder] 安装所需的软件（其他命令也会自动安装）
# <instructors>
#en instructors   make demo                  grade the sample class into graded-demo/
#en               make grade HANDINS=folder OUT=folder [WEIGHTS=...]
#en               make doctor                try attacks on this machine, and say what holds
#en authors       make new-lab NAME=lab8_gate [FILES="a.py b.py"]  a tiny lab to start from
#en               make try LAB=2             check a lab in the making, in seconds
#en               make build LAB=2           write everything that is generated for a lab
#en               make audit LAB=2           prove what a lab promises
#en               make release [STUBS=zh]    the students' copy into dist/
#en developers    make check | check-all | fuzz | bench | chaos | soak | compat
#en               make attacks | attacks-ablate   hostile hand-ins; the same with defences off
#en               make mutants [LAB=2]       every known mistake is caught and named
#en               make mutants-auto LAB=2    small changes to the solution, all graded
#zh 教师          make demo                  给示例班级评分，写入 graded-demo/
#zh               make grade HANDINS=文件夹 OUT=文件夹 [WEIGHTS=...]
#zh               make doctor                在这台机器上试着攻击，报告哪些隔离有效
#zh 作者          make new-lab NAME=lab8_gate [FILES="a.py b.py"]  生成一个很小的实验作为起点
#zh               make try LAB=2             几秒内检查一个编写中的实验
#zh               make build LAB=2           写出一个实验中所有自动生成的文件
#zh               make audit LAB=2           证明一个实验的各项承诺
#zh               make release [STUBS=zh]    在 dist/ 中生成学生版（STUBS=zh：代码说明用中文）
#zh 开发者        make check | check-all | fuzz | bench | chaos | soak | compat
#zh               make attacks | attacks-ablate   恶意提交；以及关闭防护后的同样提交
#zh               make mutants [LAB=2]       每个已知错误都被发现，并说出名称
#zh               make mutants-auto LAB=2    自动小改参考答案，并全部评分

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
	--index-url $(CPU_BUILDS) torch || echo "$(NO_ANSWER)"
endif
# Forced, since a newer grader may have the same version.
WITH_GRADER = $(if $(GRADER),$(INSTALL) --force-reinstall --no-deps "$(GRADER)")
define NEW_VENV
@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "$(NO_PYTHON)" >&2; exit 2; }
@$(PYTHON) -c "import venv, ensurepip" 2>/dev/null || { echo "$(NO_VENV)" >&2; exit 2; }
$(PYTHON) -m venv "$(VENV)"
endef

ifeq ($(VENV),.venv)
$(PY):
	$(NEW_VENV)

$(READY_CORE): | $(PY)
	@echo "$(SETTING_UP)"
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
	@echo "$(NOT_THERE)" >&2; exit 2

has-core: | $(PY)
	@$(PY) -c "import autograder" 2>/dev/null || \
	{ echo "$(NO_GRADER)" >&2; exit 2; }
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
	@$(RUN) release $(if $(STUBS),--stubs "$(STUBS)")

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
