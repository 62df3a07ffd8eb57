# Everything a checkout can do. `make help` says what; `make demo` is the place to start.
# Only POSIX sh, make and a Python >= 3.10 are assumed; where pip gets its packages is pip's own configuration.

SHELL := /bin/sh
PYTHON ?= $(shell sh scripts/find-python.sh)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check
TEST_ARGS ?=
BENCH_ARGS ?=
FUZZ_CASES ?= 10000
# Two training processes on two cores: more threads than cores only get into each other's way.
export OMP_NUM_THREADS ?= 1
# pytest rewrites the assertions of 256 files, 5 s for each of its processes where it may not keep the result.
unexport PYTHONDONTWRITEBYTECODE
# Each framework's environment is its own: .venv-tensorflow, .venv-jax, …; job files name them.
FRAMEWORKS := $(VENV)/.stamp-accelerate .venv-tensorflow/.stamp .venv-jax/.stamp .venv-mpi/.stamp \
	.venv-deepspeed/.stamp .venv-horovod/.stamp

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo setup test test-fast test-pythons fuzz lint bench docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-base $(VENV)/.stamp-torch ## train on 2 nodes × 2 ranks of this machine and print the accuracy (sets up first)
	@echo '==> $(BIN)/worldsize run examples/digits/job.yml -w 2x2'
	@$(BIN)/worldsize run examples/digits/job.yml -w 2x2

setup: $(VENV)/.stamp-base $(VENV)/.stamp-env $(VENV)/.stamp-torch $(FRAMEWORKS) ## .venv/ with the worldsize command and torch, and one environment per other framework
	@$(BIN)/python -m compileall -q src/worldsize
	@echo '==> ready: $(BIN)/worldsize'

$(VENV)/.stamp-base: pyproject.toml
	@echo '==> [1/2] worldsize and its dependencies (about 5 MB) into $(VENV)/'
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh $(VENV)
	@$(PIP_INSTALL) --quiet --editable .
	@$(BIN)/python -m compileall -q src/worldsize
	@touch $@

$(VENV)/.stamp-torch: requirements/torch.txt | $(VENV)/.stamp-base
	@echo '==> [2/2] torch, numpy and scikit-learn: about 270 MB to download and 1.2 GB on disk'
	@echo '    with the CPU build; this takes minutes, once'
	@$(PIP_INSTALL) --requirement requirements/torch.txt
	@touch $@

$(VENV)/.stamp-env: requirements/environments.txt | $(VENV)/.stamp-base
	@echo '==> uv and py-rattler into $(VENV)/ (about 45 MB)'
	@$(PIP_INSTALL) --quiet --requirement requirements/environments.txt
	@touch $@

$(VENV)/.stamp-test: requirements/test.txt requirements/light.txt | $(VENV)/.stamp-base
	@echo '==> test tools into $(VENV)/'
	@$(PIP_INSTALL) --quiet --requirement requirements/test.txt
	@touch $@

$(VENV)/.stamp-accelerate: requirements/accelerate.txt requirements/torch.txt | $(VENV)/.stamp-torch
	@echo '==> accelerate into $(VENV)/ (45 MB)'
	@$(PIP_INSTALL) --quiet --requirement requirements/accelerate.txt --constraint requirements/torch.txt
	@touch $@

.venv-tensorflow/.stamp: requirements/tensorflow.txt requirements/tensorflow-keras.txt
	@echo '==> TensorFlow into .venv-tensorflow/: about 300 MB to download and 1.8 GB on disk'
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh .venv-tensorflow
	@.venv-tensorflow/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/tensorflow.txt
	@.venv-tensorflow/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement requirements/tensorflow-keras.txt
	@touch $@

.venv-jax/.stamp: requirements/jax.txt
	@echo '==> JAX into .venv-jax/: about 150 MB to download and 600 MB on disk'
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh .venv-jax
	@.venv-jax/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/jax.txt
	@touch $@

.venv-mpi/.stamp: requirements/mpi.txt
	@echo '==> mpi4py and an Open MPI of its own into .venv-mpi/: about 40 MB to download and 120 MB on disk'
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh .venv-mpi
	@.venv-mpi/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/mpi.txt
	@touch $@

.venv-deepspeed/.stamp: requirements/deepspeed.txt requirements/torch.txt scripts/make-deepspeed.sh
	@PYTHON='$(PYTHON)' sh scripts/make-deepspeed.sh .venv-deepspeed

.venv-horovod/.stamp: requirements/horovod.txt requirements/torch.txt scripts/make-horovod.sh
	@PYTHON='$(PYTHON)' sh scripts/make-horovod.sh .venv-horovod

.venv-azure/.stamp: requirements/azure.txt
	@echo "==> Azure's own SDK, to compare with, into .venv-azure/ (about 110 MB)"
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh .venv-azure
	@.venv-azure/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/azure.txt
	@touch $@

test: $(VENV)/.stamp-base $(VENV)/.stamp-env $(VENV)/.stamp-torch $(FRAMEWORKS) $(VENV)/.stamp-test .venv-azure/.stamp lint ## linters, every test, and the fast ones on other Pythons
	@sh scripts/system-packages.sh
	@$(BIN)/python scripts/run_tests.py $(TEST_ARGS)
	@$(MAKE) --no-print-directory test-pythons

test-fast: $(VENV)/.stamp-base $(VENV)/.stamp-test ## the unit tests: seconds, without torch
	@$(BIN)/python -m pytest -q -n 2 -m 'not slow and not serial' tests/unit $(TEST_ARGS)

test-pythons: $(VENV)/.stamp-base ## the fast tests on the oldest and the newest supported Python found here
	@$(BIN)/python scripts/test_pythons.py

fuzz: $(VENV)/.stamp-base $(VENV)/.stamp-test ## property tests with FUZZ_CASES=10000 cases each
	@WORLDSIZE_FUZZ_CASES=$(FUZZ_CASES) $(BIN)/python -m pytest -q -n 2 --timeout=3600 tests/unit/test_*fuzz*.py $(TEST_ARGS)

lint: $(VENV)/.stamp-base $(VENV)/.stamp-env $(VENV)/.stamp-test ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.stamp-base $(VENV)/.stamp-env $(VENV)/.stamp-torch $(VENV)/.stamp-test ## the figures of docs/performance.md
	@sh scripts/system-packages.sh
	@for file in benchmarks/bench_*.py; do echo "==> $$file"; $(BIN)/python "$$file" $(BENCH_ARGS) || exit 1; done

docs: $(VENV)/.stamp-base $(VENV)/.stamp-env $(VENV)/.stamp-torch $(VENV)/.stamp-test ## run every command that the documentation shows
	@$(BIN)/python -m pytest -q tests/docs $(TEST_ARGS)

clean: ## remove environments and caches; runs in WORLDSIZE_HOME stay
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
