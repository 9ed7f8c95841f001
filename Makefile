PYTHON ?= python3
# Processes that run the tests; 0 runs them one after another in one process.
JOBS ?= 3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The versions that Spellbook is tested with; some have no wheel for Intel Macs.
TESTED := $(if $(filter Darwin-x86_64,$(shell uname -s)-$(shell uname -m)),,--constraint constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help demo test test-windows coverage mutants lint hooks bench bench-quality bench-public conformance screenshots bundle container plugin release try-release constraints readme clean

help: ## List what make can do here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Spellbook needs Python 3.11 or newer; name one with make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@echo "Installing libraries into $(VENV): 750 MB, two to ten minutes, once."
	$(BIN)/python -m pip install --disable-pip-version-check $(TESTED) --editable '.[dev]'
	touch $(READY)

demo: $(READY) ## Set up .venv, index a vault, write, search and watch it, say what happened
	$(BIN)/spellbook demo

# Without compiled modules each program that a test starts would compile the package.
test: export PYTHONDONTWRITEBYTECODE =
test: $(READY) ## Run all tests, in three processes (JOBS=3; ARGS are pytest's)
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal $(ARGS)

test-windows: $(READY) ## Run rooms of the tests with a Windows Python, where Wine is installed (ARGS="tests/vault -k walk")
	$(BIN)/python scripts/windows/run.py $(ARGS)

# Measuring disturbs tests of what a process imports or holds in memory, so they are left out.
# A test that fails does not stop the report.
coverage: $(READY) ## Report which lines and branches the tests reach, also in child processes; htmlcov/index.html
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest --numprocesses $(JOBS) --dist worksteal -m "not bare" $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

mutants: $(READY) ## Change a module in small ways and list what no test notices, e.g. ARGS="spellbook/filters.py -n 20", or try ARGS=--breaks
	$(BIN)/python scripts/mutants.py $(ARGS)

lint: $(READY) ## Check style, formatting, types and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell spellbook docs scripts plugins *.md

hooks: $(READY) ## Run the checks of .pre-commit-config.yaml before each commit (downloads pre-commit)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pre-commit
	$(BIN)/pre-commit install

bench: $(READY) ## Measure speed, memory and sizes (ARGS name the parts)
	$(BIN)/python -m tests.benchmarks $(ARGS)

bench-quality: $(READY) ## Measure how well search finds
	$(BIN)/python -m tests.benchmarks.quality $(ARGS)

bench-public: $(READY) ## Measure search over the public benchmarks in DATA (folders with LoCoMo or BEAM)
	$(BIN)/python -m tests.benchmarks.public $(DATA) $(ARGS)

conformance: $(READY) ## Judge the MCP server by the inspector and the protocol's own suite, where npm is there
	$(BIN)/python scripts/conformance.py

screenshots: $(READY) ## Make the pictures of the READMEs and of dashboard.md in both languages, where chromium is installed (ARGS=ko: one)
	$(BIN)/python scripts/screenshots.py $(ARGS)

bundle: $(READY) ## Make dist/spellbook-VERSION.mcpb, for Claude Desktop
	$(BIN)/python scripts/bundle.py

container: ## Build the container's image and try it, where buildah is installed (ARGS are those of buildah build)
	scripts/container.sh $(ARGS)

plugin: $(READY) ## Write the settings of plugins/spellbook, for Claude Code: server, hooks, marketplace
	$(BIN)/python scripts/plugin.py

release: $(READY) ## Make dist/release: wheel, sdist, bundle, plugins, list of libraries, checksums
	$(BIN)/python scripts/release.py

try-release: $(READY) ## Install what make release built into empty environments and use it (PYTHONS="python3.11 python3.13")
	$(BIN)/python scripts/try_release.py $(PYTHONS)

constraints: ## Renew constraints.txt: the newest versions of all libraries
	$(PYTHON) scripts/constraints.py

readme: $(READY) ## Rewrite the tables of docs/reference.md, the sizes in docs/design.md, the address in the READMEs
	$(BIN)/python -m tests.readme_tables

clean: ## Delete .venv and everything that is made
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
