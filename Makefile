# The tasks of this repository. They need make and a Python >= 3.11 with its venv module; the rest goes into .venv.

BIN := .venv/bin
PYTHON ?=
PYTEST_WORKERS ?= 2
ARGS ?=
INSTALL = @python=$$(sh scripts/python.sh $(PYTHON)) && "$$python" scripts/install.py

.DEFAULT_GOAL := help
.PHONY: help demo test lint lint-only bench docs test-real dev

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: ## the whole chain on the built-in server; ends with the path of an HTML report
	$(INSTALL)
	$(BIN)/foreword demo

test: ## everything that CI checks, against the built wheel
	$(INSTALL) --extras dev,docs
	$(MAKE) --no-print-directory lint-only
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) $(ARGS)

lint: ## ruff, mypy and the import contracts
	$(INSTALL) --extras dev,docs
	$(MAKE) --no-print-directory lint-only

lint-only:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

bench: ## the figures of docs/performance.md, one program each
	$(INSTALL) --extras dev,docs
	@for program in bench/*.py; do echo "== $$program"; $(BIN)/python "$$program" || exit 1; done

docs: ## the documentation as HTML in docs/_build
	$(INSTALL) --extras dev,docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

test-real: ## predictions against real servers (vLLM, SGLang) on the CPU; fetches 5 GB the first time
	$(INSTALL) --extras dev,docs
	bash scripts/test-real.sh $(ARGS)

dev: ## the source tree itself in .venv, for work on it
	$(INSTALL) --extras dev,docs --editable
