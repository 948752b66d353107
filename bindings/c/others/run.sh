#!/usr/bin/env bash
# Runs the tests of programs that other people wrote for leveldb/c.h, unchanged, with BraidDB's library in the place of LevelDB's:
#
#   levigo 1.0.0      LevelDB for Go, from the module proxy of Go
#   leveldb 0.8.6     LevelDB for Rust, from the registry of Rust. Its tests of comparators are left out: BraidDB refuses those
#   c_test.c          LevelDB 1.22's own test of its C interface, which comes with the Rust package leveldb-sys
#
# Usage: bindings/c/others/run.sh [PREFIX], where `scripts/install PREFIX --leveldb-names` installed the library. Without PREFIX the script
# installs it. All that it fetches and builds lies in scratch/others. It needs go, cargo and cc.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$root/scratch/others
mkdir -p "$work"
cd "$work"
prefix=${1:-$work/installed}
[ $# = 1 ] || "$root/scripts/install" "$prefix" --library braidb-leveldb --leveldb-names
headers=$prefix/include/braidb-leveldb names=$prefix/lib/leveldb-names
export LD_LIBRARY_PATH=$names TEST_TMPDIR=$work/databases
rm -rf "$TEST_TMPDIR" && mkdir -p "$TEST_TMPDIR"

echo "== levigo"
(
    export GOFLAGS=-modcacherw GOPATH=$work/go CGO_CFLAGS=-I$headers CGO_LDFLAGS=-L$names
    levigo=github.com/jmhodges/levigo@v1.0.0
    go mod download "$levigo"
    cd "$GOPATH/pkg/mod/$levigo"
    go test -count=1 -v .
)

echo "== leveldb for Rust"
mkdir -p fetch/src && touch fetch/src/lib.rs
printf '[package]\nname = "fetch"\nversion = "0.0.0"\n[dependencies]\nleveldb = "=0.8.6"\nleveldb-sys = "=2.0.9"\n[workspace]\n' >fetch/Cargo.toml
(cd fetch && cargo vendor --quiet vendor >/dev/null)
rm -rf leveldb && cp -r fetch/vendor/leveldb leveldb
(
    cd leveldb
    printf '\n[workspace]\n' >>Cargo.toml
    # In place of the build script of leveldb-sys, which would build LevelDB.
    host=target.$(rustc -vV | sed -n 's/^host: //p').leveldb
    CARGO_TARGET_DIR=$work/target cargo --config "$host.rustc-link-lib=['leveldb']" --config "$host.rustc-link-search=['$names']" \
        test --test tests -- --skip comparator
)

echo "== LevelDB's test of its C interface"
cc -w -I"$headers" fetch/vendor/leveldb-sys/deps/leveldb-1.22/db/c_test.c -o c_test -L"$names" -lleveldb
# Its comparator orders bytes.
BRAIDB_BYTEWISE_COMPARATORS=foo ./c_test
