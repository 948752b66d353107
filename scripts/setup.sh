#!/usr/bin/env bash
# Checks for the tools that the build needs, and installs missing ones: a C linker, and a Rust toolchain that is new enough. With the
# argument `miri`, also a nightly toolchain with Miri. With `bindings`, also a C++ compiler, Python, a JDK, Maven and patch, for the tests of the bindings.
# With `rivals`, also LevelDB, which lab/rivals/ loads. With `rocksdb`, also a release build of RocksDB, from its Java package. With
# `hyperleveldb`, also HyperLevelDB 1.0.2, built from the sources in a package of Node.js. The last line of output is then the `export` that
# tells lab/rivals/ where this build is. Changes nothing if nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install PACKAGE…: installs packages by the package manager of the system.
install() {
    echo "setup: installing $*" >&2
    if command -v apt-get >/dev/null; then
        as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy "$@"
    elif command -v dnf >/dev/null; then
        as_root dnf install -qy "$@"
    elif command -v pacman >/dev/null; then
        as_root pacman -Sy --noconfirm "$@"
    elif command -v zypper >/dev/null; then
        as_root zypper -n install "$@"
    elif command -v apk >/dev/null; then
        as_root apk add "$@"
    else
        echo "setup: no package manager that this script knows; please install: $*" >&2
        return 1
    fi
}

# named APT DNF PACMAN ZYPPER APK: the name of a package for the package manager that `install` uses.
named() {
    if command -v apt-get >/dev/null; then echo "$1"
    elif command -v dnf >/dev/null; then echo "$2"
    elif command -v pacman >/dev/null; then echo "$3"
    elif command -v zypper >/dev/null; then echo "$4"
    else echo "$5"
    fi
}

# cargo_will_do: whether cargo exists and is at least as new as Cargo.toml asks for.
cargo_will_do() {
    local version
    version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$version" ] && [ "$(printf '%s\n' "$wanted" "${version%%-*}" | sort -V | head -n1)" = "$wanted" ]
}

# java_will_do: whether there is a JDK of version 17 or later.
java_will_do() {
    local version
    version=$("${JAVA_HOME:+$JAVA_HOME/bin/}javac" -version 2>/dev/null | sed -n "s/^javac \([0-9]*\).*/\1/p") || return 1
    [ -n "$version" ] && [ "$version" -ge 17 ]
}

if ! command -v cc >/dev/null; then
    if command -v apk >/dev/null; then install gcc musl-dev; else install gcc; fi
fi

if ! cargo_will_do; then
    if ! command -v rustup >/dev/null; then
        if ! install rustup; then
            command -v curl >/dev/null || install curl ca-certificates
            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --no-modify-path --profile minimal
        fi
        # Some distributions' package of rustup brings `rustup-init` and no cargo of its own.
        if ! command -v rustup >/dev/null && command -v rustup-init >/dev/null; then
            rustup-init -y --no-modify-path --profile minimal
        fi
    fi
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt
    # The override holds for this directory alone, so that the user's default toolchain stays as it is.
    rustup override set stable
    cargo_will_do || { echo "setup: cargo $wanted or newer is needed; found: $(cargo --version)" >&2; exit 1; }
fi

if [ "${1:-}" = miri ] && ! cargo +nightly miri --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal --component miri --component rust-src
fi

case "${1:-}" in
bindings)
    command -v c++ >/dev/null || install "$(named g++ gcc-c++ gcc gcc-c++ g++)"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || install "$(named python3 python3 python python3 python3)"
    java_will_do || install "$(named default-jdk-headless java-latest-openjdk-devel jdk-openjdk java-21-openjdk-devel openjdk21-jdk)"
    command -v mvn >/dev/null || install maven
    command -v patch >/dev/null || install patch
    ;;
rivals | rocksdb)
    # `cc` prints a path if the linker finds the library, and the bare name otherwise.
    if [ "$(cc -print-file-name=libleveldb.so)" = libleveldb.so ]; then
        install "$(named libleveldb-dev leveldb-devel leveldb leveldb-devel leveldb-dev)"
    fi
    ;;
esac

if [ "${1:-}" = rocksdb ]; then
    case "$(uname -m)" in
    x86_64) object=librocksdbjni-linux64.so ;;
    aarch64) object=librocksdbjni-linux-aarch64.so ;;
    *) echo "setup: the Java package has no RocksDB for $(uname -m); set RIVALS_ROCKSDB to a librocksdb.so" >&2; exit 1 ;;
    esac
    package=rocksdbjni-10.10.1.1-linux64.jar
    if [ ! -f "scratch/rocksdb/$object" ]; then
        command -v mvn >/dev/null || install maven
        command -v unzip >/dev/null || install unzip
        mvn -q dependency:copy -Dartifact=org.rocksdb:rocksdbjni:10.10.1.1:jar:linux64 \
            -DoutputDirectory="$PWD/scratch/rocksdb" >&2
        unzip -qo "scratch/rocksdb/$package" "$object" -d scratch/rocksdb
        rm "scratch/rocksdb/$package"
    fi
    echo "export RIVALS_ROCKSDB=$PWD/scratch/rocksdb/$object"
fi

if [ "${1:-}" = hyperleveldb ]; then
    object=$PWD/scratch/hyperleveldb/libhyperleveldb.so
    if [ ! -f "$object" ]; then
        command -v npm >/dev/null || install npm
        command -v g++ >/dev/null || install "$(named g++ gcc-c++ gcc gcc-c++ g++)"
        mkdir -p scratch/hyperleveldb
        (cd scratch/hyperleveldb && npm pack --silent leveldown-hyper@2.0.0 >&2 && tar xzf leveldown-hyper-2.0.0.tgz)
        deps=scratch/hyperleveldb/package/deps/leveldb
        sources=$deps/leveldb-hyper-1.0.2
        # shellcheck disable=SC2046 # a list of files
        g++ -O2 -DNDEBUG -fPIC -shared -std=gnu++98 -w -fno-builtin-memcmp -DHAVE_CONFIG_H=1 -DOS_LINUX=1 -DLEVELDB_PLATFORM_POSIX=1 \
            -I$deps/leveldb-hyper-conf/linux -I$sources -I$sources/include \
            $(find $sources/db $sources/table $sources/util $sources/port/port_posix.cc -name '*.cc' |
                grep -Ev '_test|_bench|leveldb_main|testutil|testharness') -o "$object.part" -lpthread
        mv "$object.part" "$object"
        rm -r scratch/hyperleveldb/package scratch/hyperleveldb/leveldown-hyper-2.0.0.tgz
    fi
    echo "export RIVALS_HYPERLEVELDB=$object"
fi
