# What people type. Each target sets up what it needs first (as root with apt; otherwise it says what is missing).
.DEFAULT_GOAL := help
.PHONY: help demo hub-demo hub-browser test again crash lab bench hostile engines wlm deb rpm dist wheel python-test docs lint clean

target := $(or $(CARGO_TARGET_DIR),target)
binaries := --package pinfold-cli --package pinfold-daemon --package pinfold-bench
hub := --package pinfold-hub --package pinfold-hubclient

help: ## This list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

demo: ## Three acts: real programs, memory that runs short, an urgent job; tables and pictures in demo-results/ (5 minutes)
	@scripts/setup.sh --demo
	@cargo build --release $(binaries)
	@$(target)/release/pinfold-bench demo

hub-demo: ## A hub with simulated hosts (HOSTS=5), and its page on http://127.0.0.1:8470 (until Ctrl-C)
	@scripts/setup.sh --build
	@cargo build --release --package pinfold-hub
	@rm -rf $(target)/hub-demo
	@$(target)/release/pinfold-hub demo --dir $(target)/hub-demo $(if $(HOSTS),--hosts $(HOSTS) --days 2)

hub-browser: ## The hub's page in headless Chromium: each view and role, three sizes, light and dark, keyboard (about 5 minutes)
	@scripts/setup.sh --browser
	@cargo build --package pinfold-hub
	@scripts/hub-browser.sh $(target)/debug

test: ## The whole suite: format, lints, simulated episodes, all tests
	@scripts/setup.sh --test
	@scripts/test.sh

again: ## The whole suite ten times (RUNS) from clean clones: beside busy processes, one test at a time, in an order of chance (hours)
	@scripts/setup.sh --test
	@scripts/again.sh

crash: ## The daemon ends at every point of its life, one after the other, in each mode (long)
	@scripts/setup.sh --test
	@cargo build --workspace --bins
	@PINFOLD_CRASH_POINTS=all cargo test --package pinfold-cli --test e2e crash:: -- --nocapture

lab: ## Emulated hosts (QEMU): control groups v2, NUMA nodes, shared cores; power cuts; then Debian with systemd
	@scripts/setup.sh --lab
	@cargo build --workspace --bins
	@cargo xtask lab
	@cargo xtask lab --power
	@cargo xtask lab --full

bench: ## pinfold beside native launchers and peers (about two hours and a half)
	@scripts/setup.sh --bench
	@cargo build --release $(binaries) --package pinfold-hubclient
	@for row in launch short cost truth short-lived loop interfere waits mpi isolated bandwidth memory programs wlm; do $(target)/release/pinfold-bench $$row || exit 1; done

hostile: ## Users who mean harm, against a daemon of root's: whole attacks, and what harm they did (about 5 minutes)
	@scripts/setup.sh --build
	@cargo build --release --package pinfold-cli --package pinfold-daemon
	@scripts/hostile.sh $(target)/release

engines: ## Workflow engines from the Python registry, end to end on pinfold's Slurm commands (about 10 minutes); PRESSURE=1: while memory is short
	@scripts/setup.sh --build
	@cargo build --release --package pinfold-cli --package pinfold-daemon --package pinfold-slurm --package pinfold-hubclient
	@scripts/engines.sh $(if $(PRESSURE),--pressure) $(target)/release

wlm: ## Real Slurm and Grid Engine, started beside a private daemon: jobs wait, freeze, are cancelled, are accounted (about 5 minutes)
	@scripts/setup.sh --wlm
	@cargo build --package pinfold-cli --package pinfold-daemon
	@scripts/wlm.sh

deb: ## Debian packages in target/: pinfold with the service's unit, manual pages and completions; pinfold-hub; hooks of managers
	@scripts/setup.sh --build
	@cargo build --release --package pinfold-cli --package pinfold-daemon --package pinfold-slurm --package pinfold-hubclient --package pinfold-hub
	@scripts/package.sh $(target)/release $(target)
	@scripts/package-wlm.sh $(target)/release $(target)
	@scripts/package.sh --hub $(target)/release $(target)

rpm: ## A package for Fedora, RHEL, openSUSE, in target/
	@scripts/setup.sh --rpm
	@cargo build --release --package pinfold-cli --package pinfold-daemon --package pinfold-slurm --package pinfold-hubclient
	@scripts/rpm.sh $(target)/release $(target)

dist: ## An archive with static programs for any distribution, in target/
	@scripts/setup.sh --build
	@scripts/dist.sh $(target)

docs: ## The documentation as a site, in target/book/
	@cargo xtask book

wheel: ## A Python wheel with the programs, in target/wheels (docs/python.md)
	@scripts/setup.sh --build
	@cargo build --release --package pinfold-cli --package pinfold-daemon
	@PINFOLD_PROGRAMS=$(abspath $(target))/release pip wheel --quiet --no-deps --wheel-dir $(target)/wheels ./python
	@ls $(target)/wheels/pinfold-*.whl

python-test: ## The Python package's tests, on each CPython from 3.11 on that is here
	@scripts/setup.sh --test
	@cargo build --release --package pinfold-cli --package pinfold-daemon
	@scripts/python-test.sh $(target)/release

lint: ## Format and lints only
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets -- -D warnings

clean: ## Remove what was built and the demo's results
	@cargo clean
	@rm -rf demo-results
