# Everything a checkout can do. `make help` says what; `make demo` is the place to start.
# Only POSIX sh, make and a Python >= 3.10 are assumed; where pip gets its packages is pip's own configuration.

SHELL := /bin/sh
PYTHON ?= $(shell sh scripts/find-python.sh)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check
TEST_ARGS ?=
BENCH_ARGS ?=
WORDS ?=
FUZZ_CASES ?= 10000
# Two training processes on two cores: more threads than cores only get into each other's way.
export OMP_NUM_THREADS ?= 1
# Where it may not keep the result, pytest rewrites the assertions of all tests in each of its processes.
unexport PYTHONDONTWRITEBYTECODE
# The tests' own options: one part of them, and the commit since which `test-changed` looks.
PART ?=
BASE ?=
# A compute of type azureml, and the worldsize.toml that configures it.
COMPUTE ?=
WORLDSIZE_TEST_AZURE ?= $(wildcard worldsize.toml)
# What `make chaos` does: so many trials of this seed, or one of them again.
N ?= 60
SEED ?= 20261126
TRIAL ?=
# The folder that `make causes` writes, and the picture that `make pictures` draws.
PAGE ?=
PICTURE ?=
# The folder for the report of `make horovod-nccl`.
REPORT ?=
# Another release of Slurm than this machine's, for the part slurm alone.
SLURM ?=
SECOND_SLURM := 24.11
# What `make bare-root` does: on which system, as whom, and what make is asked for there. FOLDER stays; VARIABLES are seen there too.
SYSTEM ?= debian-12
ACCOUNT ?= user
GOAL ?= demo
FOLDER ?=
VARIABLES ?=
PARTS := $(addprefix --part ,$(PART)) $(addprefix --slurm ,$(SLURM))
TESTS := $(BIN)/python -m scripts.testing
RELEASE := $(VENV)-release/bin/python -m scripts.release
# Beside the linters, pytest rewrites the assertions of all tests: once, not in each of the lanes' processes.
CHECK = $(BIN)/python -m pytest -q -p no:cacheprovider --collect-only >/dev/null 2>&1 & \
	$(MAKE) --no-print-directory lint; code=$$?; wait; exit $$code

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo setup environments system test test-fast test-all test-changed test-pythons test-azure fuzz chaos audit lint bench docs docs-site docs-reference pictures causes hangs horovod-nccl messages evidence golden dist pyz try-dist bare-root clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-base $(VENV)/.stamp-torch ## train on 2 nodes × 2 ranks of this machine and print the accuracy (sets up first)
	@echo '==> $(BIN)/worldsize run examples/digits/job.yml -w 2x2'
	@$(BIN)/worldsize run examples/digits/job.yml -w 2x2

setup: environments ## .venv/ with the worldsize command, torch and the test tools, and one environment per other framework
	@echo '==> ready: $(BIN)/worldsize'

environments: # each in the cache of ~/.cache/worldsize-test (WORLDSIZE_TEST_CACHE), .venv-NAME a link to it
	@python=$$(PYTHON='$(PYTHON)' sh scripts/need-python.sh) && "$$python" -m scripts.environments

system: # Slurm, Open MPI and what else the tests use of the machine
	@sh scripts/system-packages.sh

$(VENV)/.stamp-base: pyproject.toml
	@echo '==> [1/2] worldsize and its dependencies (about 2 MB) into $(VENV)/'
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh $(VENV)
	@$(PIP_INSTALL) --quiet --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.stamp-torch: requirements/torch.txt | $(VENV)/.stamp-base
	@echo '==> [2/2] torch, numpy and scikit-learn: about 270 MB to download and 1.2 GB on disk with the CPU build, else 2.7 GB'
	@echo '    and 5 GB (CONTRIBUTING.md, "Set up"); this takes minutes, once'
	@$(PIP_INSTALL) --requirement requirements/torch.txt
	@touch $@

$(VENV)/.stamp-extras: pyproject.toml | $(VENV)/.stamp-base
	@echo '==> the packages of all extras (about 95 MB) into $(VENV)/'
	@$(PIP_INSTALL) --quiet --editable '.[all]'
	@touch $@

$(VENV)/.stamp-test: requirements/test.txt requirements/light.txt requirements/docs.txt | $(VENV)/.stamp-base
	@echo '==> test tools into $(VENV)/'
	@$(PIP_INSTALL) --quiet --requirement requirements/test.txt
	@touch $@

