#!/usr/bin/env bash
# Spikes of loss and gradient norm are reported on stderr, in the log and by
# report; trainings as they should be, with and without warm-up, report none.
# PEN_SEED chooses one of four seeds of each training; PEN_LONG=1 takes all.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive
mkdir "$work/tiny"
cat >"$work/tiny/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 64,
 "n_layer": 2, "n_head": 4, "activation_function": "gelu_new",
 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END
python3 - "$work" <<'END'
import random, struct, sys
random.seed(5)
tokens = [0]
for _ in range(20000):                      # the next is mostly known
    tokens.append((3 * tokens[-1] + 1 + (random.random() < 0.2)) % 32)
open(sys.argv[1] + "/letters.bin", "wb").write(struct.pack("<20001H", *tokens))
END
tiny=(--model "$work/tiny" --data-path "$work/letters.bin" --split 90,10
    --threads 1 --peak-tflops 0.05 --seq-length 16 --micro-batch-size 4 --log "$work/run.jsonl")

# spikes: how many steps of the log have each key, and the first of them.
spikes() {
    python3 - "$work/run.jsonl" <<'END'
import json, sys
head, *steps = [json.loads(line) for line in open(sys.argv[1])]
found = [[s["step"] for s in steps if key in s]
         for key in ("loss_usual", "grad_norm_usual")]
print(head["version"], *(f"{len(f)}" for f in found),
      min(found[0] + found[1], default=0))
END
}

seeds="1 2 3 4"
if [ -z "${PEN_LONG:-}" ]; then
    seeds=$(for seed in $(seeds_of cli/train_spikes); do echo $((1 + seed % 4)); done | sort -u)
    echo "seeds:" $seeds
fi
for seed in $seeds; do
    for rate in "1e-3 --lr-warmup-iters 20" "3e-3" "1e-2 --lr-warmup-iters 5" \
        "1e-2 --optimizer sgd --lr-warmup-iters 20"; do
        # shellcheck disable=SC2086
        run 0 train "${tiny[@]}" --train-iters 150 --seed $seed --lr $rate
        err_lacks "jumped"
        same "spikes of a calm training" "$(spikes)" "2 0 0 0"
    done
done

# Far too high a rate is seen at once, whatever the seed.
for seed in $seeds; do
    run 0 train "${tiny[@]}" --train-iters 30 --seed $seed --lr 10
    err_has "warning: step 2: the loss jumped to "
    err_has "the gradient norm jumped to "
    read -r _ losses norms first <<<"$(spikes)"
    same "the first" "$first" 2
    [ "$losses" -ge 1 ] || fail "no spike of the loss is in the log"
    [ "$norms" -ge 1 ] || fail "no spike of the gradient norm is in the log"
done
run 0 report "$work/run.jsonl" -o "$work/report.html"
same "the report" "$(html '"The loss jumped" in words, "The gradient norm jumped" in words')" \
    "(True, True)"

# A run that goes well, goes on with a rate far too high, and is told so in the
# middle of its log.
run 0 train "${tiny[@]}" --train-iters 60 --lr 3e-3 --lr-decay-style constant \
    --save "$work/run"
run 0 train "${tiny[@]}" --train-iters 120 --lr 3 --lr-decay-style constant \
    --load "$work/run"
err_has "the loss jumped to "
read -r _ losses norms first <<<"$(spikes)"
[ "$losses" -ge 1 ] && [ "$first" -gt 60 ] && [ "$first" -le 64 ] ||
    fail "found $losses spikes of the loss, the first in step $first"

finish
