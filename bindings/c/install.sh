#!/usr/bin/env bash
# Installs the C library: bindings/c/install.sh PREFIX [DIR]
#
# Below PREFIX come include/braidb.h, lib/libbraidb.so.0 with the link libbraidb.so, lib/libbraidb.a and lib/pkgconfig/braidb.pc. Without
# DIR the libraries are built in release mode and lose their debug information. With DIR they are taken from there as they are.
set -euo pipefail

[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: $0 PREFIX [DIR]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$1/include" "$1/lib/pkgconfig"
prefix=$(cd "$1" && pwd)

if [ $# = 2 ]; then
    from=$2
else
    cargo build --release --locked --manifest-path "$root/Cargo.toml" -p braidb-c
    from=${CARGO_TARGET_DIR:-$root/target}/release
fi

install -m 644 "$here/include/braidb.h" "$prefix/include/braidb.h"
install -m 755 "$from/libbraidb_c.so" "$prefix/lib/libbraidb.so.0"
install -m 644 "$from/libbraidb_c.a" "$prefix/lib/libbraidb.a"
ln -sfn libbraidb.so.0 "$prefix/lib/libbraidb.so"
if [ $# = 1 ] && command -v strip >/dev/null; then
    strip --strip-unneeded "$prefix/lib/libbraidb.so.0"
    strip --strip-debug "$prefix/lib/libbraidb.a"
fi

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/braidb.pc.in" >"$prefix/lib/pkgconfig/braidb.pc"
