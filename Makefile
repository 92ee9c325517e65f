# make demo, make test: on a fresh machine with Python 3.11 they set up everything they need in .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
ifeq ($(MAKELEVEL),0) # environments are set up side by side, and Python and TypeScript are checked at once
MAKEFLAGS += --jobs=2
endif

# Even where compiled modules are not to be kept: without them each process of the tests compiles 500 modules first.
export PYTHONDONTWRITEBYTECODE :=

VENV ?= .venv
export PYTHON ?= python3
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
MATRIX := .venv-matrix
DOCS := .venv-docs
TOOLS := .venv-tools
NODE := labextension/node_modules/.ready
VSCODE := editors/vscode
ASSETS := nki_lab/widgets/static/assets.json
GENERATED := labextension/src/_generated
N ?= 10000
# The tests draw from smaller seeds.
SEED ?= 1000000
# The tests of a file stay together; a process that crashes ends the run, which could hang otherwise. Those of servers and browsers, which wait for other processes, run after the others.
SPREAD ?= -n 2 --dist loadfile --max-worker-restart=0
ALONE := tests/browser tests/lsp
QUICK := not slow and not extended
EXTENDED := extended and not slow

# An environment made in another folder (a copied checkout) counts as missing.
ifneq ($(shell cat $(VENV)/.home 2>/dev/null),$(CURDIR))
$(READY): made-elsewhere
endif

.PHONY: help demo lab test test-extended test-newest test-matrix test-all lint lint-python lint-typescript test-typescript assets vscode chromium screenshots docs format fuzz bench performance audit requirements calibration clean made-elsewhere

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# The built views too: what JupyterLab loads is a copy in the environment.
$(READY): pyproject.toml requirements/dev.txt scripts/make-venv $(ASSETS)
	@scripts/make-venv $(VENV)

made-elsewhere:

demo: $(READY) ## compile, check, run and profile a tiled matmul and a softmax; writes demo-report.html
	@$(VENV)/bin/nki-lab demo

lab: $(READY) ## JupyterLab with the first example
	@$(VENV)/bin/jupyter lab $$([ "$$(id -u)" != 0 ] || echo --allow-root) examples/01_first_kernel.ipynb

test: lint $(READY) chromium ## lint, every test that is neither slow nor extended, and test-newest
	@$(PY) -m pytest -q -m "$(QUICK)" $(SPREAD) $(ALONE:%=--ignore=%)
	@$(PY) -m pytest -q -m "$(QUICK)" $(SPREAD) --no-loadscope-reorder $(ALONE)
	@$(MAKE) test-newest

test-extended: $(READY) chromium ## the tests that continuous integration runs besides: most browser tests, fuzzing, growth
	@$(PY) -m pytest -q -m "$(EXTENDED)" $(SPREAD) $(ALONE:%=--ignore=%)
	@$(PY) -m pytest -q -m "$(EXTENDED)" $(SPREAD) --no-loadscope-reorder $(ALONE)

test-newest: $(READY) ## the core of the suite on the newest Python found, with the newest NumPy, from the wheel
	@SPREAD="$(SPREAD)" $(PY) scripts/test_matrix.py $(MATRIX) --newest

test-matrix: $(READY) ## the same on each Python found, with the lowest and the highest NumPy, then the extras
	@SPREAD="$(SPREAD)" $(PY) scripts/test_matrix.py $(MATRIX)
	@$(PY) -m pytest -q tests/slow/test_installs.py

test-all: lint $(VENV)/.frameworks chromium ## lint, then every test, with torch, jax and type checkers
	@$(PY) -m pytest -q --hypothesis-profile=thorough $(SPREAD) $(ALONE:%=--ignore=%)
	@$(PY) -m pytest -q --hypothesis-profile=thorough $(SPREAD) --no-loadscope-reorder $(ALONE)

# Not while mypy reads the environment.
$(VENV)/.frameworks: requirements/frameworks.txt requirements/checkers.txt $(READY) | lint
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement requirements/frameworks.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/checkers.txt
	@touch $@

lint: lint-typescript lint-python test-typescript ## format, lint and types, and the tests of the views

lint-python: $(READY)
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check . || { echo "make format puts these files right" >&2; exit 1; }
	@$(VENV)/bin/mypy --no-error-summary

$(NODE): labextension/package.json labextension/package-lock.json labextension/.npmrc scripts/node-modules
	@scripts/node-modules

$(VSCODE)/node_modules/.ready: $(VSCODE)/package-lock.json $(VSCODE)/.npmrc scripts/node-modules
	@scripts/node-modules $(VSCODE)

