# shellcheck shell=bash
# Functions that the scripts share which judge a list of lines. They source this file in the root of the repository, with their arguments:
#
#   [LINE…]              only these lines
#   --again LINE         runs LINE anew, although it has a result (once for each such line)
#
# A line's result is a row in scratch/rows/TOPIC.jsonl. It is kept by the hash of crates/, proof/, lab/, scripts/ and the Cargo files. So a line
# runs once for these sources, whether it passes or fails, and the script prints the whole table each time. Documents may change meanwhile.
# With another size or seed in the environment (see `sizes`) the script neither looks up nor keeps a result.

topic=$(basename "$0")
logs=scratch/accept
mkdir -p "$logs"
passed=0 failed=0 missing=0
chosen=() again=() seen=()

while [ $# -gt 0 ]; do
    case $1 in
    --again)
        [ $# -ge 2 ] || { echo "$topic: --again takes the name of a line" >&2; exit 2; }
        again+=("$2")
        shift
        ;;
    -*) echo "$topic: there is no option $1; see the first lines of $0" >&2; exit 2 ;;
    *) chosen+=("$1") ;;
    esac
    shift
done

# is_in WORD WORD…: whether the first word is one of the others.
is_in() {
    local word=$1 other
    shift
    for other in "$@"; do [ "$word" != "$other" ] || return 0; done
    return 1
}

