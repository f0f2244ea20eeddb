# The default is what CI runs: set up, format, lint, types, import contracts, tests, docs.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests start hundreds of processes, each of which would compile all of Holdfast again if nobody may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

all: test

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

setup: $(READY)

# What the tests drive besides Python: curl and jq for the documented commands, npm for the MCP suites, chromium for the
# web page. Each is named as Debian's package of it is.
TOOLS := curl jq npm chromium
tools:
	@missing=; for tool in $(TOOLS); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -q && apt-get install -qy $$missing; \
	  else echo "The tests need$$missing: install them first." >&2; exit 1; fi; fi
	@$(MAKE) --no-print-directory $(MCP_TOOLS)

# The official MCP tools, which the acceptance tests run.
MCP_TOOLS := tests/acceptance/node_modules/.ready
$(MCP_TOOLS): tests/acceptance/package.json
	npm install --no-package-lock --no-audit --no-fund --prefix tests/acceptance
	touch $@

check: lint types

lint: $(READY)
	$(BIN)/ruff format --check src benchmarks tests tools
	$(BIN)/ruff check src benchmarks tests tools
	$(BIN)/lint-imports
	$(BIN)/python tools/check_imports.py
	$(BIN)/python tools/make_operation_index.py --check
	$(BIN)/python tools/make_stubs.py --check
	$(BIN)/python tools/count_names.py
	$(BIN)/python tools/show_walks.py --check-docs
	$(BIN)/python -m holdfast.surfaces.reference --check docs/reference

types: $(READY)
	$(BIN)/mypy

# Where there is room in memory the tests write there: disks that fail are made to, so waiting for a real one proves
# nothing. One worker more than there are processors, since tests also wait for servers, locks and clocks.
MEMORY := $(shell room=$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1); probe=/dev/shm/holdfast-probe-$$$$; \
	test "$${room:-0}" -gt 4000000 && cp /bin/true $$probe && $$probe && echo TMPDIR=/dev/shm; rm -f $$probe)
PYTEST := $(MEMORY) $(BIN)/pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist worksteal

# The commit ring: one real instance of every kind of check. The set-up is timed apart from it, and the types are
# checked beside the tests.
test:
	@begun=$$(date +%s); $(MAKE) --no-print-directory tools setup || exit 1; ready=$$(date +%s); \
	$(MAKE) --no-print-directory lint || exit 1; \
	types=$$(mktemp); $(MAKE) --no-print-directory types >$$types 2>&1 & checking=$$!; \
	$(PYTEST); result=$$?; wait $$checking || result=1; cat $$types; rm $$types; \
	echo "Set-up: $$((ready - begun)) s. Checks and tests: $$(($$(date +%s) - ready)) s."; exit $$result

# The full ring: every test there is, and the thirty that took longest.
test-all: tools check
	$(PYTEST) -m "" --durations=30

# What failed last, in either ring.
test-failed: $(READY)
	$(PYTEST) -m "" --last-failed --last-failed-no-failures none

# One feature or part: make test-recall, make test-sync, make test-surfaces, make test-kernel.
test-%: $(READY)
	@folders=$$(ls -d tests/features/$* tests/kernel/$* tests/$* 2>/dev/null); \
	if [ -z "$$folders" ]; then echo "No tests are called $*. There are: $$(ls -d tests/features/*/ tests/kernel/*/ tests/*/ \
	  | sed 's|/$$||; s|.*/||' | grep -v __ | tr '\n' ' ')" >&2; exit 2; fi; $(PYTEST) $$folders

# Machines in network namespaces, whose cables are pulled: for root on Linux, and skipped elsewhere.
test-network: $(READY)
	HOLDFAST_NETWORK_ROUNDS=50 $(BIN)/pytest -n0 -s -m "" tests/network

# Forty seeded faults, and which ring finds each: about an hour.
mutations: tools $(READY)
	$(BIN)/python tools/mutation_check.py --full

run: $(READY)
	$(BIN)/holdfast serve

format: $(READY)
	$(BIN)/ruff format src benchmarks tests tools
	$(BIN)/ruff check --fix src benchmarks tests tools

docs: $(READY)
	$(BIN)/python tools/make_operation_index.py
	$(BIN)/python tools/make_stubs.py
	$(BIN)/python -m holdfast.surfaces.reference docs/reference
	$(BIN)/python tools/show_walks.py --docs

bench: $(READY)
	$(BIN)/holdfast bench

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis bench-report

.PHONY: all setup tools check lint types test test-all test-failed test-network mutations run format docs bench clean
