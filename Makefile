# Users need only `make run` and `make test`, also on a fresh machine. The other targets are for developers of the engine.

# The directory where rustup puts cargo, for a shell whose PATH lacks it.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help setup setup-rivals run test lint doc miri loom torture regress rivals check-rivals

help:
	@echo 'make run       build the command and show in half a minute what BraidDB does'
	@echo 'make test      every test'
	@echo 'make lint      formatting and clippy'
	@echo 'make doc       the documentation, into target/doc'
	@echo 'make miri      the tests of the modules with unsafe code, under Miri'
	@echo 'make loom      every interleaving of a few threads: skiplist, views, snapshots, and the cache'
	@echo 'make torture   the judges with fresh seeds, for HOURS=n hours (1 by default; 0.1 works too)'
	@echo 'make regress   compare figures with their limits: LINES="queues ws1" (all lines take hours); LINES=--list shows them'

setup:
	@scripts/setup.sh

run: setup
	cargo build --release -p braidb-cli
	cargo run --release --quiet -p braidb-cli -- tour

test: setup
	cargo test --workspace

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --package braidb -- -D warnings # as users build it: without mutants

doc: setup
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps

miri: setup
	@scripts/setup.sh miri
	cargo +nightly miri test -p braidb --lib -- memory:: base::value:: --skip plan::

# The flag changes every crate, so loom has a target directory of its own. Assertions are on, as in the other tests.
loom: setup
	RUSTFLAGS='--cfg loom' cargo test -p braidb --lib --target-dir target/loom -- interleavings

HOURS ?= 1
torture: setup
	cargo run -p braidb-sim -- torture --minutes $$(awk 'BEGIN { m = 60 * $(HOURS); print (m > int(m)) ? int(m) + 1 : int(m) }')

# lab/rivals/ is a workspace of its own: see lab/rivals/README.md.
RIVALS = cargo run --release --quiet --manifest-path lab/rivals/Cargo.toml --
setup-rivals:
	@scripts/setup.sh rivals

rivals: setup-rivals
	rm -rf scratch/rivals scratch/rivals.jsonl && mkdir -p scratch
	$(RIVALS) table scratch/rivals scratch/rivals.jsonl --courses random,in-order --rounds 1

check-rivals: setup
	cargo check --manifest-path lab/rivals/Cargo.toml --all-targets --locked

# Lines and options of `braidb-lab regress`: make regress LINES='steady ws1 --again'
LINES ?=
regress: setup
	cargo run --release --quiet -p braidb-lab -- regress $(LINES)
