# make skills  sets up a virtual environment and runs the main job
# make test    sets up a virtual environment and passes the tests
# make web     builds the page that 'ibol page' writes; needs node and npm
# make docs    builds the documentation site, build/site/index.html
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests compile many programs that run for milliseconds: no optimisation is faster there. One thread for each process.
COMPILE_FAST := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	--xla_cpu_use_fusion_emitters=false --xla_cpu_multi_thread_eigen=false

.PHONY: docs skills test check format system web web-test web-if-possible
PAGE := src/ibol/page/assets/page.js
WEB := web/build.mjs web/package-lock.json $(wildcard web/src/*)

skills: $(VENV)/.installed web-if-possible
	@# A training that was stopped goes on; one that is done is not repeated.
	if [ -e runs/ant/config.json ]; then $(BIN)/ibol resume runs/ant; else $(BIN)/ibol discover ant --run-dir runs/ant; fi
	$(BIN)/ibol evaluate runs/ant --trajectories 500 --json runs/ant/scores.json
	$(BIN)/ibol plot runs/ant --output runs/ant/skills.png
	@if [ -e $(PAGE) ]; then $(BIN)/ibol page runs/ant --output runs/ant/skills.html; fi

test: check system web-if-possible
	XLA_FLAGS="$(COMPILE_FAST)" $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal --cov=ibol --cov-report=term --cov-fail-under=90

web: $(PAGE)

$(PAGE): $(WEB) web/node_modules/.installed
	cd web && npm run --silent check && npm run --silent build

web/node_modules/.installed: web/package.json web/package-lock.json
	cd web && npm ci --silent
	touch $@

web-test: web
	cd web && npm test

# Without node, or offline, there is no page, and its tests say why they are skipped.
web-if-possible:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web || echo "could not build the page: going on without it"; \
	else echo "there is no npm to build the page with: going on without it"; fi

docs: $(VENV)/.installed-docs
	$(BIN)/python tools/build_docs.py

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

system:
	sh tools/system_packages.sh

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@
