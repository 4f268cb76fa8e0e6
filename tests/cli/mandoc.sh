#!/usr/bin/env bash
# The man pages are clean mdoc. 77 tells ctest that the test was skipped.
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v mandoc >/dev/null; then
    echo "mandoc is missing; skipped"
    exit 77
fi
mandoc -Tlint "$root"/docs/man/*.1
