# make demo, make test: on a fresh machine with Python 3.11 they set up everything they need in .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV ?= .venv
export PYTHON ?= python3
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
N ?= 10000

# An environment made in another folder (a copied checkout) counts as missing.
ifneq ($(shell cat $(VENV)/.home 2>/dev/null),$(CURDIR))
$(READY): made-elsewhere
endif

.PHONY: help demo lab test test-all lint lint-python lint-typescript format fuzz bench clean made-elsewhere

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(READY): pyproject.toml requirements/dev.txt scripts/make-venv
	@scripts/make-venv $(VENV)

made-elsewhere:

demo: $(READY) ## compile, check, run and profile a tiled matmul and a softmax; writes demo-report.html
	@$(VENV)/bin/nki-lab demo

lab: ## notebooks with the views: arrive together with the notebook views, until then only this message
	@echo "make lab: the notebook views are not part of this version; this command arrives together with them."

test: lint $(READY) ## lint, then every test that is not slow
	@$(PY) -m pytest -q -m "not slow"

test-all: lint $(VENV)/.frameworks ## lint, then every test, with torch and jax
	@$(PY) -m pytest -q

$(VENV)/.frameworks: requirements/frameworks.txt $(READY)
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement requirements/frameworks.txt
	@touch $@

lint: lint-python lint-typescript ## format, lint and types

lint-python: $(READY)
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check . || { echo "make format puts these files right" >&2; exit 1; }
	@$(VENV)/bin/mypy --no-error-summary

lint-typescript:
	@echo "TypeScript checks: there is no TypeScript yet; they arrive together with the notebook views."

format: $(READY) ## put format and import order right
	@$(VENV)/bin/ruff check --quiet --select I --fix .
	@$(VENV)/bin/ruff format --quiet .

fuzz: $(READY) ## draw N=10000 legal and barely illegal calls: make fuzz N=100000
	@$(PY) tests/fuzz/run.py --calls $(N)

bench: $(READY) ## the benchmarks, each beside its reference of the same run
	@$(PY) benchmarks/run.py

clean: ## remove .venv, caches and built packages
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -not -path '*/node_modules/*' -prune -exec rm -rf {} +
