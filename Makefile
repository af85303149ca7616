# demo, test, test-all, test-long, test-oldest, test-matrix, test-python, test-neighbours, test-array-api, oracle, lint, docs, bench, gpu-check, clean.  Each target first sets up what it needs in $(VENV); nothing else is touched.
#
#   make demo                                  logistic regression on real data, with a summary
#   make test                                  the quick tier of the tests, in minutes
#   make test-all                              all of them
#   make test-long                             all of them, with twenty times the seeds of the random programs
#   make test PYTEST_ARGS="tests/tracer/ir"    a part of the tests
#   make bench BENCH_ARGS="--quick"            options of python -m benchmarks
#   make test PYTHON=python3.12 VENV=.venv312  another interpreter
#   make test-python PYTHON_VERSION=3.13       another one, which is fetched where there is none
#   make test-matrix MATRIX="0.65 newest"      linear algebra and kernels with these releases of numba, each with its LLVM

PYTHON ?= python3
VENV ?= .venv
OLDEST ?= .venv-oldest
NEIGHBOURS ?= .venv-neighbours
WORKERS ?= 2
MATRIX ?= oldest 0.65 newest
PYTEST_ARGS ?= tests
BENCH_ARGS ?=
PIP_ARGS ?=

BIN := $(abspath $(VENV))/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check

.PHONY: demo test test-all test-long test-oldest test-matrix test-python test-neighbours test-array-api oracle bench gpu-check lint docs clean
.NOTPARALLEL:

# Small problems run slower with BLAS threads than without, in SciPy's optimisers most of all; tests have workers instead.
demo test test-all test-long test-neighbours test-array-api: export OPENBLAS_NUM_THREADS ?= 1
# Some fifty tests start an interpreter of their own: without compiled files each of them compiles the library anew.
test test-all test-long: export PYTHONDONTWRITEBYTECODE :=

demo: $(VENV)/.ready-examples
	$(PY) examples/logistic_regression.py

test: SELECTED := -m "not slow"
test-long: export TRACEGRAD_SEEDS := 20

# worksteal: each worker goes through files in order, so that what shares kernels runs where they are compiled
test test-all test-long: $(VENV)/.ready-test
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(SELECTED) $(PYTEST_ARGS)

# The same with the oldest releases that pyproject.toml allows, Python among them, in an environment of their own.
test-oldest: PYTHON := python3.11
test-oldest:
	$(MAKE) VENV=$(OLDEST) PYTHON=$(PYTHON) PIP_ARGS='--constraint $(OLDEST)/oldest.txt' $(OLDEST)/oldest.txt test

# Linear algebra and kernels with the oldest numba, the newest, and one between, each in an environment of its own: what
# LLVM compiles, or numba's names and settings decide.
test-matrix: PYTEST_ARGS := tests/codegen tests/runtime/launch tests/runtime/stored tests/runtime/ahead tests/tracer/ops \
	tests/tracer/numpy_api/test_linalg.py tests/tracer/numpy_api/test_linalg_domains.py \
	tests/tracer/numpy_api/test_linalg_factors.py tests/tracer/scipy_api/test_scipy_linalg.py
test-matrix:
	@PYTEST_ARGS='$(PYTEST_ARGS)' .ci/matrix $(MATRIX)

# The same with another version of Python, from wherever it can be had.
test-python:
	@.ci/python $(or $(PYTHON_VERSION),$(error which one? make test-python PYTHON_VERSION=3.13)) $(PYTEST_ARGS)

# With Dask, JAX and others, in an environment of their own: what they change in other libraries is not in the other tests.
test-neighbours:
	$(MAKE) VENV=$(NEIGHBOURS) '$(NEIGHBOURS)/.ready-test,neighbours'
	$(NEIGHBOURS)/bin/python -m pytest tests/interop tests/array_api tests/nn/test_saving.py tests/project/test_readme.py

# array-api-tests, from its folder SUITE, on our namespace and on NumPy.
test-array-api:
	@test -e '$(SUITE)/array_api_tests' || { echo 'make test-array-api SUITE=path/to/array-api-tests (cloned with its submodule)'; exit 2; }
	$(MAKE) VENV=$(NEIGHBOURS) '$(NEIGHBOURS)/.ready-test,neighbours'
	$(NEIGHBOURS)/bin/python -m pip install --quiet $(PIP_ARGS) -r '$(SUITE)/requirements.txt'
	$(NEIGHBOURS)/bin/python tests/array_api/compare.py '$(SUITE)' $(SUITE_ARGS)

# PyTorch, so that the tests which compare with it do not skip.
oracle: $(VENV)/.ready-oracle

bench: $(VENV)/.ready-bench
	$(PY) -m benchmarks $(BENCH_ARGS)

# Everything that needs a GPU: its tests, compute-sanitizer, benchmarks.  Without one nothing is touched.
gpu-check:
	@nvidia-smi -L 2>/dev/null | grep -q . || { echo 'gpu-check: no GPU (nvidia-smi lists none), nothing done'; exit 2; }
	$(MAKE) --no-print-directory '$(VENV)/.ready-test,cuda'
	$(PY) -m benchmarks --gpu $(BENCH_ARGS)

lint: $(VENV)/.ready-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy -p tracegrad

# The site, in build/site; a warning is an error.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.ready-docs
	$(PY) -m mkdocs build --quiet

clean:
	rm -rf $(VENV) $(OLDEST) $(NEIGHBOURS) .venv-3.* .venv-newest .venv-numba-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each extra: a second run finds it and starts at once.
$(VENV)/.ready-%: pyproject.toml | $(PY)
	$(PIP) install --quiet $(PIP_ARGS) --editable '.[$*]'
	@touch $@

$(VENV)/oldest.txt: pyproject.toml .ci/oldest.py | $(PY)
	$(PY) .ci/oldest.py test > $@

# Debian may have venv without ensurepip: then the pip of the system fills the new environment.
$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'tracegrad needs Python 3.11 or newer: make PYTHON=/path/to/python3.11'; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(PY) install --quiet pip; } || \
		{ rm -rf $(VENV); echo 'No virtual environment could be made: apt install python3-venv'; exit 1; }
