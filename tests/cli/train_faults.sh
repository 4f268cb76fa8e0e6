#!/usr/bin/env bash
# penstock train on a disk that is full at any write, or fails at any sync,
# rename or mkdir of its saves: the training takes all its steps, what was saved
# is whole, and only a failure of the last save makes it exit with 1. Where the
# folder cannot be written to at the start, nothing is trained.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ] ||
    ! command -v strace >/dev/null ||
    ! strace -o /dev/null true 2>/dev/null; then
    echo "needs strace, allowed to trace, and a build with training; skipped"
    exit 77
fi
export ASAN_OPTIONS=detect_leaks=0 # LeakSanitizer cannot work beside strace
stride=5
if [ -n "${PEN_LONG:-}" ]; then stride=1; fi

cat >"$work/config.json" <<'J'
{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2,
 "n_positions": 16, "vocab_size": 31}
J
for row in $(seq 8); do
    for column in $(seq 9); do echo -n "$(((row * 7 + column * 5) % 31)) "; done
    echo
done >"$work/ids.txt"
train=(train --model "$work/config.json" --token-ids "$work/ids.txt"
    --train-iters 6 --lr 1e-2 --engine reference --log-interval 1
    --save-interval 2)

run 0 "${train[@]}" --save "$work/calm"
for step in 2 4 6; do
    expected[step]=$(hash_of "$work/calm/step-0000000$step")
done

break_call() { # CALL ERROR AT
    local code=0 step
    about "$1 $3 fails with $2"
    rm -rf "$work/run"
    strace -f -qq -e trace="$1" -e inject="$1:error=$2:when=$3" \
        -o "$work/calls" "$PENSTOCK" "${train[@]}" --save "$work/run" \
        >"$work/out" 2>"$work/err" || code=$?
    injected=$(grep -c INJECTED "$work/calls") # strace counts in each thread
    if [ "$code" = 1 ] && ! grep -q '^step ' "$work/out"; then
        grep -qE "error: (no checkpoint can be saved|cannot (make|open|write))" \
            "$work/err" || fail "no reason is given"
        refused=$((refused + 1))
        return
    fi
    out_has "step 6/6 | "
    [ "$code" -le 1 ] || fail "ended with $code"
    if [ "$code" = 1 ]; then
        err_has "the last checkpoint was not written"
    else
        [ -d "$work/run/step-00000006" ] || fail "the last step is not there"
    fi
    for step in 2 4 6; do
        [ -d "$work/run/step-0000000$step" ] || continue
        "$PENSTOCK" checkpoint verify "$work/run/step-0000000$step" \
            >/dev/null || fail "step $step is not whole"
        same "step $step" "$(hash_of "$work/run/step-0000000$step")" \
            "${expected[step]}"
    done
    local whole
    whole=$(ls "$work/run" | grep -c '^step-')
    [ "$whole" -ge $((3 - injected)) ] || fail "only $whole of 3 checkpoints are left"
    failed=$((failed + $(grep -c 'no checkpoint was written' "$work/err")))
}

# Until there is no call that could fail.
total=0
for fault in pwrite64:ENOSPC fsync:EIO rename:EIO mkdir:ENOSPC; do
    call=${fault%:*}
    failed=0
    refused=0
    turns=0
    for ((at = 1; ; at += stride)); do
        break_call "$call" "${fault#*:}" $at
        [ "$injected" -gt 0 ] || break
        turns=$((turns + 1))
    done
    [ "$turns" -ge 1 ] || fail "$call: nothing failed"
    [ "$refused" -ge 1 ] || fail "$call: no run was refused at its start"
    [ "$refused" -lt "$turns" ] || fail "$call: every run was refused"
    echo "$call: $turns runs with calls that failed, $refused refused at the" \
        "start, $failed saves were given up"
    total=$((total + turns))
done
echo "$total runs"
finish
