#!/usr/bin/env bash
# train --metrics-port shows the figures of the run log to Prometheus, on this
# machine alone and within bounds; neither readers nor those who mean ill change
# a bit of the training. The example dashboard asks for what there is.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive
watch=(python3 "$root/tests/cli/metrics.py")

mkdir "$work/tiny"
cat >"$work/tiny/config.json" <<'END_OF_MODEL'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 64,
 "n_layer": 2, "n_head": 4, "activation_function": "gelu_new",
 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END_OF_MODEL
python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("<5001H", *[i * i % 31 for i in range(5001)]))' \
    >"$work/letters.bin"
tiny=(--model "$work/tiny" --data-path "$work/letters.bin" --split 90,10
    --threads 1 --peak-tflops 0.05 --seq-length 16 --lr 1e-2 --log-interval 1000)

# Without the library the option names its package, and that is all there is.
run 0 train "${tiny[@]}" --train-iters 1
about "built without libmicrohttpd"
if ! "$PENSTOCK" train "${tiny[@]}" --train-iters 1 --metrics-port 0 \
    >"$work/out" 2>"$work/err" && grep -q libmicrohttpd-dev "$work/err"; then
    echo "$failures failures; the rest needs libmicrohttpd"
    exit $((failures > 0))
fi

# begin ITERS OPTIONS...: a training behind us, its pid and its port.
begin() {
    local iters=$1
    shift
    line="penstock train --metrics-port 0 $*"
    : >"$work/words" # the port of before must not be found
    "$PENSTOCK" train "${tiny[@]}" --train-iters "$iters" --metrics-port 0 \
        "$@" >"$work/lines" 2>"$work/words" &
    pid=$!
    port=
    for _ in $(seq 600); do
        port=$(sed -nE 's,.*metrics are at http://127\.0\.0\.1:([0-9]+)/metrics$,\1,p' \
            "$work/words")
        [ -n "$port" ] && return
        read -rt 0.1 <> <(:) || true
    done
    fail "it does not say where the metrics are"
}

# The page says what the log says, in the form that Prometheus wants.
begin 100000000 --log "$work/run.jsonl" --eval-interval 50 --eval-iters 1 \
    --save "$work/run" --save-interval 40
"${watch[@]}" follow "$port" "$work/run.jsonl" "$work/words" >"$work/page" 2>&1 ||
    fail "$(cat "$work/page")"
"${watch[@]}" bounds "$port" >"$work/bounds" 2>&1 ||
    fail "$(cat "$work/bounds")"
"${watch[@]}" local "$port" "$pid" >"$work/local" 2>&1 ||
    fail "$(cat "$work/local")"

# A second training cannot have its port, and says so before it does anything.
run 1 train "${tiny[@]}" --train-iters 1 --metrics-port "$port"
err_has "cannot serve metrics on port $port: Address already in use"
err_has "or 0 for a free one"
out_empty
kill -TERM $pid
wait $pid
same "exit code" $? 0
if "${watch[@]}" page "$port" >"$work/page" 2>&1; then
    fail "the port is still served"
fi

# Readers and slow senders change no bit.
run 0 train "${tiny[@]}" --train-iters 2000 --save "$work/alone"
begin 2000 --save "$work/watched"
"${watch[@]}" hammer "$port" >"$work/hammer" 2>&1 &
hammer=$!
wait $pid
same "exit code" $? 0
wait $hammer
same "hash with readers" "$(hash_of "$work/watched")" \
    "$(hash_of "$work/alone")"
[ "$(cat "$work/hammer")" -ge 8 ] || fail "few pages: $(cat "$work/hammer")"

# A run goes on without a warning whether it is watched or not.
run 0 train "${tiny[@]}" --train-iters 2001 --load "$work/watched" \
    --metrics-port 0 --lr-decay-iters 2000
err_lacks "another run"

for port in -1 65536 gnu "" 80x; do
    run 2 train "${tiny[@]}" --train-iters 1 "--metrics-port=$port"
    err_has "--metrics-port must be a whole number from 0 to 65535, not '$port'"
done

# What the examples ask for is there.
about "examples/metrics"
"${watch[@]}" examples "$root/examples/metrics" "$root/src/runtime/metrics.h" \
    >"$work/out" 2>&1 || fail "$(cat "$work/out")"
finish