$(VENV)/.stamp-docs: requirements/docs.txt | $(VENV)/.stamp-base
	@echo '==> the tools of the documentation (about 35 MB) into $(VENV)/'
	@$(PIP_INSTALL) --quiet --requirement requirements/docs.txt
	@touch $@

$(VENV)-release/.stamp: requirements/release.txt
	@echo '==> the tools of a release (about 60 MB) into $(VENV)-release/'
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh $(VENV)-release
	@$(VENV)-release/bin/python -m pip install --disable-pip-version-check --quiet --requirement requirements/release.txt
	@touch $@

test: environments system ## every capability once, for real: 17 to 28 minutes (PART=unit|local|slurm|… for one part, SLURM=24.11 for Slurm on that release, TEST_ARGS=… for pytest)
	@$(if $(PART)$(SLURM)$(TEST_ARGS),,$(CHECK))
	@$(TESTS) standard $(PARTS) $(TEST_ARGS)

test-fast: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-test ## the unit tests and the command line in one process: less than a minute, without torch
	@$(TESTS) fast $(TEST_ARGS)

test-all: environments system ## every test, those on Slurm on a second release of it, and the unit tests on the oldest and the newest Python
	@$(if $(PART)$(SLURM)$(TEST_ARGS),,$(CHECK))
	@$(TESTS) all $(PARTS) $(TEST_ARGS)
	@$(if $(PART)$(SLURM)$(TEST_ARGS),,$(TESTS) all --slurm $(SECOND_SLURM))
	@$(if $(PART)$(SLURM)$(TEST_ARGS),,$(MAKE) --no-print-directory test-pythons)

test-changed: environments system ## the tests that import what has changed since BASE=commit, the most affected first
	@$(TESTS) changed --base '$(BASE)' $(PARTS) $(TEST_ARGS)

test-pythons: $(VENV)/.stamp-base ## the unit tests on the oldest and the newest supported Python found here
	@$(BIN)/python -m scripts.testing.other_pythons

test-azure: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-test ## in a workspace of Azure ML what the tests do on the double (COMPUTE=cloud WORLDSIZE_TEST_AZURE=path/to/worldsize.toml)
	@$(BIN)/python -m scripts.testing.workspace '$(WORLDSIZE_TEST_AZURE)' '$(COMPUTE)' $(TEST_ARGS)

fuzz: $(VENV)/.stamp-base $(VENV)/.stamp-torch $(VENV)/.stamp-extras $(VENV)/.stamp-test ## property tests with FUZZ_CASES=10000 cases each, ten times as many messages of strangers to a head, a fifth as many training scripts
	@PYTHONPATH=tests $(BIN)/python -m security.fuzz --messages $$(($(FUZZ_CASES) * 10))
	@WORLDSIZE_FUZZ_CASES=$(FUZZ_CASES) $(BIN)/python -m pytest -q -n 2 --timeout=3600 $$(find tests/unit -name 'test_*fuzz*.py') $(TEST_ARGS)
	@WORLDSIZE_FUZZ_PROGRAMS=$$(($(FUZZ_CASES) / 5)) $(BIN)/python -m pytest -q -n 2 --tier all --timeout=3600 tests/data_parallel/test_figures_fuzz.py $(TEST_ARGS)

chaos: $(VENV)/.stamp-base $(VENV)/.stamp-test ## N=1000 faults at chosen moments, on virtual nodes and Slurm; goes on where SEED stopped (TRIAL=… for one again)
	@sh scripts/system-packages.sh
	@PYTHONPATH=tests $(BIN)/python -m chaos --trials $(N) --seed $(SEED) $(if $(TRIAL),--trial $(TRIAL))

audit: ## known vulnerabilities of what worldsize depends on, and unsafe code; fails when anything was left out
	@PYTHON='$(PYTHON)' sh scripts/make-venv.sh $(VENV)-audit
	@$(VENV)-audit/bin/python -m pip install --disable-pip-version-check --quiet --upgrade -r requirements/audit.txt
	@$(VENV)-audit/bin/python scripts/audit.py

lint: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-test ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-torch $(VENV)/.stamp-test ## the figures of docs/explanation/performance/
	@sh scripts/system-packages.sh
	@for file in benchmarks/bench_*.py; do echo "==> $$file"; $(BIN)/python "$$file" $(BENCH_ARGS) || exit 1; done

