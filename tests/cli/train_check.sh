#!/usr/bin/env bash
# train --check ends before the first step: one process checks all ranks of a
# plan, writes nothing, and refuses what the training would refuse.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

cat >"$work/config.json" <<'J'
{"model_type": "llama", "vocab_size": 32, "hidden_size": 32,
 "intermediate_size": 48, "num_hidden_layers": 6, "num_attention_heads": 2,
 "num_key_value_heads": 1, "max_position_embeddings": 32,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
J
cat >"$work/host.yaml" <<'Y'
name: host
devices:
  - {kind: core, count: 8, flops: {f32: 1 TFLOP/s}, memory: 1 GiB,
     bandwidth: 10 GB/s}
links:
  - {level: node, bandwidth: 10 GB/s, latency: 1 us}
Y
for row in $(seq 16); do
    for column in $(seq 17); do echo -n "$(((row * 31 + column * 7) % 32)) "; done
    echo
done >"$work/ids.txt"
make_plan() { # FILE OPTIONS...
    run 0 predict --model "$work/config.json" --cluster "$work/host.yaml" \
        --target penstock --seq-length 16 -o "$work/$1" "${@:2}"
}
train=(train --model "$work/config.json" --token-ids "$work/ids.txt"
    --train-iters 5 --lr 1e-2 --engine reference)

# One process stands for eight, and leaves nothing behind.
make_plan plan.json --pp 4 --dp 2 --global-batch-size 16 --schedule zb-h1 \
    --use-distributed-optimizer
run 0 "${train[@]}" --plan "$work/plan.json" --check --save "$work/save" \
    --run "$work/run"
out_has "checked: the training would start on 8 ranks with zb-h1, 5 steps of 16 samples"
same "lines" "$(wc -l <"$work/out")" 1
[ ! -e "$work/save" ] && [ ! -e "$work/run" ] || fail "a check wrote a folder"
run 1 "${train[@]}" --plan "$work/plan.json"
err_has "is for 8 ranks, but this job has 1"

make_plan context.json --cp 2 --pp 2 --dp 2 --global-batch-size 16
run 0 "${train[@]}" --plan "$work/context.json" --check
out_has "checked: the training would start on 8 ranks with 1f1b, 5 steps of 16 samples"

sed 's/"num_key_value_heads": 1/"num_key_value_heads": 2/' \
    "$work/config.json" >"$work/even.json"
rows=(predict --model "$work/even.json" --cluster "$work/host.yaml"
    --target penstock --seq-length 16 --global-batch-size 16 --sequence-parallel)
even=("${train[@]}" --model "$work/even.json" --plan "$work/rows.json" --check)
run 0 "${rows[@]}" --tp 2 --pp 2 --dp 2 -o "$work/rows.json"
run 0 "${even[@]}"
out_has "checked: the training would start on 8 ranks with 1f1b, 5 steps of 16 samples"
run 0 "${even[@]}" --engine sleep:1ms
run 0 "${rows[@]}" --tp 2 --cp 2 --dp 2 -o "$work/rows.json"
run 0 "${even[@]}"
run 1 "${even[@]}" --engine sleep:1ms
err_has "--context-parallel-size 2 with --tensor-model-parallel-size needs an engine that computes. Drop one of them"
run 1 simulate --plan "$work/rows.json" --cluster "$work/host.yaml"
err_has "the plan has tp 2 and cp 2, and simulate sends the messages of one kind of group"
run 1 "${rows[@]}" --tp 1
err_has "--sequence-parallel with tp 1: penstock needs several ranks"

# Groups of replicas that have all weights together are those of --sharding-group.
groups=(predict --model "$work/even.json" --cluster "$work/host.yaml" --target penstock --seq-length 16
    --global-batch-size 8 --dp 8)
run 0 "${groups[@]}" --sharding zero3 --sharding-group 4 -o "$work/groups.json"
out_has "weights: 4 neighbouring replicas have all of them together"
run 0 "${train[@]}" --model "$work/even.json" --plan "$work/groups.json" --check
out_has "checked: the training would start on 8 ranks"
run 1 "${groups[@]}" --sharding zero3 --sharding-group 3
err_has "--sharding-group 3 does not divide the 8 replicas"
run 1 "${groups[@]}" --sharding zero2 --sharding-group 4
err_has "--sharding-group 4 is about weights, which --sharding zero2 keeps whole"

# Without a plan it is a check of this process.
run 0 "${train[@]}" --check --log "$work/log.jsonl"
out_has "checked: the training would start on 1 rank with 1f1b, 5 steps of 1 samples"
[ ! -e "$work/log.jsonl" ] || fail "a check wrote a log"
for pp in --pipeline-model-parallel-size --pp; do
    run 1 "${train[@]}" --check "$pp" 2
    err_has "1 ranks are not a multiple of --pipeline-model-parallel-size 2"
done

# The errors are those of the training. plan does not make such plans; people
# edit them.
refused() { # WORDS EDIT OPTIONS...: an edit of the plan d, in Python
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(d, open(sys.argv[3], "w"))' "$work/late.json" "$2" "$work/refused.json"
    run 1 "${train[@]}" --plan "$work/refused.json" --check "${@:3}"
    err_has "$1"
    same "lines that say so" "$(grep -c 'penstock: error' "$work/err")" 1
    out_empty
}
make_plan late.json --pp 2 --dp 2 --global-batch-size 8 --schedule pipedream-2bw
run 0 "${train[@]}" --plan "$work/late.json" --check
out_has "would start on 4 ranks with pipedream-2bw"
err_lacks "gradients are not clipped"
refused "give --clip-grad 0" 'd["schedule"]["name"] = "pipemare"' --clip-grad 1
refused "zero1 needs a synchronous schedule" 'd["sharding"] = "zero1"'
refused "zero3 needs a synchronous schedule" 'd["sharding"] = "zero3"'
refused "needs a synchronous schedule. Use --schedule 1f1b" \
    'd["degrees"]["cp"] = 2; del d["predicted"]'
refused "needs a synchronous schedule; pipedream-2bw is asynchronous" \
    'd["degrees"]["tp"] = 2; del d["predicted"]'
refused "--sequence-parallel needs products that are cut" 'd["sequence_parallel"] = True; del d["predicted"]'
refused "--global-batch-size must be 2, not 8" \
    'd["schedule"]["name"] = "pipedream"'
refused "spectrain corrects its delays with the optimizer's state" \
    'd["schedule"]["name"] = "spectrain"; d["microbatches"] = 1'
refused "in pipemare a backward has other weights" \
    'd["schedule"]["name"] = "pipemare"; d["stages"][0]["recompute"] = "full"'
refused "leave out --bf16" "" --engine onednn --bf16
sed 's/"tp": 1/"tp": "one"/' "$work/plan.json" >"$work/bad.json"
run 1 "${train[@]}" --plan "$work/bad.json" --check
err_has "bad.json"

# A schedule file brings its ranks and micro-batches; one process stands for
# them in a check, and is told how many to start in a training.
printf 'F0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3\n' >"$work/mine"
own=("${train[@]}" --schedule "$work/mine" --micro-batch-size 2)
run 0 "${own[@]}" --check
out_has "checked: the training would start on 2 ranks with own, 5 steps of 8 samples"
run 0 "${own[@]}" --check --pp 2 --global-batch-size 8
run 1 "${own[@]}"
err_has "$work/mine is for 2 ranks, but this job has 1; start it with mpirun -n 2, or"
run 1 "${own[@]}" --check --pp 3
err_has "--pipeline-model-parallel-size 3: $work/mine is for 2 ranks; leave the option out"
run 1 "${own[@]}" --check --global-batch-size 12
err_has "--global-batch-size 12: $work/mine has 4 micro-batches, which makes 8 with --micro-batch-size 2 and 1 replica"
make_file late.pen pipedream --stages 2 --microbatches 1 --batches 5
run 0 "${train[@]}" --check --schedule "$work/late.pen"
out_has "would start on 2 ranks with pipedream, 5 steps of 1 samples"

# `schedule check` and `train` judge a file alike: both complete it, or both refuse it.
alike() { # FILE: sets `judged`, the exit code of both
    local code=0
    judged=0
    line="check and train of $1"
    "$PENSTOCK" schedule check "$1" >"$work/out" 2>"$work/err" || judged=$?
    "$PENSTOCK" "${train[@]}" --check --schedule "$1" >"$work/out" 2>"$work/err" || code=$?
    same "exit code" "$code" "$judged"
}
make_file plain.pen 1f1b --stages 2 --microbatches 4
sed -E 's/ [01](SA|RA|SG|RG)[0-9]+//g; s/ [01](SYNC|STEP)//g' "$work/plain.pen" >"$work/compute.pen"
sed -E 's/ [01](SA|RA|SG|RG)[0-9]+//g' "$work/plain.pen" >"$work/half.pen"
sed -E 's/ 0SA2//' "$work/plain.pen" >"$work/lost.pen"
run 0 schedule convert "$work/plain.pen" "$work/plain.csv"
for file in plain.pen compute.pen plain.csv mine; do
    alike "$work/$file"
    same "judged" "$judged" 0
done
for file in half.pen lost.pen bad.json; do
    alike "$work/$file"
    same "judged" "$judged" 1
done
alike "$work/half.pen"
err_has "half.pen: the schedule has SYNC, but no sends and receives"
num_refused=0
for file in "$(dirname "$0")"/../negative/*.txt; do
    case $file in */v5_*) continue ;; esac # the limit is an option
    alike "$file"
    num_refused=$((num_refused + judged))
