#!/usr/bin/env bash
# train goes on after an interruption as if there had been none, tells what it
# does on the way, and refuses what cannot work before it starts; eval agrees
# with it. PEN_SEED chooses batches of the resumed trainings; PEN_LONG=1 has all.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive

# A GPT-2 of 0.1 million parameters, and letters for it.
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
for _ in range(5000):                       # the next is mostly known
    tokens.append((3 * tokens[-1] + 1 + (random.random() < 0.2)) % 32)
open(sys.argv[1] + "/letters.bin", "wb").write(struct.pack("<5001H", *tokens))
open(sys.argv[1] + "/other.bin", "wb").write(struct.pack("<200H", *[40] * 200))
with open(sys.argv[1] + "/ids.txt", "w") as f:
    for i in range(24):
        print(*tokens[i * 17:i * 17 + 17], file=f)
END
tiny=(--model "$work/tiny" --threads 1 --seq-length 16 --lr 1e-2
    --lr-decay-style cosine --lr-warmup-iters 5 --log-interval 50)
letters=(--data-path "$work/letters.bin" --split 90,10)

# Stopped at step 37 of 100: the same bits as a run that was never stopped.
about "exact resume"
for kind in "" "--bf16"; do
    for batch in "--micro-batch-size 4" \
        "--micro-batch-size 2 --global-batch-size 6"; do
        drawn 2 || continue
        # shellcheck disable=SC2206
        same_run=("${tiny[@]}" "${letters[@]}" --train-iters 100 $kind $batch)
        resumes_after_37 "$kind $batch" "${same_run[@]}"
    done
done

# It learns, tells so everywhere, and eval agrees with its validation.
run 0 train "${tiny[@]}" "${letters[@]}" --train-iters 100 \
    --micro-batch-size 4 --eval-interval 50 --eval-iters 1000 \
    --save "$work/run" --log "$work/run.jsonl" --tensorboard-dir "$work/board"
out_has "step 50/100 | loss "
out_has "validation loss "
out_has "% of peak"
err_has "memory will be"
err_has "memory was"
python3 - "$work/run.jsonl" >"$work/out" <<'END'
import json, sys
head, *steps = [json.loads(line) for line in open(sys.argv[1])]
print(json.dumps({
    "lr": head["settings"]["lr"], "count": len(steps),
    "steps": [s["step"] for s in steps] == list(range(1, 101)),
    "falls": steps[0]["loss"] > 3.3 and steps[-1]["loss"] < 1.3,
    "first_rates": [round(s["lr"], 6) for s in steps[:6]],
    "tokens": steps[-1]["tokens"],
    "val_loss": round(steps[-1]["val_loss"], 5),
    "evaluated": [s["step"] for s in steps if s.get("val_loss") is not None]}))
END
about "the log"
same "settings" "$(json 'd["lr"]')" 0.01
same "every step" "$(json 'd["count"], d["steps"]')" "(100, True)"
same "the loss falls" "$(json 'd["falls"]')" True
same "warm-up" "$(json 'd["first_rates"]')" \
    "[0, 0.002, 0.004, 0.006, 0.008, 0.01]"
same "tokens" "$(json 'd["tokens"]')" 6400
same "evaluated" "$(json 'd["evaluated"]')" "[50, 100]"
val_loss=$(json 'd["val_loss"]')
[ -s "$(echo "$work"/board/events.out.tfevents.*)" ] || fail "no events"
for batch in 1 3 64; do
    run 0 eval --model "$work/run" --data-path "$work/letters.bin" \
        --split 90,10 --seq-length 16 --micro-batch-size $batch --threads 1 \
        --json
    same "eval, batches of $batch" "$(json 'round(d["loss"], 5)')" "$val_loss"
    same "predictions" "$(json 'd["tokens"]')" 496
done
run 0 eval --model "$work/run" --token-ids "$work/ids.txt" --threads 1
out_has "over 384 predictions"

# Micro-batches do not change what is computed, only its rounding; the
# reference agrees, and so does a start from the weights of a checkpoint.
losses() { # OPTIONS...
    run 0 train "${tiny[@]}" --train-iters 6 --log "$work/l.jsonl" "$@"
    python3 -c 'import json, sys
print(*[round(json.loads(line)["loss"], 4) for line in list(open(sys.argv[1]))[1:]])' \
        "$work/l.jsonl"
}
ids=(--token-ids "$work/ids.txt" --global-batch-size 4)
whole=$(losses "${ids[@]}" --micro-batch-size 4)
same "micro-batches of 1" "$(losses "${ids[@]}" --micro-batch-size 1)" "$whole"
same "the reference" \
    "$(losses "${ids[@]}" --micro-batch-size 2 --engine reference)" "$whole"