lint-typescript: $(NODE) $(VSCODE)/node_modules/.ready $(READY)
	@$(PY) scripts/views_schema.py --out build/schema
	@$(PY) scripts/lsp_settings.py --out build/schema
	@diff --recursive build/schema/$(GENERATED) $(GENERATED) || { echo "make assets writes these files" >&2; exit 1; }
	@cd labextension && npm run --silent types
	@cd labextension && npm run --silent lint || { echo "make format puts the form of these files right" >&2; exit 1; }
	@cd labextension && npm run --silent build -- --out ../build/widgets
	@$(PY) scripts/assets.py --check build/widgets
	@cd $(VSCODE) && npm run --silent types && npm run --silent lint

test-typescript: $(NODE) $(VSCODE)/node_modules/.ready
	@cd labextension && npm run --silent test
	@cd $(VSCODE) && npm run --silent test

assets: $(NODE) $(READY) ## build the views that pages and notebooks load, after a change in labextension/ or of what it shows
	@$(PY) scripts/views_schema.py
	@$(PY) scripts/lsp_settings.py
	@cd labextension && npm run --silent build
	@$(PYTHON) scripts/assets.py

# vsce wants the licence beside the manifest.
vscode: $(VSCODE)/node_modules/.ready $(READY) ## the extension for VS Code, build/nki-lab-VERSION.vsix
	@PYTHONPATH=. $(PY) scripts/vscode_manifest.py
	@cp LICENSE $(VSCODE)/LICENSE.txt
	@mkdir -p build
	@cd $(VSCODE) && npm run --silent build && npm run --silent pack -- --out ../../build/

chromium:
	@scripts/chromium

format: $(READY) $(NODE) ## put format and import order right
	@$(VENV)/bin/ruff check --quiet --select I --fix .
	@$(VENV)/bin/ruff format --quiet .
	@cd labextension && npm run --silent format

screenshots: $(READY) chromium ## the pictures in docs/images, taken in JupyterLab
	@$(PY) scripts/screenshots.py

# Sphinx has an environment of its own: the tools of tests and notebooks pin other versions of what it needs.
$(DOCS)/.ready: scripts/make-docs-venv requirements/docs.txt requirements/dev.txt pyproject.toml
	@scripts/make-docs-venv $(DOCS)

docs: $(DOCS)/.ready ## the site in build/docs/html: executed, built with warnings as errors, links checked
	@PYTHONPATH=. $(DOCS)/bin/python -m scripts.pages build/docs/source
	@rm -rf build/docs/html
	@PYTHONPATH=. $(DOCS)/bin/sphinx-build --quiet --fail-on-warning --jobs 2 --builder html \
	    --doctree-dir build/docs/doctrees build/docs/source build/docs/html
	@PYTHONPATH=. $(DOCS)/bin/python -m scripts.pages.checking build/docs/html

fuzz: $(READY) ## draw N=10000 calls, as many typed texts, N/10 hostile ones, N/2 forged recordings and repeated kernels, on all processors: make fuzz N=100000
	@$(PY) tests/fuzz/every.py $(N) --seed $(SEED)

bench: $(READY) ## the benchmarks, each beside its reference of the same run; build/scale.html shows growth
	@$(PY) benchmarks/run.py
	@$(PY) -m benchmarks.scale

performance: $(READY) ## measure the budgets and growth, and write docs/performance.md: make performance ROWS="B1 again"
	@$(PY) -m benchmarks.performance $(ROWS)

$(TOOLS)/.ready: requirements/tools.txt
	@$(PYTHON) -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

audit: $(TOOLS)/.ready ## hold the pinned packages of Python and npm against the known vulnerabilities
	@$(TOOLS)/bin/python scripts/audit.py

requirements: $(TOOLS)/.ready ## write requirements/*.txt from *.in: what the chosen packages bring along, with hashes
	@cd requirements && for name in dev docs checkers tools; do ../$(TOOLS)/bin/uv pip compile --quiet --universal \
	    --python-version 3.11 --generate-hashes --custom-compile-command "make requirements" $$name.in --output-file $$name.txt; done

calibration: $(READY) ## published measurements beside predictions, in docs/accuracy.md: make calibration KERNELS=DIR
	@$(PY) -m benchmarks.calibration $(if $(KERNELS),--kernels $(KERNELS)) $(if $(REASON),--worse "$(REASON)")

clean: ## remove environments, node_modules, caches and built packages
	rm -rf $(VENV) $(MATRIX) $(DOCS) $(TOOLS) labextension/node_modules labextension/dev $(VSCODE)/node_modules $(VSCODE)/dist build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -not -path '*/node_modules/*' -prune -exec rm -rf {} +