done
line="refused files"
[ "$num_refused" -ge 25 ] || fail "only $num_refused are refused"

# own_ranks COUNT CODE WORDS...: trains with the file on so many ranks.
own_ranks() {
    local code=0
    line="mpiexec -n $1 train --schedule mine"
    ASAN_OPTIONS=detect_leaks=0 mpiexec -n "$1" "$PENSTOCK" "${own[@]}" \
        "${@:3}" >"$work/out" 2>"$work/err" || code=$?
    same "exit code" "$code" "$2"
}
if command -v mpiexec >/dev/null; then
    run 0 "${train[@]}" --micro-batch-size 2 --global-batch-size 8 \
        --save "$work/alone"
    own_ranks 2 0 --save "$work/two"
    same "bits" "$(hash_of "$work/two")" "$(hash_of "$work/alone")"
    own_ranks 3 1
    err_has "is for 2 ranks, but this job has 3; start it with mpirun -n 2"
    own_ranks 4 0 --check
    out_has "would start on 4 ranks with own, 5 steps of 16 samples"

    line="mpiexec -n 4 train --check"
    ASAN_OPTIONS=detect_leaks=0 mpiexec -n 4 "$PENSTOCK" "${train[@]}" \
        --plan "$work/late.json" --check >"$work/out" 2>"$work/err" ||
        fail "exit code $?, expected 0"
    out_has "would start on 4 ranks with pipedream-2bw"
    same "lines" "$(wc -l <"$work/out")" 1
fi
finish
