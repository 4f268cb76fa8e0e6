#!/usr/bin/env bash
# The example of MNIST ends above 99 %. Needs PENSTOCK, the program under test.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
data=${PEN_DATA:-$root/../shared/data}/mnist
if [ ! -d "$data" ]; then
    echo "$data is missing; skipped"
    [ -z "${PEN_REQUIRE_SHARED:-}" ] || exit 1
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# One thread: others run beside it.
THREADS=1 "$root/examples/mnist/run.sh" "$data" "$work"
