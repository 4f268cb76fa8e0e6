#!/usr/bin/env bash
# Trainings that papers describe are predicted within a factor of two, by the
# commands that docs/accuracy.md has.
. "$(dirname "$0")/support.bash"

root=$(cd "$(dirname "$0")/../.." && pwd)
about "bench/public_facts.py"
"$root/bench/public_facts.py" --check "$root/docs/accuracy.md" >"$work/table" 2>"$work/err" ||
    fail "$(cat "$work/err")"
same "rows" "$(grep -c '^| [A-Zt]' "$work/table")" 11
finish
