# make demo   set up .venv, index a vault, write, search and watch it, say what happened
# make test   run all tests
# make conformance  judge the MCP server by the inspector and the protocol's own suite, where npm is there
# make bundle dist/spellbook-VERSION.mcpb, for Claude Desktop
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench bench-quality bundle conformance readme clean

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Spellbook needs Python 3.11 or newer; name one with make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/spellbook demo

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m tests.benchmarks $(ARGS)

bench-quality: $(READY)
	$(BIN)/python -m tests.benchmarks.quality $(ARGS)

bundle: $(READY)
	$(BIN)/python scripts/bundle.py

conformance: $(READY)
	$(BIN)/python scripts/conformance.py

readme: $(READY)
	$(BIN)/python -m tests.readme_tables

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