docs: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-torch $(VENV)/.stamp-test ## run every command that the documentation shows
	@$(BIN)/python -m pytest -q tests/docs $(TEST_ARGS)

docs-site: $(VENV)/.stamp-base $(VENV)/.stamp-docs ## the documentation as a site with a search: build/site/, served by `python3 -m http.server -d build/site`
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo '==> build/site: python3 -m http.server -d build/site 8000, then http://127.0.0.1:8000'

docs-reference: $(VENV)/.stamp-base $(VENV)/.stamp-extras ## the parts of the pages that are made from the code: options, keys, variables, errors, JSON
	@$(BIN)/python -m scripts.documentation

pictures: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-docs ## docs/pictures/: terminals from real runs, charts of measured figures, a run's life (PICTURE=failure for one)
	@$(BIN)/python -m scripts.documentation.pictures $(PICTURE)

causes: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-torch $(VENV)/.stamp-test ## the pages of docs/causes/, from the tables of signatures and runs that fail (PAGE=gpus for one folder, PAGE=slurm for the screens of Slurm)
	@PATH="$(abspath $(BIN)):$$PATH" PYTHONPATH=tests $(BIN)/python -m $(if $(filter slurm,$(PAGE)),causes.slurm_pages,causes.pages $(PAGE))

hangs: $(VENV)/.stamp-base $(VENV)/.stamp-extras $(VENV)/.stamp-torch $(VENV)/.stamp-test ## docs/explanation/hang-accuracy.md: whom the watchdog names in runs that hang (HANGS='--healthy', '--slurm', or how the ids of cases begin)
	@PATH="$(abspath $(BIN)):$$PATH" PYTHONPATH=tests $(BIN)/python -m hangs $(HANGS)

horovod-nccl: ## Horovod compiled with NCCL, of the package index's wheels, without a GPU, and what it is linked with: 3 GB to download, 5 GB on disk (REPORT=folder for a page of it)
	@python=$$(PYTHON='$(PYTHON)' sh scripts/need-python.sh) && "$$python" -m scripts.environments horovod-nccl \
		&& "$$python" -m scripts.environments.horovod_nccl .venv-horovod-nccl $(REPORT)

messages: ## every message of the program, once, by file (WORDS='…' for those with these words in them)
	@'$(PYTHON)' scripts/list_messages.py $(WORDS)

evidence: environments system ## make test, and the table of README that shows what it proved (docs/evidence/)
	@rm -f build/outcomes.jsonl && mkdir -p build
	@WORLDSIZE_TEST_OUTCOMES=build/outcomes.jsonl $(TESTS) standard
	@$(BIN)/python -m scripts.evidence build/outcomes.jsonl

golden: environments system ## tests/golden/: the runs of this release, each ending on each compute, which every later release has to read
	@rm -rf tests/golden/$$(sed -n 's/^VERSION = "\(.*\)"$$/\1/p' src/worldsize/version.py)
	@$(BIN)/python -m pytest -q -p no:cacheprovider --tier all -k 'not alone' tests/conformance/golden_runs.py

dist: $(VENV)-release/.stamp ## dist/: the sdist, its wheel and the simulator's wheel, checked by twine (WORLDSIZE_REPOSITORY=https://… for its links, if not origin's)
	@$(RELEASE) dist

pyz: dist ## dist/worldsize.pyz: one file for login nodes without pip, for each supported Python, x86-64 and ARM
	@$(RELEASE) pyz

try-dist: pyz ## what dist/ holds, as a stranger would use it: the wheels without a compiler or checkout, the zipapp, the sdist's test-fast
	@$(RELEASE) try --tests

bare-root: ## GOAL=demo|test on a bare SYSTEM=debian-12|debian-13|ubuntu-24.04, as ACCOUNT=user|root: a root directory with make and Python only (needs root)
	@python=$$(PYTHON='$(PYTHON)' sh scripts/need-python.sh) && "$$python" -m scripts.environments.bare_root --system '$(SYSTEM)' \
		--account '$(ACCOUNT)' $(if $(FOLDER),--folder '$(FOLDER)') $(addprefix --variable ,$(VARIABLES)) -- $(GOAL)

clean: ## remove environments and caches; runs in WORLDSIZE_HOME stay
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
