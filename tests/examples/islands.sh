#!/usr/bin/env bash
# Three islands on one machine, as the example has them: the disturbed run ends
# with the weights of the calm one, and no process stays behind. Needs PENSTOCK,
# the program under test.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT

# The first of four ports that are free, below those of the kernel's choice and of other tests.
PORT=$(python3 - <<'END'
import random
import socket
while True:
    first = random.SystemRandom().randrange(16000, 19990)
    try:
        for port in range(first, first + 4):
            socket.create_server(("127.0.0.1", port)).close()
        break
    except OSError:
        continue
print(first)
END
)
export PORT
if ! "$root/examples/islands.sh" "$work/islands" >"$work/out" 2>&1; then
    cat "$work/out"
    for file in "$work"/islands/*/*.txt; do
        echo "---- $file"
        tail -n 12 "$file"
    done
    exit 1
fi
cat "$work/out"
grep -q 'both runs ended with the same weights on all islands' "$work/out"
left=$(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$work*" 2>/dev/null) || true
[ -z "$left" ] || {
    echo "processes are left: $left"
    exit 1
}
if "$root/examples/islands.sh" "$work/islands" 2>"$work/err"; then
    echo "a second run in the same folder must be refused"
    exit 1
fi
grep -q 'exists already' "$work/err"
