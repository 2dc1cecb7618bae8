# sambert-serve: make serve | test | check | bench | load | soak | clean
VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3.11
READY  := $(VENV)/.ready
CONFIG ?= configs/local.yaml

.PHONY: serve install test unit check docs bench load soak clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found; install Python 3.11 or run: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable .
	@touch $@

serve: $(READY)   ## start the service on this machine, print how to try it; Ctrl-C ends it
	@RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=deployments.ingress.front:layers exec $(BIN)/sambert-serve serve $(CONFIG)

test: $(READY)    ## everything that CI runs, under ten minutes on two cores
	$(BIN)/python -m pytest tests

unit: $(READY)    ## the fast tests, under a minute
	$(BIN)/python -m pytest tests/unit

check: $(READY)   ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)    ## write the README's tables of settings and error codes from the code
	$(BIN)/python tests/unit/readme_tables.py

bench: $(READY)   ## speed report of this machine, JSON in bench.json
	$(BIN)/python -m load_tests.benchmark --output bench.json

load: $(READY)    ## callers who come in bursts, a page with plots in load.html; fails when load_tests/thresholds.toml is breached
	$(BIN)/python -m load_tests.load --seconds $(or $(SECONDS),60) --output load.json
	$(BIN)/python -m load_tests.report load.json --html load.html

soak: $(READY)    ## whether memory, files or threads grow: make soak MINUTES=10 or REQUESTS=2000, CACHE=off
	$(BIN)/python -m load_tests.soak $(if $(MINUTES),--minutes $(MINUTES),--requests $(or $(REQUESTS),2000)) $(if $(filter off,$(CACHE)),--no-cache) --output soak.json

clean:
	rm -rf $(VENV) build dist *.egg-info bench.json load.json load.html soak.json .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
