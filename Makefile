# Every target is one line: the work is in toolchain/, which needs nothing but Debian's own python3.
STACK ?= dev
DATA_DIR ?=
PYTHON ?= python3
ARGS ?=
# `make up REPLACE_CLUSTER=yes` allows that a cluster is made anew, with all that is in it.
ifdef REPLACE_CLUSTER
export TRAINSTACK_REPLACE_CLUSTER := $(REPLACE_CLUSTER)
endif

.PHONY: up down test test-unit test-full review bench env clean

up:
	@$(PYTHON) -m toolchain up --stack "$(STACK)" $(if $(DATA_DIR),--data-dir "$(DATA_DIR)")

down:
	@$(PYTHON) -m toolchain down --stack "$(STACK)"

test:
	@$(PYTHON) -m toolchain test --suite ci -- $(ARGS)

test-unit:
	@$(PYTHON) -m toolchain test --suite unit -- $(ARGS)

test-full:
	@$(PYTHON) -m toolchain test --suite full -- $(ARGS)

review:
	@$(PYTHON) -m toolchain review --stack "$(STACK)"

bench:
	@$(PYTHON) -m toolchain bench -- $(ARGS)

env:
	@$(PYTHON) -m toolchain env --stack "$(STACK)"

clean:
	@$(PYTHON) -m toolchain clean
