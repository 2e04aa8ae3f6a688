# Everything a developer does here. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Where cargo builds; the scripts need to know as well.
TARGET ?= $(or $(CARGO_TARGET_DIR),target)
# Seconds each fuzz target runs: a minute within `make test`, longer with `make fuzz`.
FUZZ_SECONDS ?= 600
# How long `make soak` keeps weir under load, and how often it kills it.
SOAK_SECONDS ?= 1800
SOAK_KILLS ?= 50

# A Python with the chart library, for the page of `make perf`.
CHARTS := perf/.venv/bin/python

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: setup
setup: ## Install what tests and comparisons need (as root, from Debian's packages)
	@.ci/setup

.PHONY: run
run: ## Build weir with its console and start the quickstart with its echo backend
	@.ci/setup run
	@$(MAKE) --no-print-directory console
	cargo build --release --locked -p weir
	@examples/run $(TARGET)/release/weir quickstart

.PHONY: test
test: setup report console ## Every test, then a minute of each fuzz target
	python3 -m unittest -q perf/bench/tests.py docs/site/tests.py
	@docs/site/stage $(TARGET)/docs
	@if $(NODE); then npm test --prefix console --silent; fi
	@.ci/tests --workspace --locked
	@WEIR_BIN=$(abspath $(TARGET))/debug/weir python3 packaging/test/monitoring.py
	@fuzz/run 60

REPORT := crates/weir-lab/report

.PHONY: structure
structure: ## Print the size, the longest function and the largest import cycle of each crate
	@cargo test -q --locked --workspace --test it -- --nocapture modules_import_one_way

.PHONY: report
report: $(REPORT)/node_modules ## Install the chart library of the Lab's reports, for weir to take in when it is built

# Touched only when it changes: weir-lab is built anew whenever this folder is.
$(REPORT)/node_modules: $(REPORT)/package-lock.json
	@if command -v npm >/dev/null; then \
	npm ci --prefix $(REPORT) --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "report: npm is not installed, reports will have no charts over time"; fi

.PHONY: console
console: console/dist/index.html ## Build the console, for weir to take in when it is built

# Whether there is a Node that the console can be built with; Debian 12's own is older.
NODE := command -v npm >/dev/null && \
	node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'

CONSOLE_SOURCES := $(shell find console/src console/public console/scripts -type f 2>/dev/null) \
	$(addprefix console/,index.html openapi.json package-lock.json tsconfig.json vite.config.ts)

console/dist/index.html: $(CONSOLE_SOURCES)
	@if $(NODE); then \
	{ test console/node_modules/.package-lock.json -nt console/package-lock.json || \
	npm ci --prefix console --ignore-scripts --no-audit --no-fund --loglevel=error; } && \
	npm run build --prefix console --silent; \
	else echo "console: no Node 20.19 or newer with npm, weir will say how to build its console"; fi

DOCS := $(TARGET)/docs
# A binary that exists already: the site then has a page with the help of all commands.
WEIR = $(firstword $(wildcard $(TARGET)/release/weir $(TARGET)/debug/weir))

.PHONY: docs
docs: $(DOCS)-venv/installed ## Build the documentation site into target/docs/site, and check its links
	@docs/site/stage $(DOCS) $(WEIR)
	@cd $(DOCS) && $(abspath $(DOCS)-venv)/bin/zensical build --strict --clean
	@docs/site/check $(DOCS)/site
	@echo "docs: open $(abspath $(DOCS))/site/index.html"

# Newer only when everything is installed.
$(DOCS)-venv/installed: docs/site/requirements.txt
	python3 -m venv --clear $(DOCS)-venv
	$(DOCS)-venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.PHONY: lint
lint: ## Formatting, clippy, and cargo-deny if it is installed
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --all-features check bans licenses sources; \
	else echo "lint: cargo-deny is not installed (cargo install cargo-deny), licences were not checked"; fi

.PHONY: perf
perf: setup $(CHARTS) ## Compare weir with nginx and HAProxy; writes perf/results and docs/performance.md
	cargo build --release --locked -p weir
	@$(CHARTS) perf/run --weir $(TARGET)/release/weir

.PHONY: charts
charts: $(CHARTS) ## Write docs/performance.md and its charts anew from perf/results
	@$(CHARTS) perf/run --report

$(CHARTS): perf/requirements.txt
	@python3 -m venv perf/.venv
	@perf/.venv/bin/pip install --quiet --disable-pip-version-check -r perf/requirements.txt
	@touch $(CHARTS)

.PHONY: console-perf
console-perf: setup console ## Measure the console in a browser: first view, list, body, ten consoles
	cargo build --release --locked -p weir
	cd console && WEIR_BIN=$(abspath $(TARGET))/release/weir node e2e/measure.mjs

.PHONY: pictures
pictures: setup console ## Take the pictures of the console in docs/pictures anew
	cargo build --release --locked -p weir
	WEIR_BIN=$(abspath $(TARGET))/release/weir node console/e2e/pictures.mjs

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZ_SECONDS
	@FUZZ_SEED=0 fuzz/run $(FUZZ_SECONDS)

.PHONY: soak
soak: setup ## Load, reloads and restarts for SOAK_SECONDS; SOAK_KILLS kills
	WEIR_KILLS=$(SOAK_KILLS) cargo test --release --locked -p weir --test it -- durability::kill durability::failpoints \
		durability::counts billing::triggers::kills resubmission::crashes --nocapture
	WEIR_KILLS=20 WEIR_QUOTA=1000000 cargo test --release --locked -p weir --test it -- monitor::a_quota_survives --nocapture
	WEIR_LOAD_SECONDS=$(SOAK_SECONDS) cargo test --release --locked -p weir --test it -- under_load --nocapture
