# Every target needs nothing but a Python (3.11 or newer) on the machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATA ?= ../shared/data

.PHONY: setup demo test check bench parity reproduce leaks clean

setup: $(STAMP)  ## create .venv and install the package with its development tools

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mpfedxgb needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)  ## train a federation of four, compare with xgboost, show what was revealed
	$(BIN)/mpfedxgb demo $(ARGS)

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest -q -n 2 $(ARGS)

check: $(STAMP)  ## ruff, format, mypy --strict, import-linter, codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(STAMP)  ## rates, rounds and bytes of every protocol, and the kernels against their limits
	$(BIN)/python benchmarks/bench_protocols.py $(ARGS)

parity: $(STAMP)  ## compare with xgboost on the full-size data sets in DATA (minutes)
	$(BIN)/python benchmarks/parity.py --data $(DATA) $(ARGS)

reproduce: $(STAMP)  ## repeat every table and figure of the paper from the data sets in DATA (some ten minutes)
	$(BIN)/mpfedxgb reproduce all --data $(DATA) $(ARGS)

leaks: $(STAMP)  ## what the paper's reveals tell a curious role, attack by attack, beside strict
	$(BIN)/python -m mpfedxgb.experiments.leaks $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
