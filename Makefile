# Every command of the project.  `make fuzz` and `make test` do everything that they need, set-up included.
# Settings: PYTHON (interpreter for new environments), JOBS (test processes), ARGS (more arguments for the command).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup setup-3.9 fuzz package browser test test-all test-browser test-gpu lint check format site reference bench bench-gpu clean

VENV := .venv
VENV_39 := .venv-triton39
BIN := $(VENV)/bin
JOBS ?= 2
# A file's tests run in one process, which makes what they share only once.  `tests/conftest.py` orders the files.
SPREAD = -n $(JOBS) --dist loadfile --no-loadscope-reorder
ARGS ?=
# Hundreds of test processes would compile the harness and its tests anew where the environment sets this.
export PYTHONDONTWRITEBYTECODE :=
# Of a part of the tests (ARGS), perhaps none depends on Triton: pytest ends with 5 then.
PERHAPS_NONE = $(if $(ARGS), || [ $$? -eq 5 ])

help: ## show this list
	@sed -n 's/^\([a-z][a-z.0-9-]*\):[^#]*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
	    printf '  make %-11s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.stamp ## make .venv with the pins of CI; quick if nothing has changed

setup-3.9: $(VENV_39)/.stamp ## the same with the newest Triton of the range, in .venv-triton39

$(VENV)/.stamp: pyproject.toml constraints/ci.txt ci/setup.sh
	ci/setup.sh $(VENV) constraints/ci.txt
	@touch $@

$(VENV_39)/.stamp: pyproject.toml constraints/ci-triton-3.9.txt ci/setup.sh
	ci/setup.sh $(VENV_39) constraints/ci-triton-3.9.txt
	@touch $@

fuzz: setup ## find a real bug of a released library on an emulated Blackwell GPU
	$(BIN)/python ci/demo.py $(ARGS)

test: setup setup-3.9 ## the tests of every change: with Triton 3.6.0, and what depends on it with 3.9.0
	$(BIN)/python -m pytest $(SPREAD) -m 'not nightly' $(ARGS)
	$(VENV_39)/bin/python -m pytest $(SPREAD) -m 'both and not nightly' $(ARGS)$(PERHAPS_NONE)

test-all: setup setup-3.9 ## every test, with Triton 3.6.0 and with 3.9.0: what CI runs each night
	$(BIN)/python -m pytest $(SPREAD) $(ARGS)
	$(VENV_39)/bin/python -m pytest $(SPREAD) $(ARGS)

browser: setup ## install headless Chromium by apt-get, unless there is a browser
	ci/browser.sh

test-browser: setup ## the report's page and the site in headless Chromium; skipped, with a reason, where there is none
	$(BIN)/python -m pytest -m browser tests/reports tests/test_site.py $(ARGS)

test-gpu: ## the tests that need a GPU, with the `python3` that has torch and Triton for it (or PYTHON=...)
	$(or $(PYTHON),python3) -m pytest -m gpu tests/engines tests/compiling $(ARGS)

lint: setup ## check format and lint, and report how the code reads: some seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python ci/house.py

check: lint ## the same, types and the quick tests: about three minutes on two cores
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest $(SPREAD) -m 'not slow and not nightly' $(ARGS)

format: setup ## format the files and fix lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

site: setup ## build the documentation as a site, in build/site; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

reference: setup ## write the parts of the documentation that follow from the code
	$(BIN)/python -m ci.write_reference

package: setup ## build sdist and wheel, install the wheel into an empty environment, and use it there
	ci/check_package.sh $(ARGS)

bench-gpu: ## measure rates, isolation and faults on a GPU; uses the same Python as test-gpu
	PYTHONPATH=.$${PYTHONPATH:+:$$PYTHONPATH} $(or $(PYTHON),python3) ci/bench_gpu.py $(ARGS)

bench: setup ## measure the speeds that the README states
	$(BIN)/python ci/bench.py $(ARGS)

clean: ## remove the environments and every cache in this folder
	rm -rf $(VENV) $(VENV_39) .pytest_cache .ruff_cache .hypothesis .harness build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