same "recomputation" "$(losses "${ids[@]}" --micro-batch-size 4 \
    --recompute-granularity full)" "$whole"
once=(--model "$work/run" --threads 1 --lr 1e-2 "${ids[@]}" --train-iters 1)
run 0 train "${once[@]}"
grep -q 'loss 0\.' "$work/out" || fail "weights of the run were not used"
run 0 train "${once[@]}" --random-weights
grep -q 'loss 3\.' "$work/out" || fail "weights are not random"

# Files that only describe the run cost it nothing but a line when the disk is
# full; a path that cannot be right is refused.
run 0 train "${once[@]}" --train-iters 4 --log /dev/full
same "warnings" "$(grep -c 'warning: --log .*/dev/full: No space left' "$work/err")" 1
out_has "step 4/4"
run 1 train "${once[@]}" --log "$work/none/log.jsonl"
err_has "cannot write $work/none/log.jsonl: No such file or directory"
run 1 train "${once[@]}" --log "$work"
err_has "cannot write $work: Is a directory"
touch "$work/file"
run 1 train "${once[@]}" --tensorboard-dir "$work/file/board"
err_has "cannot make the folder $work/file/board: Not a directory"

# USR1 writes a checkpoint and the training goes on; INT ends it with 130.
about "USR1 and INT"
# Without job control a shell gives what runs behind it no INT.
python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$PENSTOCK" train "${tiny[@]}" \
    "${letters[@]}" --train-iters 100000 --save "$work/asked" \
    --log "$work/asked.jsonl" >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 600); do
    [ "$(wc -l 2>/dev/null <"$work/asked.jsonl" || echo 0)" -ge 3 ] && break
    read -rt 0.1 <> <(:) || true
done
kill -USR1 $pid
for _ in $(seq 600); do
    ls "$work"/asked/step-*/MANIFEST.json >/dev/null 2>&1 && break
    read -rt 0.1 <> <(:) || true
done
same "checkpoints" "$(ls -d "$work"/asked/step-* | wc -l)" 1
kill -0 $pid 2>/dev/null || fail "it did not go on"
kill -INT $pid
wait $pid
same "exit code" $? 130
same "checkpoints" "$(ls -d "$work"/asked/step-* | wc -l)" 2

# A limit of time ends like TERM.
run 0 train "${tiny[@]}" "${letters[@]}" --train-iters 10000000 \
    --exit-duration-in-mins 0.02 --save "$work/timed"
err_has "stopped after step"
[ -f "$(echo "$work"/timed/step-*/MANIFEST.json)" ] || fail "no checkpoint"

# Ctrl-C ends after the step, with a checkpoint; the run goes on from there.
about "a signal"
"$PENSTOCK" train "${tiny[@]}" "${letters[@]}" --train-iters 100000 \
    --save "$work/stopped" --log "$work/stopped.jsonl" \
    >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 600); do
    [ "$(wc -l 2>/dev/null <"$work/stopped.jsonl" || echo 0)" -ge 3 ] && break
    read -rt 0.1 <> <(:) || true
done
kill -TERM $pid
wait $pid
same "exit code" $? 0
err_has "finishing the step"
err_has "--load $work/stopped"
[ -f "$(echo "$work"/stopped/step-*/MANIFEST.json)" ] || fail "no checkpoint"
last=$(tail -1 "$work/stopped.jsonl" | grep -oE '"step":[0-9]+' | cut -d: -f2)
run 0 train "${tiny[@]}" "${letters[@]}" --train-iters $((last + 1)) \
    --load "$work/stopped" --log "$work/stopped.jsonl" \
    --lr-decay-iters 100000
same "steps of both" "$(wc -l <"$work/stopped.jsonl")" $((last + 2))
python3 - "$work/stopped.jsonl" >"$work/out" <<'END'
import json, sys
times = [json.loads(line)["elapsed_sec"] for line in list(open(sys.argv[1]))[1:]]
print(json.dumps(times == sorted(times)))
END
same "time goes on" "$(json d)" True
run 0 train "${tiny[@]}" "${letters[@]}" --train-iters "$last" \
    --load "$work/stopped" --lr-decay-iters 100000 --lr 1
err_has "nothing to do"
err_has "another run"

# A length that the model gives is the one that an option would give.
default=(--model "$work/tiny" --threads 1 "${letters[@]}" --train-iters 2
    --lr 1e-2)
run 0 train "${default[@]}" --save "$work/default"
run 0 train "${default[@]}" --load "$work/default" --seq-length 32
err_lacks "another run"

