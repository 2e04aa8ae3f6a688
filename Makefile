# Everything a developer does here. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Where cargo builds; the scripts need to know as well.
TARGET ?= $(or $(CARGO_TARGET_DIR),target)
# Seconds each fuzz target runs with `make fuzz`; within `make test` seconds, without a fuzzer.
FUZZ_SECONDS ?= 600
# How long `make soak` keeps weir under load, and how often it kills it.
SOAK_SECONDS ?= 1800
SOAK_KILLS ?= 50

# Runs a command with a Node that the console can be built with; Debian 12's own is older.
WITH_NODE := $(abspath .ci/node/run)

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: setup
setup: ## Install what tests and comparisons need (as root, from Debian's packages)
	@.ci/setup

.PHONY: run
run: ## Build weir with its console and start the quickstart with its echo backend
	@.ci/setup run
	@$(MAKE) --no-print-directory report console
	cargo build --profile try --locked -p weir
	@examples/run $(TARGET)/try/weir quickstart

HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# The oldest C library that the shipped binary runs with.
GLIBC := 2.31
RELEASE_TOOLS := $(TARGET)/release-tools

# Installs the linker (zig has the symbol versions of every glibc) and the tools of a release.
$(RELEASE_TOOLS)/installed: packaging/requirements.txt
	python3 -m venv --clear $(RELEASE_TOOLS)
	$(RELEASE_TOOLS)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	cargo install --quiet --locked --debug --root $(RELEASE_TOOLS) cargo-zigbuild@0.24.1 cargo-auditable@0.7.7
	@touch $@

# Which code requests pass through: the compiler inlines and arranges by that. Made once; one of an older
# source serves as well, except for the functions that have changed. `make profile` makes it anew.
PROFILE := $(abspath $(TARGET))/weir.profdata

.PHONY: profile
profile: setup report console ## Count which code requests pass through, for the next `make release`
	packaging/pgo/profile $(PROFILE) $(TARGET)/pgo

$(PROFILE):
	@$(MAKE) --no-print-directory profile

.PHONY: release
release: report console $(RELEASE_TOOLS)/installed | $(PROFILE) ## Build weir as it is shipped: target/dist/weir, and its debug lines in weir.debug
	PATH="$(abspath $(RELEASE_TOOLS))/bin:$$PATH" RUSTFLAGS="-Cprofile-use=$(PROFILE)" \
	cargo auditable zigbuild --release --locked -p weir --target $(HOST).$(GLIBC) --target-dir $(TARGET)
	@mkdir -p $(TARGET)/dist
	@cd $(TARGET)/dist && built=../$(HOST)/release/weir && \
	objcopy --only-keep-debug --compress-debug-sections=zlib $$built weir.debug && \
	objcopy --strip-all --add-gnu-debuglink=weir.debug $$built weir && ls -l weir weir.debug

.PHONY: package
package: setup release ## Write packages of the shipped binary into target/dist: Debian, archive, image, Helm chart
	@rm -f $(TARGET)/dist/weir[-_]*
	@packaging/deb/build $(TARGET)/dist/weir $(TARGET)/dist
	@packaging/image/build $(TARGET)/dist/weir $(TARGET)/dist
	@packaging/helm/build $(TARGET)/dist
	@packaging/tarball/build $(TARGET)/dist/weir $(TARGET)/dist

# The binary whose packages are tested.
PACKAGED = $(abspath $(TARGET))/dist/weir

.PHONY: package-test
package-test: ## Build, install, use and remove packages of the shipped binary; `make test` does so with that of the tests
	@packaging/test/chart-tools
	@for name in monitoring tarball image deb chart; do \
	echo "packages: $$name"; WEIR_BIN=$(PACKAGED) python3 packaging/test/$$name.py; done

# Tests of connections: these run by epoll as well, where the others run by io_uring.
OF_CONNECTIONS := clients:: framing:: http2:: smuggling:: streaming:: tls:: unix_sockets:: upgrades::

# Most tests wait for servers, databases and files, some for a core. Those of the Lab measure: no more than cores
# at a time.
THREADS := $(shell echo $$(( $$(nproc) + 1 )))

.PHONY: test
test: setup report console ## Every test, the short form of fuzzing included
	python3 -m unittest -q docs/site/tests.py
	@docs/site/stage $(TARGET)/docs
	@cd console && $(WITH_NODE) node --run test
	@rm -f $(TARGET)/second-run
	@RUST_TEST_THREADS=$(THREADS) $(WITH_NODE) .ci/tests --workspace --locked -- --skip lab::
	@$(WITH_NODE) .ci/tests --locked -p weir -- lab::
	@WEIR_TEST_IO=epoll .ci/tests --locked -p weir --test it -- $(OF_CONNECTIONS)
	@mkdir -p $(TARGET)/stripped && objcopy --strip-debug $(TARGET)/debug/weir $(TARGET)/stripped/weir
	@$(MAKE) --no-print-directory package-test PACKAGED=$(abspath $(TARGET))/stripped/weir
	@cat $(TARGET)/second-run

