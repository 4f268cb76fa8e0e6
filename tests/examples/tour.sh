#!/usr/bin/env bash
# The tour with its short settings: every step of it holds, it leaves its
# pictures and no process, and it does not write over another one. One that is
# ended while it trains leaves no process either. Needs PENSTOCK, the program
# under test.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v mpirun >/dev/null; then
    echo "mpirun is missing; skipped"
    exit 77
fi
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT

# Processes that work in the folder, which all those of a tour do; given a
# moment to end.
expect_no_process() {
    local left i
    for ((i = 0; i < 1000; i++)); do
        left=$(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$work*" 2>/dev/null) ||
            true # processes end while find looks
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    echo "processes are left: $left"
    exit 1
}

"$root/examples/tour.sh" --short "$work/tour"
expect_no_process
for name in schedule measured curves slow; do
    grep -q '</svg>' "$work/tour/$name.svg"
done
if "$root/examples/tour.sh" --short "$work/tour" 2>"$work/err"; then
    echo "a second tour in the same folder must be refused"
    exit 1
fi
grep -q 'has a tour already' "$work/err"

PARTS=train "$root/examples/tour.sh" --short "$work/ended" >"$work/out" 2>&1 &
tour=$!
for ((i = 0; i < 12000; i++)); do
    [ ! -s "$work/ended/killed.txt" ] || break
    kill -0 "$tour" 2>/dev/null || break
    sleep 0.05
done
kill -TERM "$tour"
code=0
wait "$tour" || code=$?
if [ "$code" != 143 ]; then
    cat "$work/out"
    echo "a tour that is ended must end with 143, not $code"
    exit 1
fi
expect_no_process
