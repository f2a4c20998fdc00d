# Every target is one line: the work is in toolchain/, which needs only Debian's own python3.
STACK ?= dev
DATA_DIR ?=
# For one `make up`: ADOPT=<owner id> takes over a stack without a state, REPLACE_CLUSTER=yes may replace the cluster.
ADOPT ?=
REPLACE_CLUSTER ?=
# For `make up`: a file for the times of all steps, for a browser's trace viewer.
TRACE ?=
# For `make review`: a branch or revision. The review compares with the commit where this branch leaves it.
# Default: the main branch.
BASE ?=
PYTHON ?= python3
ARGS ?=
# For `make use`: a run that `make runs` lists, or the word none.
RUN ?=
# For `make compare`: two runs that `make runs` lists.
A ?=
B ?=
# For `make board`: TensorBoard's port on this machine, 0 for a free port.
PORT ?= 6006
# For `make rerun`: one job of a stack that has several.
JOB ?=
# For `make promote`: two stacks, and the least accuracy that each run of the first stack must have.
FROM ?=
TO ?=
MIN_ACCURACY ?=

# For toolchain/__main__.py, which refuses a variable that the target does not take.
export TRAINSTACK_MAKE_GIVEN := $(strip $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name))))
export TRAINSTACK_MAKE_GOALS := $(MAKECMDGOALS)
# All variables of Python itself: with them, Python finds others' modules, or each process compiles ours again.
unexport $(filter-out PYTHON PYTHON_%,$(filter PYTHON%,$(.VARIABLES)))

.PHONY: up fetch down watch status doctor runs models use compare sweep board test test-unit test-full reliability pictures review docs drift rerun promote audit lock-images bench env clean

up:
	@$(PYTHON) -m toolchain up --stack "$(STACK)" --data-dir "$(DATA_DIR)" --adopt "$(ADOPT)" --replace-cluster "$(REPLACE_CLUSTER)" --trace "$(TRACE)" $(ARGS)

fetch:
	@$(PYTHON) -m toolchain fetch --stack "$(STACK)" $(ARGS)

down:
	@$(PYTHON) -m toolchain down --stack "$(STACK)" $(ARGS)

watch:
	@$(PYTHON) -m toolchain watch --stack "$(STACK)" $(ARGS)

status:
	@$(PYTHON) -m toolchain status --stack "$(STACK)" $(ARGS)

doctor:
	@$(PYTHON) -m toolchain doctor --stack "$(STACK)" $(ARGS)

runs:
	@$(PYTHON) -m toolchain runs $(if $(filter-out file,$(firstword $(origin STACK))),--stack "$(STACK)") $(ARGS)

models:
	@$(PYTHON) -m toolchain models $(ARGS)

use:
	@$(PYTHON) -m toolchain use --stack "$(STACK)" $(ARGS) -- "$(RUN)"

compare:
	@$(PYTHON) -m toolchain compare $(ARGS) -- "$(A)" "$(B)"

sweep:
	@$(PYTHON) -m toolchain sweep --stack "$(STACK)" $(ARGS)

board:
	@$(PYTHON) -m toolchain board --port "$(PORT)" $(ARGS)

test:
	@$(PYTHON) -m toolchain test --suite ci -- $(ARGS)

test-unit:
	@$(PYTHON) -m toolchain test --suite unit -- $(ARGS)

test-full:
	@$(PYTHON) -m toolchain test --suite full -- $(ARGS)

reliability:
	@$(PYTHON) -m toolchain test --suite reliability -- $(ARGS)

pictures:
	@$(PYTHON) -m toolchain test --suite pictures -- $(ARGS)

review:
	@$(PYTHON) -m toolchain review --stack "$(STACK)" --base "$(BASE)" $(ARGS)

docs:
	@$(PYTHON) -m toolchain docs $(ARGS)

drift:
	@$(PYTHON) -m toolchain drift --stack "$(STACK)" $(ARGS)

rerun:
	@$(PYTHON) -m toolchain rerun --stack "$(STACK)" --job "$(JOB)" $(ARGS)

promote:
	@$(PYTHON) -m toolchain promote --source "$(FROM)" --target "$(TO)" --min-accuracy "$(MIN_ACCURACY)" $(ARGS)

audit:
	@$(PYTHON) -m toolchain audit $(ARGS)

lock-images:
	@$(PYTHON) -m toolchain lock-images $(ARGS)

bench:
	@$(PYTHON) -m toolchain bench -- $(ARGS)

env:
	@$(PYTHON) -m toolchain env --stack "$(STACK)" $(ARGS)

clean:
	@$(PYTHON) -m toolchain clean $(ARGS)
