# What the scripts share that judge a list of lines. Sourced in the root of the repository, with the lines to run as the
# script's arguments.

logs=scratch/accept
mkdir -p "$logs"
chosen=" $* "
passed=0 failed=0

# is_chosen LINE
is_chosen() { [ "$chosen" = "  " ] || [[ "$chosen" == *" $1 "* ]]; }

# line NAME COMMAND…: runs it. Its figure is the last thing that it prints.
line() {
    local name=$1 log=$logs/$1.log start=$SECONDS verdict
    shift
    is_chosen "$name" || return 0
    if "$@" >"$log" 2>&1; then verdict=PASS passed=$((passed + 1)); else verdict=FAIL failed=$((failed + 1)); fi
    printf '%-16s %s  %5d s  %s\n' "$name" "$verdict" $((SECONDS - start)) "$*"
    printf '%24s %s\n' '' "$(grep -v '^[[:space:]]*$' "$log" | tail -n1 | cut -c1-600)"
    if [ "$verdict" = FAIL ]; then tail -n 15 "$log" | sed 's/^/                         | /'; fi
}

# sum_up: the last line of the script.
sum_up() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}

# Built with the assertions on, as the tests are.
sim() { cargo run --quiet -p braidb-sim -- "$@"; }

torture_this_commit() {
    if ! git diff --quiet HEAD; then
        echo "the working tree differs from the last commit"
        return 1
    fi
    sim torture --minutes "${TORTURE_MINUTES:-60}" && echo "clean at commit $(git rev-parse --short HEAD)"
}

# one_test FILE TEST: runs one test of braidb-sim. Its figure is what it prints with `figure:` in front.
one_test() {
    local out=$logs/$2.out
    cargo test --quiet -p braidb-sim --test "$1" -- --exact "$2" --nocapture | tee "$out"
    local status=${PIPESTATUS[0]}
    grep -q "1 passed" "$out" || { echo "no test of that name passed"; return 1; }
    sed -n 's/.*figure: //p' "$out"
    return "$status"
}

# holds CONDITION: arithmetic on fractions, which fails if a figure is missing.
holds() { awk "BEGIN { exit !($1) }"; }
