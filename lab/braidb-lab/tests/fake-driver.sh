#!/usr/bin/env bash
# A driver that measures nothing: it prints a result for each word before the first option. Its arguments go to $FAKE_LOG. Side B of a
# test has the option `slow=PERCENT`, by which its rate falls. An option `fail=1` makes it fail.
set -uo pipefail
directory=$1 workloads=() slow=0 seed=0 side=
shift
[ -d "$directory" ] && [ -z "$(ls -A "$directory")" ] || { echo "the directory is not fresh" >&2; exit 3; }
echo data >"$directory/file"
while [ $# -gt 0 ] && [[ $1 != --* ]]; do workloads+=("$1") && shift; done
while [ $# -gt 0 ]; do
    case $1 in
    --set) [[ $2 != slow=* ]] || slow=${2#slow=}
        [[ $2 != fail=* ]] || { echo "the engine has no option fail" >&2; exit 1; } ;;
    --seed) seed=$2 ;;
    --side) side=$2 ;;
    esac
    shift 2
done
echo "$side: $seed" >>"$FAKE_LOG"
for workload in "${workloads[@]}"; do
    # The noise is the seed's: half a percent up and down.
    awk -v workload="$workload" -v side="$side" -v seed="$seed" -v slow="$slow" 'BEGIN {
        rate = 1000 * (1 - slow / 100) * (1 + (seed % 3 - 1) / 200)
        printf "{\"workload\":\"%s\",\"side\":\"%s\",\"seed\":%d,\"figures\":{\"settled_operations_per_second\":%f,", workload, side, seed, rate
        printf "\"cpu_us_per_operation\":%f},\"bytes_by_cause\":{},\"operations_by_second\":[],", 1000 / rate
        printf "\"machine\":{\"load\":0,\"steal_seconds\":0,\"device\":\"\",\"processor\":\"\"}}\n"
    }'
done
