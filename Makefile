# A fresh machine needs `make run` and `make test` alone. The other targets are for developers of the engine.

# The directory where rustup puts cargo, for a shell whose PATH lacks it.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help setup setup-rivals run test lint doc miri loom torture rivals check-rivals accept-store accept-guards accept-memory accept-heat accept-faults accept-ruler accept-rooms accept-values accept-tree accept-tiers accept-everyday

help:
	@echo 'make run            build the command and show in half a minute what BraidDB does'
	@echo 'make test           every test'
	@echo 'make lint           formatting and clippy'
	@echo 'make doc            the documentation, into target/doc'
	@echo 'make miri           the tests of the modules with unsafe code, under Miri'
	@echo 'make loom           every interleaving of a few threads: skiplist, views, snapshots, and what readers hold'
	@echo 'make torture        the judges with fresh seeds, for HOURS=n (1, and 0.1, are fine)'
	@echo 'make rivals         other stores beside this one, in the same run'
	@echo 'make check-rivals   whether the driver of the other stores compiles'
	@echo 'make accept-store   the lines of the store, each with its figure and PASS or FAIL'
	@echo 'make accept-guards  the same for guards'
	@echo 'make accept-memory  the same for memory'
	@echo 'make accept-heat    the same for heat'
	@echo 'make accept-faults  the same for faults, without torture; as root, with a device that fails'
	@echo 'make accept-ruler   the same for the ruler, which measures with nothing else on the machine'
	@echo 'make accept-rooms   the same for rooms, with torture'
	@echo 'make accept-values  the same for values'
	@echo 'make accept-tree    the same for one tree'
	@echo 'make accept-tiers   the same for tiers'
	@echo 'make accept-everyday the same for everyday use'
	@echo '                    with AGAIN=LINE a line of these runs again that has a result already'

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
	RUSTFLAGS='--cfg loom' cargo test -p braidb --lib --target-dir target/loom -- memory::interleavings

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

check-rivals: setup-rivals
	cargo check --manifest-path lab/rivals/Cargo.toml --all-targets --locked

# A line with a result for these sources is not run again, unless AGAIN names it: make accept-heat AGAIN='ws1 ws2'
AGAIN ?=
ACCEPT = $(foreach line,$(AGAIN),--again $(line))

accept-store: setup
	scripts/accept/store $(ACCEPT)

accept-guards: setup
	scripts/accept/guards $(ACCEPT)

accept-memory: setup-rivals
	scripts/accept/memory $(ACCEPT)

accept-heat: setup
	scripts/accept/heat $(ACCEPT)

accept-faults: setup
	scripts/accept/faults $(ACCEPT)

accept-ruler: setup-rivals
	scripts/accept/ruler $(ACCEPT)

accept-rooms: setup
	scripts/accept/rooms $(ACCEPT)

accept-values: setup-rivals
	scripts/accept/values $(ACCEPT)

accept-tree: setup-rivals
	scripts/accept/tree $(ACCEPT)

accept-tiers: setup
	scripts/accept/tiers $(ACCEPT)

accept-everyday: setup
	scripts/accept/everyday $(ACCEPT)
