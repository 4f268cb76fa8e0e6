#!/usr/bin/env bash
# A disk that is full at any write, or fails at any sync, rename or mkdir of a
# save: the training goes on, what was saved is whole, nothing else is left, and
# the next save works. strace lets the calls fail.
. "$(dirname "$0")/support.bash"
program=$(dirname "$PENSTOCK")/tests/save_steps
if [ ! -x "$program" ] || ! command -v strace >/dev/null; then
    echo "needs strace and a build with training; skipped"
    exit 77
fi
if ! strace -o /dev/null true 2>/dev/null; then
    echo "strace may not trace here; skipped"
    exit 77
fi
# LeakSanitizer cannot work beside strace.
export ASAN_OPTIONS=detect_leaks=0
steps=2
if [ -n "${PEN_LONG:-}" ]; then steps=5; fi

# The calm run: every step's hash, and how many calls of a kind a run makes.
"$program" "$work/calm" $steps || fail "the calm run"
for ((i = 1; i <= steps; i++)); do
    "$program" "$work/calm-$i" $i
    expected[i]=$(hash_of "$work/calm-$i")
done
calls_of() { # CALL
    strace -f -qq -e trace="$1" -o "$work/calls" "$program" "$work/count" \
        $steps
    rm -r "$work/count"
    grep -c "$1(" "$work/calls"
}

# Lets call number `at` fail.
break_call() { # CALL ERROR AT
    local code=0 last
    about "$1 $3 fails with $2"
    rm -rf "$work/run"
    strace -f -qq -e trace="$1" -e inject="$1:error=$2:when=$3" \
        -o "$work/calls" "$program" "$work/run" $steps \
        >"$work/out" 2>"$work/err" || code=$?
    same "injections" "$(grep -c INJECTED "$work/calls")" 1
    last=$steps
    [ "$code" -le 1 ] || fail "ended with $code"
    if [ "$code" = 1 ]; then
        err_has "step $steps is not saved"
        # Behind the rename nobody knows what a power failure would leave.
        grep -qF "run/step-0000000$steps: Input" "$work/err" && [ "$1" = fsync ] ||
            last=$((steps - 1))
    fi
    "$PENSTOCK" checkpoint verify "$work/run" >/dev/null || fail "not whole"
    same "newest step" "$(hash_of "$work/run")" "${expected[last]}"
    same "what is left" "$(ls -A "$work/run" | grep -vc '^step-')" 0
    failed=$((failed + $(grep -c 'is not saved' "$work/err")))
}

total=0
for fault in pwrite64:ENOSPC fsync:EIO rename:EIO mkdir:ENOSPC; do
    call=${fault%:*}
    count=$(calls_of "$call")
    failed=0
    [ "$count" -ge "$steps" ] || fail "$call: only $count calls"
    for ((at = 1; at <= count; at++)); do
        break_call "$call" "${fault#*:}" $at
    done
    echo "$call: $count calls failed in turn, $failed saves were given up"
    total=$((total + count))
done
echo "$total runs"
finish
