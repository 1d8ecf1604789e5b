# `make quickstart` and `make test` are all a newcomer needs: each creates the
# environment $(VENV), installs what it needs, and runs.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2

BIN := $(VENV)/bin
# Each stamp marks an installation that is newer than the files that describe it.
CREATED := $(VENV)/.created
CORE := $(VENV)/.installed-core
TEST := $(VENV)/.installed-test
DOCS := $(VENV)/.installed-docs
DIST := $(VENV)/.installed-dist
PROJECT := setup.cfg pyproject.toml

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help quickstart test test-all lint format stubs docs dist clean

help:
	@echo "make quickstart  install into $(VENV), train on digits, show the uncertainty"
	@echo "make test        install into $(VENV), then lint, type check and tests"
	@echo "make test-all    every test, with all the slow ones"
	@echo "make lint        ruff and mypy only"
	@echo "make format      let ruff fix and format the code"
	@echo "make stubs       write the arguments of all layers down for editors"
	@echo "make docs        build the site of the documentation into site/"
	@echo "make dist        build the wheel and the source distribution into dist/, and check them"
	@echo "make clean       remove caches and build products (not $(VENV))"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter, VENV=dir the environment."

quickstart: $(CORE)
	@$(BIN)/tfvn quickstart

# The tests run in several parts, one after the other, each in new processes: see `--part` in
# tests/conftest.py.
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: lint
	@failed=0; for part in 1/2 2/2; do \
		$(PYTEST) -m "not exhaustive" --part $$part || failed=1; done; exit $$failed

test-all: lint
	@failed=0; for part in 1/4 2/4 3/4 4/4; do \
		$(PYTEST) --part $$part || failed=1; done; exit $$failed

lint: $(TEST)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(TEST)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

stubs: $(TEST)
	@$(BIN)/python tools/stubs.py

# MkDocs prints news of its themes otherwise.
docs: $(DOCS)
	@$(BIN)/python tools/site.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is in site/index.html. With its search, which a browser does not run from files:"
	@echo "    python3 -m http.server --bind 127.0.0.1 --directory site"

dist: $(DIST)
	@rm -rf dist
	@$(BIN)/python -m build
	@$(BIN)/twine check --strict dist/*

clean:
	rm -rf build dist site *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf .coverage .coverage.* htmlcov
	find . -name __pycache__ -not -path "./.venv*" -prune -exec rm -rf {} +

$(CREATED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "tfvn needs Python 3.11 or newer; choose one with: make PYTHON=python3.11 ..." >&2; \
	    exit 1; }
	@echo "Creating the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE): $(CREATED) $(PROJECT)
	@echo "Installing tfvn into $(VENV) (the first time this downloads TensorFlow: minutes)"
	@$(PIP) install --editable .
	@touch $@

$(TEST): $(CREATED) $(PROJECT)
	@echo "Installing tfvn and its test tools into $(VENV) (the first time this downloads TensorFlow: minutes)"
	@$(PIP) install --editable ".[test]"
	@touch $(CORE) $@

$(DOCS): $(CREATED) $(PROJECT)
	@echo "Installing tfvn and the tools of its site into $(VENV)"
	@$(PIP) install --editable ".[docs]"
	@touch $(CORE) $@

$(DIST): $(CREATED) $(PROJECT)
	@echo "Installing tfvn and the tools of a release into $(VENV)"
	@$(PIP) install --editable ".[dist]"
	@touch $(CORE) $@
