# make demo   sets up and runs the main job on a fixture
# make test   sets up everything and runs every check and test
# Needs Python 3.11+ and a Rust toolchain; everything else is fetched into .venv (and, as root, what tests run: see setup-tools).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first that is new enough and really starts (a version manager's stand-in may not).
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for it in python3 python3.13 python3.12 python3.11; do $$it $(NEW_ENOUGH) 2>/dev/null && echo $$it && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= .demo
DEMO_EVIDENCE := fixtures/bullmq/v5-crash-locks-expired/evidence.rdb fixtures/asynq/crash-lease-expired-0.26.0/evidence.rdb
MANIFEST := --locked --manifest-path rust/Cargo.toml
# PyO3's build asks this interpreter; without it every other Python on the PATH would mean a rebuild.
export PYO3_PYTHON := $(abspath $(BIN)/python)
RUST_SOURCES := $(shell find rust -name '*.rs' -not -path '*/target/*') $(wildcard rust/Cargo.* rust/*/Cargo.toml)

.PHONY: help demo test lint types rust pytest fuzz docs fixtures crash-matrix bench clean setup-tools

help:
	@sed -n '1,3p' Makefile; echo "other targets: lint types rust pytest fuzz docs fixtures crash-matrix bench clean"

# ---- setting up

$(BIN)/python:
	@[ -n "$(PYTHON)" ] && "$(PYTHON)" $(NEW_ENOUGH) \
	  || { echo "jobsleuth needs Python 3.11 or later; say which: make PYTHON=/path/to/python" >&2; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory venv-package
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

# Debian ships venv apart from Python.
.PHONY: venv-package
venv-package:
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; \
	else echo "Python's venv module is missing; on Debian: apt install python3-venv" >&2; exit 2; fi

$(VENV)/.installed: $(BIN)/python pyproject.toml $(RUST_SOURCES)
	@command -v cargo >/dev/null || { echo "a Rust toolchain is needed: https://rustup.rs" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group dev --group docs
	@touch $@

# What the tests run for real. Absent and not root: the tests that need it skip, and say so.
setup-tools:
	@missing=(); \
	command -v redis-server >/dev/null || missing+=(redis-server); \
	command -v npm >/dev/null || missing+=(nodejs npm); \
	command -v go >/dev/null || missing+=(golang-go); \
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium); \
	if [ $${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  echo "installing $${missing[*]}"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$${missing[@]}"; } >/dev/null \
	    || echo "could not install them: tests that need them skip" >&2; \
	elif [ $${#missing[@]} -gt 0 ]; then echo "not installed: $${missing[*]}; tests that need them skip" >&2; fi

# ---- the two commands

demo: $(VENV)/.installed
	@mkdir -p $(DEMO)
	$(BIN)/jobsleuth analyze $(DEMO_EVIDENCE) --out $(DEMO)/case --force

test: setup-tools
	@$(MAKE) --no-print-directory lint types rust
	@$(MAKE) --no-print-directory pytest

# ---- the parts of it

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	@{ cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 || rustup component add rustfmt clippy
	cargo fmt --manifest-path rust/Cargo.toml --all --check
	cargo clippy $(MANIFEST) --workspace --all-targets --quiet -- -D warnings

types: $(VENV)/.dev
	$(BIN)/mypy

rust: $(VENV)/.dev
	cargo test $(MANIFEST) --workspace --quiet

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

# Each target for SECONDS, two at a time; wants a C++ compiler.
FUZZ_TARGETS ?= $(notdir $(wildcard rust/fuzz/seeds/*))
SECONDS ?= 30
CARGO_FUZZ := PATH="$(abspath $(BIN)):$$PATH" cargo fuzz
fuzz: $(BIN)/cargo-fuzz
	@command -v c++ >/dev/null || $(MAKE) --no-print-directory c++-package
	@mkdir -p $(FUZZ_TARGETS:%=rust/fuzz/corpus/%)
	cd rust/fuzz && $(CARGO_FUZZ) build --sanitizer none
	@cd rust/fuzz && printf '%s\n' $(FUZZ_TARGETS) | xargs -P 2 -I{} env $(CARGO_FUZZ) run --sanitizer none {} corpus/{} seeds/{} -- \
	  -max_total_time=$(SECONDS) -max_len=16384 -timeout=10 -rss_limit_mb=512 -verbosity=0 -print_final_stats=1

$(BIN)/cargo-fuzz: | $(BIN)/python
	cargo install --quiet --locked --root $(VENV) cargo-fuzz

.PHONY: c++-package
c++-package:
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ >/dev/null; \
	else echo "a C++ compiler is missing; on Debian: apt install g++" >&2; exit 2; fi

# ---- made from the code

# The documentation as a site, in .site/; a page that does not lead where it says is an error.
.PHONY: site
site: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

docs: $(VENV)/.dev
	$(BIN)/python -m jobsleuth.checks.pages docs
	$(BIN)/python -m jobsleuth.cli.pages docs
	$(BIN)/python -m jobsleuth.api.pages docs

fixtures:
	fixtures/make/bullmq/make.sh
	fixtures/make/asynq/make.sh
	fixtures/make/incidents/make.sh

# Every step of the libraries, cut off behind each command; a quarter of an hour, most of it waiting for leases.
crash-matrix: $(VENV)/.dev
	$(BIN)/python fixtures/make/crash/matrix.py fixtures/crash

# Dumps of 100 MB from a real server, then the times; the peers live in a Python of their own.
BENCH_SHAPES := bullmq asynq cache
bench: $(VENV)/.dev $(BENCH_SHAPES:%=benchmarks/data/%-100.rdb) $(VENV)/peers/bin/python
	$(BIN)/python benchmarks/run.py --peer-python $(VENV)/peers/bin/python $(BENCH_SHAPES:%=benchmarks/data/%-100.rdb)

benchmarks/data/%-100.rdb: | $(VENV)/.dev
	@mkdir -p benchmarks/data
	$(BIN)/python benchmarks/generate.py --shape $* --megabytes 100 --out $@

$(VENV)/peers/bin/python:
	"$(PYTHON)" -m venv $(VENV)/peers
	$@ -m pip install --quiet rdb-py rdbtools python-lzf

clean:
	rm -rf $(VENV) $(DEMO) .site benchmarks/data rust/target .mypy_cache .ruff_cache .pytest_cache
