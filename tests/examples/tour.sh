#!/usr/bin/env bash
# The tour with its short settings: every step of it holds, it leaves its
# pictures, and it does not write over another one; within two minutes, says
# the limit that ctest has for it. Needs PENSTOCK, the program under test.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v mpirun >/dev/null; then
    echo "mpirun is missing; skipped"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/examples/tour.sh" --short "$work"
for name in schedule measured curves slow; do
    grep -q '</svg>' "$work/$name.svg"
done
if "$root/examples/tour.sh" --short "$work" 2>"$work/err"; then
    echo "a second tour in the same folder must be refused"
    exit 1
fi
grep -q 'has a tour already' "$work/err"
