# Every target needs nothing but a Python (3.11 or newer) on the machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where the whole data sets are; tests look there too, by the same variable (see tests/data_samples/README.md).
DATA ?= $(or $(MPFEDXGB_DATA),../shared/data)
# Tests at a time: one more than two cores, since some of them wait for a deadline to pass. Each worker takes neighbours,
# so that what the tests of a module share is made once, and helps the others when it is done.
TESTS := -n 3 --dist worksteal
# Compiled files are kept: without them every process that a test starts would compile the package again.
test test-unit coverage oldest: export PYTHONDONTWRITEBYTECODE :=
# make setup CONSTRAINTS=constraints.txt: the versions that the tests last passed with, instead of the newest, and every
# file by its digest; the site has its own list, constraints-docs.txt. pip checks no digest of the package itself, which
# is installed afterwards, without its dependencies and with the setuptools that is there by then.
CONSTRAINTS ?=
PIP := -m pip install --quiet --disable-pip-version-check
# $(call installed,PYTHON,EXTRA,CONSTRAINTS)
installed = $(if $(3),$(1) $(PIP) --require-hashes --no-deps --only-binary :all: --requirement $(3) \
	&& $(1) $(PIP) --no-deps --no-build-isolation --editable .,$(1) $(PIP) --editable ".[$(2)]")

# Beside the oldest typer and matplotlib belong a click and a pyparsing of their time: newer ones warn of what those two
# use, and warnings are errors.
OLDEST := click==8.2.1 pyparsing==3.2.0

# XGBoost's federated vertical mode is gone with 3.4, and was never in xgboost-cpu. Dependencies are named one by one:
# the one for GPUs that xgboost brings is larger than all the rest, and of no use here.
YARDSTICK := build/yardstick
UNPROTECTED := xgboost>=3.0,<3.4 numpy scipy

# The documentation site has tools of its own, which nothing else needs.
SITE := build/site-tools

PINNED := pyproject.toml --quiet --upgrade --universal --generate-hashes --no-annotate --custom-compile-command "make constraints"

.PHONY: setup demo test test-unit coverage mutants generate check bench yardstick parity fuzz reproduce leaks
.PHONY: constraints oldest dist others docs notebooks clean

setup: $(STAMP)  ## create .venv and install the package with its development tools

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mpfedxgb needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(call installed,$(BIN)/python,dev,$(CONSTRAINTS))
	@touch $(STAMP)

demo: $(STAMP)  ## train a federation of four, compare with xgboost, show what was revealed
	$(BIN)/mpfedxgb demo $(ARGS)

test: $(STAMP)  ## run the tests
	$(BIN)/python -m pytest -q $(TESTS) $(ARGS)

test-unit: $(STAMP)  ## the tests that start no process and wait for nothing (a minute or so)
	$(BIN)/python -m pytest -q $(TESTS) -m unit $(ARGS)

coverage: $(STAMP)  ## run the tests and measure what they reach; below the floor in pyproject.toml is a failure
	$(BIN)/python -m pytest -q $(TESTS) --cov --cov-report=term-missing:skip-covered $(ARGS)

mutants: $(STAMP)  ## small wrong changes of the engine that the tests should notice (see benchmarks/mutants.md; some minutes)
	$(BIN)/python benchmarks/mutants.py $(or $(ARGS),--sample 100)

generate: $(STAMP)  ## write what follows from declarations: signatures, options, tables of the documents
	PYTHONPATH=. $(BIN)/python tools/generate.py

check: $(STAMP)  ## ruff, format, mypy --strict, import-linter, codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(STAMP)  ## rates, rounds and bytes of every protocol, and the kernels against their limits
	$(BIN)/python benchmarks/bench_protocols.py $(ARGS)

yardstick: $(STAMP) $(YARDSTICK)/.installed  ## the paper's job beside XGBoost's vertical mode, which protects nothing
	$(BIN)/python benchmarks/bench_unprotected.py $(ARGS)

$(YARDSTICK)/.installed:
	$(PYTHON) -m venv --clear $(YARDSTICK)
	$(YARDSTICK)/bin/python $(PIP) --only-binary :all: --no-deps $(foreach wheel,$(UNPROTECTED),"$(wheel)")
	@touch $@

parity: $(STAMP)  ## compare with xgboost on the full-size data sets in DATA (minutes)
	$(BIN)/python benchmarks/parity.py --data $(DATA) $(ARGS)

fuzz: $(STAMP)  ## random trainings against the oracle, xgboost and the exported model (some ten minutes)
	$(BIN)/python benchmarks/fuzz.py $(ARGS)

reproduce: $(STAMP)  ## repeat every table and figure of the paper from the data sets in DATA (some ten minutes)
	$(BIN)/mpfedxgb reproduce all --data $(DATA) $(ARGS)

leaks: $(STAMP)  ## what a curious role makes of each mode's reveals, and what one that deviates learns, attack by attack
	$(BIN)/python -m experiments.leaks $(ARGS)

others: $(STAMP) build/others/.installed  ## deployment files by their schemas, and scores asked for by others' programs
	PYTHONPATH=$$(echo build/others/checkers/lib/python*/site-packages) $(BIN)/python -m pytest tests/test_deployments.py
	$(BIN)/python benchmarks/http_clients.py --tools build/others/*/

build/others/.installed:
	for tools in "checkers kubernetes-validate check-jsonschema" "schemathesis schemathesis" "kserve kserve" "mlflow mlflow"; do \
	    set -- $$tools; $(PYTHON) -m venv build/others/$$1; \
	    folder=build/others/$$1; shift; $$folder/bin/python -m pip install --quiet "$$@" || exit 1; done
	touch $@

oldest:  ## run the tests with the oldest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python $(PIP) uv
	VIRTUAL_ENV=build/oldest build/oldest/bin/uv pip install --quiet --resolution lowest-direct --editable ".[dev]" $(OLDEST)
	build/oldest/bin/python -m pytest -q $(TESTS) $(ARGS)

constraints:  ## write constraints.txt and constraints-docs.txt: the newest versions, for all systems, with digests
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python $(PIP) uv
	build/constraints/bin/uv pip compile $(PINNED) --python-version 3.11 --extra dev --output-file constraints.txt
	build/constraints/bin/uv pip compile $(PINNED) --python-version 3.11.5 --extra docs --output-file constraints-docs.txt

dist:  ## build the source distribution and the wheel into dist/
	$(PYTHON) -m venv --clear build/tools
	build/tools/bin/python $(PIP) build
	build/tools/bin/python -m build

docs: $(SITE)/.installed  ## build the documentation site into build/site; a broken link or a warning is a failure
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet  # the warning is about a later major version
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m pytest -q tests/test_site.py

notebooks: $(SITE)/.installed  ## run the tutorials anew, in place (some minutes)
	PATH=$(CURDIR)/$(SITE)/bin:$$PATH $(SITE)/bin/jupyter-execute --inplace docs/tutorials/*.ipynb

$(SITE)/.installed: pyproject.toml
	$(PYTHON) -m venv $(SITE)
	$(call installed,$(SITE)/bin/python,docs,$(CONSTRAINTS:.txt=-docs.txt))
	@touch $@

clean:
	rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