REPORT := crates/weir-lab/report

.PHONY: structure
structure: report console ## Print the size, the longest function and the largest import cycle of each crate
	@cargo test -q --locked --workspace --test it -- --nocapture modules_import_one_way

.PHONY: report
report: $(REPORT)/node_modules ## Install the chart library of the Lab's reports, for weir to take in when it is built

# Touched only when it changes: weir-lab is built anew whenever this folder is.
$(REPORT)/node_modules: $(REPORT)/package-lock.json
	@$(WITH_NODE) npm ci --prefix $(REPORT) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: console
console: console/dist/index.html ## Build the console, for weir to take in when it is built

CONSOLE_SOURCES := $(shell find console/src console/public console/scripts -type f 2>/dev/null) \
	$(addprefix console/,index.html openapi.json package-lock.json tsconfig.json vite.config.ts)

console/dist/index.html: $(CONSOLE_SOURCES)
	@test console/node_modules/.package-lock.json -nt console/package-lock.json || \
	$(WITH_NODE) npm ci --prefix console --ignore-scripts --no-audit --no-fund --loglevel=error
	@cd console && $(WITH_NODE) node --run build

DOCS := $(TARGET)/docs
# A binary that exists already: the site then has a page with the help of all commands.
WEIR = $(firstword $(wildcard $(TARGET)/dist/weir $(TARGET)/try/weir $(TARGET)/debug/weir))

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
lint: report console ## Formatting, clippy, and cargo-deny if it is installed
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo check --quiet --locked -p weir-fuzz --bins --features libfuzzer
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --all-features check bans licenses sources; \
	else echo "lint: cargo-deny is not installed (cargo install cargo-deny), licences were not checked"; fi

.PHONY: perf
perf: setup release ## Compare weir with other servers; writes perf/results and docs/performance.md
	@perf/lab $(TARGET)/dist/weir

.PHONY: console-perf
console-perf: setup release ## Measure the console in a browser: first view, list, body, ten consoles
	cd console && WEIR_BIN=$(abspath $(TARGET))/dist/weir $(WITH_NODE) node e2e/measure.mjs

.PHONY: pictures
pictures: setup release ## Take the pictures of the console in docs/pictures anew
	WEIR_BIN=$(abspath $(TARGET))/dist/weir $(WITH_NODE) node console/e2e/pictures.mjs

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZ_SECONDS
	@FUZZ_SEED=0 fuzz/run $(FUZZ_SECONDS)

# As fast as the binary that is shipped, without the wait for its link-time optimisation.
SOAK_TEST := cargo test --profile bench --locked -p weir --test it --

.PHONY: soak
soak: setup report console ## Load, reloads and restarts for SOAK_SECONDS; SOAK_KILLS kills
	WEIR_KILLS=$(SOAK_KILLS) $(SOAK_TEST) durability::kill durability::failpoints \
		durability::counts billing::triggers::kills resubmission::crashes --nocapture
	WEIR_FLEET_NODES=8 WEIR_LOAD_SECONDS=60 $(SOAK_TEST) fleet::rates --nocapture
	WEIR_FLEET_SOAK_SECONDS=$(SOAK_SECONDS) $(SOAK_TEST) fleet::soak --nocapture
	WEIR_REPETITIONS=10 $(SOAK_TEST) fleet::usage shipping::opensearch_killed --nocapture
	WEIR_SUSPENDED_SECONDS=50 $(SOAK_TEST) fleet::members --nocapture
	WEIR_REPETITIONS=1000 $(SOAK_TEST) fleet::claims::of_two --nocapture
	WEIR_KILLS=50 $(SOAK_TEST) fleet::quotas --nocapture
	WEIR_KILLS=20 WEIR_QUOTA=1000000 $(SOAK_TEST) monitor::a_quota_survives --nocapture
	WEIR_KAFKA_KILLS=20 $(SOAK_TEST) shipping::kafka --nocapture
	WEIR_LOAD_SECONDS=$(SOAK_SECONDS) $(SOAK_TEST) under_load --nocapture
	LAB_VERDICTS=all LAB_CORPUS=all $(SOAK_TEST) lab::spoilt lab::jmeter::corpus --nocapture
	WEIR_TEST_IO=epoll $(SOAK_TEST)
