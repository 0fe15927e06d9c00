# Everything runs in .venv, which is made on first use; later runs need no network.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
STAMP := .venv/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# One torch thread a worker: JOBS workers already fill the cores.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(CURDIR)/$(BIN)/python -m pytest -n $(JOBS)

.PHONY: help demo test test-all test-processors mutants bench lint catalogue wheel lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# pip runs without build isolation: the pinned hatchling of .venv builds, and a changed
# pyproject.toml with the same dependencies needs no network either.
$(STAMP): pyproject.toml constraints.txt
	$(check-python)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq -c constraints.txt hatchling editables
	$(BIN)/python -m pip install -qq -c constraints.txt --no-build-isolation -e '.[dev,bench]'
	@touch $@

demo: $(STAMP) ## train two networks on the copying problem and see which one remembers
	$(BIN)/engram demo

test: $(STAMP) ## the fast tier of tests, about five minutes on two cores, seven the first time
	$(PYTEST) -m "not slow"

test-all: $(STAMP) ## every test, and the numeric ones as other processors run them
	$(PYTEST)
	$(MAKE) test-processors

# torch without vector instructions and with AVX2; our loops compiled for any x86-64, and in the blocks of AVX-512.
NUMERIC := tests/loops tests/maps tests/nn tests/probe
test-processors: $(STAMP) ## the numeric tests of the fast tier as other processors run them
	@failed=; for variant in ATEN_CPU_CAPABILITY=default ATEN_CPU_CAPABILITY=avx2 \
	  ENGRAM_CFLAGS=-march=x86-64 "ENGRAM_CFLAGS=-march=native -DVBYTES=64 -DMR=12"; do \
	  echo "== $$variant"; \
	  env CI=true "$$variant" $(PYTEST) -m "not slow" $(NUMERIC) || failed="$$failed [$$variant]"; \
	done; \
	test -z "$$failed" || { echo "FAILED:$$failed" >&2; exit 1; }

# An hour or more: every fault is put into a copy of the tree, and tests run until one of them finds it.
mutants: $(STAMP) ## put the faults of tools/mutants.toml in, one at a time: do the fast tests find them? ONLY=loops chooses
	$(BIN)/python tools/mutants.py --jobs $(JOBS) $(ONLY)

bench: $(STAMP) ## time the layers against torch.nn, peers and the arithmetic floor (every cell: engram bench cells)
	$(BIN)/engram bench layers

lint: $(STAMP) ## ruff, mypy --strict and the arrow of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

catalogue: $(STAMP) ## write the file that `engram list` and completion read, after a model, task or option was changed
	$(BIN)/python -m engram.cli._catalogue

# The tests run from a copy that has no src/ beside it, so only the wheel can be imported.
# The C of the layers' loops is written for the time of the build: sdist and wheel have it, the repository does not.
WHEEL_TEST := build/wheel-test
GENERATED := src/engram/loops/generated
wheel: $(STAMP) ## build the wheel, install it into an empty environment, test it there
	rm -rf dist .venv-wheel $(WHEEL_TEST)
	$(BIN)/python -m engram.nn._ahead $(GENERATED)
	$(BIN)/python -m build --no-isolation; failed=$$?; rm -r $(GENERATED); exit $$failed
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install -qq -c constraints.txt "$$(ls dist/*.whl)[test]"
	mkdir -p $(WHEEL_TEST)
	cp -r tests pyproject.toml constraints.txt CITATION.cff $(wildcard README.md docs) $(WHEEL_TEST)
	cd $(WHEEL_TEST) && $(CURDIR)/.venv-wheel/bin/python -c \
	  "import engram; assert 'site-packages' in engram.__file__, engram.__file__"
	cd $(WHEEL_TEST) && $(subst $(BIN),.venv-wheel/bin,$(PYTEST)) -m "not slow"

lock: ## make constraints.txt anew: the newest versions that go with torch 2.13.0
	$(check-python)
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	echo 'torch==2.13.0' > .venv-lock/torch.txt
	.venv-lock/bin/python -m pip install -qq -c .venv-lock/torch.txt -e '.[dev,bench,compiler]'
	{ sed '/^[^#]/,$$d' constraints.txt; \
	  .venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable \
	    | sed 's/^\(torch==[0-9.]*\)+.*/\1/'; } > .venv-lock/lock.txt
	mv .venv-lock/lock.txt constraints.txt && rm -rf .venv-lock

clean: ## remove everything that was made here, runs/ excepted
	rm -rf .venv .venv-wheel .venv-lock build dist .pytest_cache .mypy_cache .ruff_cache \
	  .import_linter_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +

define check-python
@command -v $(PYTHON) >/dev/null || { \
  echo "engram needs Python 3.11 or newer; '$(PYTHON)' was not found." \
    "Install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "engram needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
    "Install a newer one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
endef
