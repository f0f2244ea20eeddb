# The default is what CI runs: set up, format, lint, types, import contracts, tests, docs.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

all: check test

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

setup: $(READY)

check: $(READY)
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m holdfast.surfaces.reference --check docs/reference

test: check
	$(BIN)/pytest -n auto --dist worksteal

fast: $(READY)
	$(BIN)/pytest -n auto -m "not slow"

run: $(READY)
	$(BIN)/holdfast serve

demo: $(READY)
	$(BIN)/holdfast store -T "First memory" -c "Holdfast remembers this." && $(BIN)/holdfast recall "what does it remember"

format: $(READY)
	$(BIN)/ruff format src tests
	$(BIN)/ruff check --fix src tests

docs: $(READY)
	$(BIN)/python -m holdfast.surfaces.reference docs/reference

bench: $(READY)
	$(BIN)/holdfast bench

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis bench-report

.PHONY: all setup check test fast run demo format docs bench clean