# Mistakes that users make.
refused() { # WORDS OPTIONS...
    local words=$1
    shift
    run 1 train "${tiny[@]}" --train-iters 10 "$@"
    err_has "$words"
}
refused "--global-batch-size 6 is not a multiple of --micro-batch-size 4" \
    "${letters[@]}" --micro-batch-size 4 --global-batch-size 6
refused 'preset:llama-4-scout: model_type "llama4_text" is for planning only' \
    "${letters[@]}" --model preset:llama-4-scout
refused "--seq-length 33 is more than the model's 32 positions" \
    "${letters[@]}" --seq-length 33
refused "the largest id of the model's vocabulary is 31" --data-path "$work/other.bin" \
    --split 1
refused "200 tokens in this part of the split; a sequence needs 301" \
    --data-path "$work/other.bin" --split 1 --seq-length 300
refused "cannot open $work/none" --data-path "$work/none"
# As `schedule check` refuses it.
make_file whole.txt 1f1b --stages 2 --microbatches 2
sed -E 's/ [0-9]+[SR][AG][0-9]+//g' "$work/whole.txt" >"$work/mute.txt"
refused "$work/mute.txt: the schedule has SYNC, but no sends and receives; leave out SYNC and STEP to have all of them added" \
    "${letters[@]}" --schedule "$work/mute.txt"
make_file slices.txt seq1f1b --stages 1 --microbatches 2 --slices 4
refused "--slices 2: the schedule in $work/slices.txt has 4; leave the option out" \
    "${letters[@]}" --schedule "$work/slices.txt" --slices 2
refused "there is no checkpoint in $work/tiny" "${letters[@]}" \
    --load "$work/tiny"
refused "with the optimizer adamw" "${letters[@]}" --load "$work/run" \
    --train-iters 200 --optimizer sgd
refused "--lr-warmup-iters 10 must be less" "${letters[@]}" \
    --lr-warmup-iters 10
refused "'0.x' must be a weight, too" --data-path 0.5 "$work/letters.bin" 0.x \
    "$work/letters.bin"
refused "ends with the weight 0.5" --data-path 0.5 "$work/letters.bin" 0.5
refused "--bf16 needs --engine onednn" "${letters[@]}" --engine reference \
    --bf16
refused "the training has diverged" "${letters[@]}" --lr 1e6 --clip-grad 0 \
    --optimizer sgd --train-iters 30
printf '1 2 3\n4 5\n' >"$work/uneven"
refused "$work/uneven, line 2: the line has 2 ids, but the first line has 3" \
    --token-ids "$work/uneven" --seq-length 2
printf '1 2 32\n' >"$work/large"
refused "$work/large, line 1: '32' is not an id of this model, a number from 0 to 31" \
    --token-ids "$work/large" --seq-length 2
run 1 eval --model "$work/tiny" --token-ids "$work/ids.txt"
err_has "$work/tiny has no weights to evaluate"

run 2 train
err_has "missing: --model or --load, --data-path or --token-ids, --train-iters, --lr; or give a text"
run 2 train "${tiny[@]}" --train-iters 1
err_has "missing: --data-path or --token-ids;"
run 2 train "${tiny[@]}" "${letters[@]}"
err_has "missing: --train-iters;"
run 2 train --model "$work/tiny" "${letters[@]}" --train-iters 1
err_has "missing: --lr;"
run 2 train "${tiny[@]}" "${letters[@]}" --train-iters 1.5
err_has "--train-iters must be a whole number from 1"
run 2 train "${tiny[@]}" "${letters[@]}" --optimizer adamw
err_has "--optimizer must be adam, sgd or muon, not 'adamw'"
run 2 train extra "${tiny[@]}"
err_has "unexpected argument 'extra'"
run 2 train "${letters[@]}" --save-interval 3 "${tiny[@]}" --train-iters 5
err_has "--save-interval needs --save"
for code in int7 int8: int8:12 int4:4096 int8:64x none:64 subspace: \
    subspace:0 subspace:4x; do
    run 2 train "${letters[@]}" "${tiny[@]}" --train-iters 5 \
        --compress-stages "$code"
    err_has "BLOCK a multiple of 8 up to 1024 and K from 1, not '$code'"
done
run 2 train "${letters[@]}" "${tiny[@]}" --train-iters 5 --sparse-embedding \
    --fast-sums
err_has "--sparse-embedding and --fast-sums exclude each other"
run 2 eval --model "$work/run"
err_has "one of --data-path and --token-ids is required"
run 0 help train
out_has "Usage: penstock train"
run 0 eval --help
out_has "--token-ids"
finish
