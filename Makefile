# Needs Python 3.11 or later and make; everything else is installed into .venv here.
# The first call of any target sets up; later calls find the stamp and start at once.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
SECONDS ?= 60
SEED ?= 1
# Seconds that every fuzz target gets in `make test`, all of them together.
FUZZ_IN_TEST ?= 60
WORKERS ?= auto
SUITES ?=
PLANES ?= 4
PARTS ?=
COMMA := ,
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)

.DEFAULT_GOAL := help
.PHONY: help setup run serve test lint format fuzz bench compiled bench-check profile cluster-up cluster-down chainsaw kinds clean

help:
	@echo 'make run              compile the samples, start the webhook, ask it, print the answers'
	@echo 'make serve            the same webhook, left up'
	@echo 'make test             every test (cluster tests need Go or KUBEBUILDER_ASSETS, else they skip)'
	@echo 'make lint             ruff, mypy, import-linter'
	@echo 'make fuzz SECONDS=60  every fuzz target, the seconds shared out'
	@echo 'make bench            the figures of speed, size and memory (PARTS="engine webhook", see bench/README.md)'
	@echo 'make bench-check      fails where the engine is clearly slower than the stored run'
	@echo 'make profile          a flame graph of admissions, docs/admission.svg'
	@echo 'make compiled         a wheel whose exact machine and engine are machine code, and the tests of them'
	@echo 'make cluster-up       a real API server with Thesmos installed; make cluster-down ends it'
	@echo 'make chainsaw         the public cluster suites (SUITES="validate mutate", PLANES=4)'
	@echo 'make kinds            remake the table of the Kubernetes kinds from the test API server'
	@echo 'make clean            remove what the above made inside this folder'

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'no Python 3.11 or later found: install one, or call make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo 'cannot make a virtual environment: install the venv module of your Python (Debian: python3-venv)' >&2; exit 1; }
	@echo 'installing dependencies into $(VENV)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The plots of `make bench` and the sampler of `make profile`.
$(BENCH_STAMP): $(STAMP)
	@echo 'installing what the benchmark draws with into $(VENV)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	@touch $@

setup: $(STAMP)

run: $(STAMP)
	@$(BIN)/thesmos demo

serve: $(STAMP)
	@$(BIN)/thesmos demo --stay

# The cluster tests share one control plane and look at the clock: one process, and nothing beside it.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS) --ignore tests/cluster
	$(BIN)/python -m pytest -q tests/cluster
	$(BIN)/python -m fuzz.run $(FUZZ_IN_TEST) --seed $(SEED)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(STAMP)
	$(BIN)/python -m fuzz.run $(SECONDS) --seed $(SEED)

# PARTS="engine webhook": these alone; the others keep the figures of the run before.
bench: $(BENCH_STAMP)
	$(BIN)/python -m bench.run --plots $(if $(PARTS),--only $(subst $(SPACE),$(COMMA),$(strip $(PARTS))))

# Fails where counts or ratios are clearly worse than in bench/stored.json.
bench-check: $(STAMP)
	$(BIN)/python -m bench.check

# Writes docs/admission.svg; what docs/performance.md says of it is to be read again then.
profile: $(BENCH_STAMP)
	$(BIN)/python -m bench.flame

# mypyc leaves what it builds beside the source, where Python would take it instead of the source: a copy is built.
# -P: the folder one is in does not come first, where the pure source lies.
compiled: $(STAMP)
	rm -rf build/compiled
	mkdir -p build/compiled/source
	cp -R pyproject.toml README.md LICENSE grammar vm compiler runtime build/compiled/source
	@echo 'compiling with mypyc: about two minutes'
	@HATCH_BUILD_HOOK_ENABLE_MYPYC=true $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--wheel-dir build/compiled build/compiled/source > build/compiled/log 2>&1 || { tail -n 25 build/compiled/log >&2; \
		echo 'the exact machine and the engine could not be compiled: that takes a C compiler with the headers of Python, and mypyc (hatch-mypyc), which pip fetches; all of what was said is in build/compiled/log' >&2; exit 1; }
	$(BIN)/python -m zipfile -e build/compiled/*.whl build/compiled/site
	PYTHONPATH=build/compiled/site $(BIN)/python -P -c 'import vm.interp; exit(not vm.interp.__file__.endswith((".so", ".pyd")))'
	PYTHONPATH=build/compiled/site $(BIN)/python -P -m pytest -q tests/unit/vm tests/unit/engine tests/unit/runtime tests/cases

cluster-up: $(STAMP)
	@$(BIN)/python -m tests.cluster.up

cluster-down: $(STAMP)
	@$(BIN)/python -m tests.cluster.up --down

# The public cluster suites: all of them, or those named.
chainsaw: $(STAMP)
	@$(BIN)/python -m tests.cluster.chainsaw $(SUITES) --planes $(PLANES)

kinds: $(STAMP)
	@$(BIN)/python -m tests.cluster.kinds

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