# is_chosen LINE: whether the arguments name the line, or no line.
is_chosen() { [ ${#chosen[@]} = 0 ] || is_in "$1" "${chosen[@]}"; }

# --- rows ---

# The environment variables that change what lines measure. Each script explains its own.
sizes=(RUNS NUM BYTES OPERATIONS POINTS ROUNDS REOPENINGS BEFORE KEYS SEED)

# The tool that keeps rows. A test names a tool that is built already.
if [ -z "${BRAIDB_PAIR:-}" ]; then
    cargo build --release --quiet -p braidb-lab || exit 2
    BRAIDB_PAIR=${CARGO_TARGET_DIR:-target}/release/braidb-lab
fi

set_sizes=()
for size in "${sizes[@]}"; do [ -z "${!size:-}" ] || set_sizes+=("$size"); done
[ ${#set_sizes[@]} = 0 ] || echo "not kept: ${set_sizes[*]} is set"

# is_kept LINE: whether the result of the line may be kept: all sizes are the list's own.
is_kept() {
    [ ${#set_sizes[@]} = 0 ] || return 1
    [ "$1" != torture ] || [ "${TORTURE_MINUTES:-60}" = 60 ]
}

# results_of_lines: prints the name of a directory for results that several lines judge. The directory is emptied if the sources changed, if
# a line is asked for again, and if results are not kept.
results_of_lines() {
    local directory=$logs/$topic hash
    hash=$("$BRAIDB_PAIR" row hash) || hash=unknown
    if [ ${#again[@]} -gt 0 ] || [ ${#set_sizes[@]} -gt 0 ] || [ "$hash" = unknown ] ||
        [ "$(cat "$directory/sources" 2>/dev/null)" != "$hash" ]; then
        rm -rf "$directory"
        mkdir -p "$directory"
        # Results with sizes of the environment get no hash, so that the next call does not reuse them.
        [ ${#set_sizes[@]} -gt 0 ] || echo "$hash" >"$directory/sources"
    fi
    echo "$directory"
}

# renew_results: empties the directory of results_of_lines if its results belong to other sources than the current ones. A script runs for
# hours, and sources may change between two of its lines.
renew_results() {
    local directory=$logs/$topic hash
    [ -f "$directory/sources" ] || return 0
    hash=$("$BRAIDB_PAIR" row hash) || hash=unknown
    [ "$(cat "$directory/sources")" != "$hash" ] || return 0
    rm -rf "$directory"
    mkdir -p "$directory"
    echo "$hash" >"$directory/sources"
}

# --- lines ---

# The seconds that a line may take before the script warns. Torture has no limit.
most_seconds=1800

# tell NAME VERDICT SECONDS COMMAND FIGURE [WHEN]: prints a result and counts its verdict.
tell() {
    printf '%-16s %s  %5d s  %s%s\n' "$1" "$2" "$3" "$4" "${6:+  ($6)}"
    sed 's/^/                         /' <<<"$5"
    case $2 in PASS) passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
    if [ "$3" -gt "$most_seconds" ] && [ "$1" != torture ]; then
        echo "warning: $1 took $3 s, and a line may take $most_seconds"
    fi
}

# tell_row NAME COMMAND…: prints the kept result of the line. Exit status 1 if the line has none.
tell_row() {
    local name=$1 row status verdict seconds date commit
    shift
    row=$("$BRAIDB_PAIR" row show "$topic" "$name" -- "$@")
    status=$?
    [ "$status" != 1 ] || return 1
    [ "$status" = 0 ] || { echo "$topic: the rows cannot be read" >&2; exit 2; }
    read -r verdict seconds date commit <<<"$row"
    tell "$name" "$verdict" "$seconds" "$*" "$(sed -n '2,$p' <<<"$row")" "$date, $commit"
}

# has_row NAME COMMAND…: whether the line has a kept result.
has_row() {
    local name=$1
    shift
    is_kept "$name" && "$BRAIDB_PAIR" row show "$topic" "$name" -- "$@" >/dev/null
}

# line NAME COMMAND…: prints the kept result of the line, or runs the line. Its figure is the last line that the command prints. Output
# lines with `* ` in front stand beneath, as a table.
line() {
    local name=$1 log=$logs/$1.log start=$SECONDS verdict=FAIL started='' figure table
    shift
    seen+=("$name")
    is_chosen "$name" || return 0
    if is_kept "$name"; then
        if ! is_in "$name" "${again[@]}" && tell_row "$name" "$@"; then return 0; fi
        started=$("$BRAIDB_PAIR" row start) || started=
    fi
    renew_results
    if "$@" >"$log" 2>&1; then verdict=PASS; fi
    renew_results
    figure=$(grep -v '^[[:space:]]*$' "$log" | tail -n1 | cut -c1-600)
    table=$(sed -n 's/^\* //p' "$log")
    figure+=${table:+$'\n'$table}
    if [ -n "$started" ]; then
        "$BRAIDB_PAIR" row keep --started "$started" --verdict "$verdict" --figure "$figure" "$topic" "$name" -- "$@" ||
            echo "warning: the result of $name is not kept"
    fi
    tell "$name" "$verdict" $((SECONDS - start)) "$*" "$figure"
    if [ "$verdict" = FAIL ]; then grep -v '^\* ' "$log" | tail -n 15 | sed 's/^/                         | /'; fi
}

# sum_up: prints the last line of the script. A name that no line has is an error.
sum_up() {
    local name
    for name in "${chosen[@]}" "${again[@]}"; do
        is_in "$name" "${seen[@]}" || { echo "$topic: there is no line $name; there are ${seen[*]}" >&2; missing=1; }
    done
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$missing" = 0 ]
}

# --- what lines run ---

# measuring COMMAND…: runs the command while other measurements of this machine wait: see lab/braidb-lab/src/verbs/pair/lock.rs.
# Measurements that the command starts do not wait.
measuring() {
    local lock=${BRAIDB_MEASURING_LOCK:-/tmp/braidb-measuring.lock}
    if [ -n "${BRAIDB_MEASURING:-}" ]; then
        "$@"
        return
    fi
    (
        exec 9>>"$lock" || exit 1
        flock --nonblock 9 || { echo "waits for a measurement ($lock): $(cat "$lock")" >&2 && flock 9; } || exit 1
        echo "process $BASHPID: $topic, $*" >"$lock"
        export BRAIDB_MEASURING=1
        "$@" 9>&-
    )
}

# The simulator is built with assertions, as the tests are.
sim() { cargo run --quiet -p braidb-sim -- "$@"; }

torture_this_commit() {
    if ! git diff --quiet HEAD; then
        echo "the working tree differs from the last commit"
        return 1
    fi
    sim torture --minutes "${TORTURE_MINUTES:-60}" && echo "clean at commit $(git rev-parse --short HEAD)"
}

# The driver of lab/rivals/, which is outside the workspace.
rivals_driver=${CARGO_TARGET_DIR:-lab/rivals/target}/release/braidb-rivals

# has_rocksdb: whether the driver can load RocksDB.
has_rocksdb() { [ -n "${RIVALS_ROCKSDB:-}" ]; }

# build_rivals: builds the driver.
build_rivals() { cargo build --release --quiet --manifest-path lab/rivals/Cargo.toml; }

# build_commit COMMIT DIR: builds the command of another commit in DIR/target/release. It is built once and kept.
build_commit() {
    local commit=$1 dir=$2
    [ ! -x "$dir/target/release/braidb" ] || return 0
    mkdir -p "$dir" && git archive "$commit" | tar -x -C "$dir" || return 1
    (cd "$dir" && CARGO_TARGET_DIR=$dir/target cargo build --release --quiet -p braidb-cli)
}

# old_files COMMIT: the command of a commit fills a database of 200,000 keys, overwrites them, and is closed. This commit opens and verifies it.
old_files() {
    local commit=$1 old=$PWD/$logs/$1-build dir=$PWD/scratch/accept/$topic-old
    build_commit "$commit" "$old" || return 1
    cargo build --release --quiet -p braidb-cli || return 1
    rm -rf "$dir"
    "$old/target/release/braidb" bench "$dir" fillrandom overwrite --num 200000 >/dev/null || return 1
    local braidb=${CARGO_TARGET_DIR:-target}/release/braidb keys
    # `bench` puts the database into the directory `db` of its own.
    "$braidb" verify "$dir/db" || return 1
    keys=$("$braidb" scan "$dir/db" | wc -l)
    rm -rf "$dir"
    echo "a database of $commit with $keys keys opens and verifies"
    [ "$keys" -gt 0 ]
}

# judges: every test. all_mutants: every planted bug is caught.
judges() { make test >"$logs/judges.out" 2>&1 && echo "$(grep -c '^test result: ok' "$logs/judges.out") test programs passed"; }

all_mutants() {
    sim mutants | tee "$logs/mutants.out"
    [ "${PIPESTATUS[0]}" = 0 ] || return 1
    echo "$(grep -c '^caught' "$logs/mutants.out") are caught, which are all"
}

# one_test FILE TEST: runs one test of braidb-sim. Its figure is the result of the test.
one_test() {
    local out=$logs/$2.out
    cargo test --quiet -p braidb-sim --test "$1" -- --exact "$2" --nocapture | tee "$out"
    local status=${PIPESTATUS[0]}
    grep -q "1 passed" "$out" || { echo "no test of that name passed"; return 1; }
    grep '^test result' "$out"
    return "$status"
}

# code_lines DIR: lines of Rust in DIR/crates by crate, and of all. Tests, comments and blank lines do not count.
code_lines() {
    (
        cd "$1" || exit 1
        find crates -name '*.rs' -path '*/src/*' ! -path '*/tests/*' ! -name tests.rs ! -path '*/simulator/*' ! -path '*/loom_model*' |
            sort | xargs awk '
            FNR == 1 { skip = 0; pend = 0 }
            /^#\[cfg\((all\()?test/ { pend = 1; next }
            pend && /^#\[/ { next }
            pend && /^(pub(\([a-z]*\))? )?(mod|fn|impl|use|struct|const|type|enum|static|trait)/ {
                pend = 0
                skip = !($0 ~ /;$/ || $0 ~ /\}$/)
                next
            }
            skip { if ($0 ~ /^\}/) skip = 0; next }
            { line = $0; sub(/^[ \t]+/, "", line); if (line == "" || line ~ /^\/\//) next }
            { split(FILENAME, path, "/"); lines[path[2]]++; lines["all"]++ }
            END { for (name in lines) print name, lines[name] }' | sort
    )
}

# model_checked TARGET: runs a target of the Makefile that model-checks. Its figure is the last result of tests.
model_checked() { make "$1" >"$logs/$1.out" 2>&1; local status=$?; grep '^test result' "$logs/$1.out" | tail -n1; return "$status"; }

# holds CONDITION: whether a condition on fractions holds. It fails if a figure is missing.
holds() { awk "BEGIN { exit !($1) }"; }
