#!/usr/bin/env bash
# The example of experts, two steps of each network: it says how both learn, and
# how unevenly tokens go to experts. Needs PENSTOCK, the program under test.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
launcher=mpirun.openmpi
if ! command -v $launcher >/dev/null; then
    echo "$launcher is not installed; skipped"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
MPIRUN="$launcher --allow-run-as-root --oversubscribe -n 2" "$root/examples/experts/run.sh" "$work" 2 >"$work/out" 2>&1 || {
    cat "$work/out"
    exit 1
}
for line in 'mixture, step 2: loss [34]\.[0-9]*, validation [34]\.[0-9]*, [0-9]* tokens/s, imbalance [1-4]\.[0-9]*' \
    'dense, step 2: loss [34]\.[0-9]*, validation [34]\.[0-9]*, [0-9]* tokens/s'; do
    grep -qx "$line" "$work/out" || {
        cat "$work/out"
        echo "no line '$line'"
        exit 1
    }
done
