# `make` lists the targets. Everything is installed into .venv; nothing outside it is touched.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full lint types docs bench clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
BENCH_STAMP := $(VENV)/.bench-done
DOCS_STAMP := $(VENV)/.docs-done
PAGES := build/docs
# Name an interpreter to overrule the search: make setup PYTHON=/path/to/python
PYTHON ?=
DEMO := ratio shared_prefix:groups=32,prompts=16,block_size=16 \
	--eviction llru rlt random_leaf fifo lfu --capacity 5% --seeds 16

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
	  | awk -F'\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'

setup: $(STAMP) ## make .venv and install the package with everything it needs

$(STAMP): pyproject.toml Makefile .ci/find-python
	@python=$$(bash .ci/find-python $(PYTHON)) || exit 1; \
	if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
	  echo "setup: making $(VENV) with $$python ($$($$python --version))"; \
	  "$$python" -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "setup: upgrading pip"
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@echo "setup: installing kvtheory, its plots, and the tools for tests, lint and builds"
	@$(BIN)/python -m pip install -qq --editable '.[plot,survey,sweep,cluster,report]' --group dev
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@echo "bench: installing the libraries to compare with"
	@$(BIN)/python -m pip install -qq --editable '.[bench]'
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@echo "docs: installing Sphinx and what the pages need"
	@$(BIN)/python -m pip install -qq --group docs
	@touch $@

demo: $(STAMP) ## eviction policies against the offline optimum on a generated instance
	@echo "demo: kvtheory $(DEMO)"
	@$(BIN)/kvtheory $(DEMO)

test: $(STAMP) ## the tests without the slow ones
	@echo "test: pytest, slow tests left out"
	@$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

test-full: $(STAMP) ## all tests
	@echo "test-full: pytest, all tests"
	@$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMP) ## ruff: rules and formatting
	@echo "lint: ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP) ## pyrefly: static types
	@echo "types: pyrefly"
	@$(BIN)/pyrefly check

docs: $(DOCS_STAMP) ## build the pages into build/docs; warnings and dead links are errors
	@echo "docs: sphinx"
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs $(PAGES)
	@$(BIN)/python docs/check_links.py $(PAGES)

bench: $(BENCH_STAMP) ## measure the speed on this machine
	@$(BIN)/kvtheory bench

clean: ## remove .venv, caches and builds
	@echo "clean: removing $(VENV), caches and builds"
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
