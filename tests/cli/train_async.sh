#!/usr/bin/env bash
# train under schedules whose steps overlap: it learns, tells every step,
# drains where a checkpoint, an evaluation or a file wants it, goes on from
# there to the same bits, and refuses in one line what cannot be right. PEN_SEED
# chooses a third of the schedules that must learn; PEN_LONG=1 takes all.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive
# Words of Open MPI, which others do not read.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

mkdir "$work/untied" "$work/tied"
llama='{"model_type": "llama", "vocab_size": 32, "hidden_size": 32,
 "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2,
 "num_key_value_heads": 1, "max_position_embeddings": 32,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": '
echo "$llama false}" >"$work/untied/config.json"
echo "$llama true}" >"$work/tied/config.json"
python3 - "$work" <<'END'
import random, struct, sys
random.seed(5)
tokens = [0]
for _ in range(5000):                       # the next is mostly known
    tokens.append((3 * tokens[-1] + 1 + (random.random() < 0.2)) % 32)
open(sys.argv[1] + "/letters.bin", "wb").write(struct.pack("<5001H", *tokens))
END
same_run=(--threads 1 --peak-tflops 0.05 --seq-length 16 --lr 1e-2 --log-interval 1
    --data-path "$work/letters.bin" --split 90,10 --micro-batch-size 2)
untied=(--model "$work/untied" "${same_run[@]}")

# ranks CODE COUNT ARGS...: penstock train on so many ranks. Leaks that a
# sanitizer would tell are MPI's.
ranks() {
    local expected=$1 count=$2 code=0
    shift 2
    line="mpiexec -n $count penstock train $*"
    ASAN_OPTIONS=detect_leaks=0 mpiexec -n "$count" "$PENSTOCK" train "$@" \
        >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$expected" ] || fail "exit code $code, expected $expected"
}

# Steps of a log, and those with an evaluation.
read_log() {
    python3 - "$1" >"$work/out" <<'END'
import json, sys
head, *steps = [json.loads(line) for line in open(sys.argv[1])]
print(json.dumps({
    "steps": [s["step"] for s in steps],
    "rates": [round(s["lr"], 6) for s in steps],
    "falls": steps[0]["loss"] - steps[-1]["loss"],
    "evaluated": [s["step"] for s in steps if s.get("val_loss") is not None]}))
END
}

# One process: two buffers are one step late there, too. It drains after steps
# 4, 5, 8 and 10, and a run that goes on from step 5 ends with the same bits.
late=("${untied[@]}" --schedule pipedream-2bw --global-batch-size 4
    --clip-grad 0 --train-iters 10 --eval-interval 4 --eval-iters 2
    --save-interval 5)
run 0 train "${late[@]}" --save "$work/whole" --log "$work/whole.jsonl"
out_has "step 10/10 | loss "
err_has "memory will be"
read_log "$work/whole.jsonl"
about "steps of several passes"
same "steps" "$(json 'd["steps"] == list(range(1, 11))')" True
same "rates" "$(json 'd["rates"] == [round(0.01 - 0.001 * i, 6)
    for i in range(10)]')" True
same "evaluated" "$(json 'd["evaluated"]')" "[4, 8, 10]"
mkdir "$work/cut"
cp -r "$work/whole/step-00000005" "$work/cut/"
run 0 train "${late[@]}" --save "$work/cut" --load "$work/cut"
err_has "resuming after step 5 from $work/cut/step-00000005"
same "hash" "$(hash_of "$work/cut")" "$(hash_of "$work/whole")"
[ -n "$(hash_of "$work/whole")" ] || fail "there is no hash"
run 0 train "${untied[@]}" --global-batch-size 4 --clip-grad 0 \
    --train-iters 10 --save "$work/flushed"
about "a late gradient is another gradient"
[ "$(hash_of "$work/flushed")" != "$(hash_of "$work/whole")" ] ||
    fail "the same bits as without a delay"

# One stage with the newest weights is no step late.
run 0 train "${untied[@]}" --global-batch-size 4 --clip-grad 0 \
    --train-iters 10 --schedule timeprest --save "$work/newest"
same "timeprest in one process" "$(hash_of "$work/newest")" \
    "$(hash_of "$work/flushed")"

if ! command -v mpiexec >/dev/null; then
    echo "mpiexec is missing for several ranks"
    finish
    exit
fi
two=("${untied[@]}" --pipeline-model-parallel-size 2)

# It learns on two ranks, in every way.
number=0
for way in "pipedream" "pipedream-2bw --global-batch-size 4" \
    "wpipe --global-batch-size 4" "xpipe --global-batch-size 4" \
    "pipemare --global-batch-size 4" "spectrain --optimizer sgd" \
    "pb --optimizer sgd" "cyclic --global-batch-size 4" \
    "timeprest --global-batch-size 4"; do
    number=$((number + 1))
    is_chosen=${PEN_LONG:-}
    for seed in $(seeds_of cli/train_async); do
        [ $(((number + seed) % 3)) != 0 ] || is_chosen=1
    done
    [ -n "$is_chosen" ] || continue
    echo "learns: $way"
    # shellcheck disable=SC2086
    ranks 0 2 "${two[@]}" --clip-grad 0 --train-iters 80 \
        --log "$work/way.jsonl" --schedule $way
    read_log "$work/way.jsonl"
    same "steps" "$(json 'd["steps"] == list(range(1, 81))')" True
    same "it learns" "$(json 'd["falls"] > 0.1')" True
done

# Checkpoints of two ranks, with passes of 4, 4 and 2 steps and their trace.
late=("${two[@]}" --schedule pipedream-2bw --global-batch-size 4
    --clip-grad 0 --train-iters 10 --save-interval 4)
ranks 0 2 "${late[@]}" --save "$work/whole2" --trace "$work/trace"
mkdir "$work/cut2"
cp -r "$work/whole2/step-00000004" "$work/cut2/"
ranks 0 2 "${late[@]}" --save "$work/cut2" --load "$work/cut2"
err_has "resuming after step 4 from $work/cut2/step-00000004"
same "hash" "$(hash_of "$work/cut2")" "$(hash_of "$work/whole2")"
[ -n "$(hash_of "$work/whole2")" ] || fail "there is no hash"
run 0 view "$work/trace"

# Clipping and tied embeddings: nothing but the schedule is asked for. A run
# that is cut between two passes ends with the same bits, and clipping counts.
late=(--model "$work/tied" "${same_run[@]}" --pipeline-model-parallel-size 2
    --schedule pipedream-2bw --global-batch-size 8 --train-iters 10
    --save-interval 4)
ranks 0 2 "${late[@]}" --save "$work/whole3" --trace "$work/trace3" \
    --log "$work/whole3.jsonl"
read_log "$work/whole3.jsonl"
same "it learns" "$(json 'd["falls"] > 0.1')" True
run 0 view "$work/trace3"
mkdir "$work/cut3"
cp -r "$work/whole3/step-00000004" "$work/cut3/"
ranks 0 2 "${late[@]}" --save "$work/cut3" --load "$work/cut3"
same "hash" "$(hash_of "$work/cut3")" "$(hash_of "$work/whole3")"
[ -n "$(hash_of "$work/whole3")" ] || fail "there is no hash"
ranks 0 2 "${late[@]}" --save "$work/free3" --clip-grad 0
[ "$(hash_of "$work/free3")" != "$(hash_of "$work/whole3")" ] ||
    fail "clipping changes nothing"
# Synchronous steps at first: all of them are a synchronous run, and a run that
# is cut before or after the switch goes on to the same bits.
ranks 0 2 "${late[@]}" --save "$work/soft3" --stale-after 10
ranks 0 2 "${late[@]/pipedream-2bw/1f1b}" --save "$work/hard3"
same "hash of synchronous steps" "$(hash_of "$work/soft3")" \
    "$(hash_of "$work/hard3")"
cures=("${late[@]}" --stale-after 5 --stale-discount 4)
ranks 0 2 "${cures[@]}" --save "$work/cures3" --log "$work/cures3.jsonl"
read_log "$work/cures3.jsonl"
same "steps" "$(json 'd["steps"] == list(range(1, 11))')" True
[ "$(hash_of "$work/cures3")" != "$(hash_of "$work/whole3")" ] ||
    fail "the cures change nothing"
for step in 4 8; do
    rm -rf "$work/cut4"
    mkdir "$work/cut4"
    cp -r "$work/cures3/step-0000000$step" "$work/cut4/"
    ranks 0 2 "${cures[@]}" --save "$work/cut4" --load "$work/cut4"
    same "hash" "$(hash_of "$work/cut4")" "$(hash_of "$work/cures3")"
done
rm -rf "$work/cut4"
mkdir "$work/cut4"
cp -r "$work/cures3/step-00000004" "$work/cut4/"
ranks 0 2 "${late[@]}" --save "$work/cut4" --load "$work/cut4"
err_has "stale-after"

# One process has the same definition, and so the same bits.
run 0 train --model "$work/tied" "${same_run[@]}" --schedule pipedream-2bw \
    --global-batch-size 8 --train-iters 10 --save-interval 4 \
    --save "$work/one3"
same "hash of one process" "$(hash_of "$work/one3")" \
    "$(hash_of "$work/whole3")"

# A file has its own steps; this one has one version for all stages.
make_file vertical.pen pipedream --stages 2 --microbatches 1 --batches 5 \
    --vertical-sync
file=("${two[@]}" --clip-grad 0 --schedule "$work/vertical.pen")
ranks 0 2 "${file[@]}" --train-iters 10
out_has "step 10/10 | loss "
ranks 1 2 "${file[@]}" --train-iters 12
err_has "vertical.pen has 5 steps, but a checkpoint, an evaluation or the end"

# What cannot be right.
ranks 0 2 "${two[@]}" --train-iters 5 --schedule pipedream
err_has "gradients are not clipped: a stage of pipedream steps before the norm"
for way in "pipedream" "wpipe --global-batch-size 4"; do
    # shellcheck disable=SC2086
    ranks 1 2 "${two[@]}" --train-iters 5 --clip-grad 1 --schedule $way
    err_has "--clip-grad 1: in --schedule ${way%% *} a stage steps before the"
done
free=(--train-iters 5 --clip-grad 0)
ranks 1 2 "${two[@]}" "${free[@]}" --schedule pipedream --global-batch-size 8
err_has "--global-batch-size must be 2, not 8"
ranks 1 2 --model "$work/tied" "${same_run[@]}" "${free[@]}" \
    --pipeline-model-parallel-size 2 --schedule pipedream
err_has '"tie_word_embeddings": false'
ranks 1 2 "${two[@]}" "${free[@]}" --schedule pipedream-2bw \
    --global-batch-size 4 --logical-replicas 2
err_has "--logical-replicas 2: this --schedule needs one per replica"
run 1 train "${untied[@]}" "${free[@]}" --predict-weights
err_has "--predict-weights needs --schedule pipedream-2bw"
run 1 train "${untied[@]}" "${free[@]}" --stale-after 3
err_has "--stale-after: steps of --schedule 1f1b do not overlap"
ranks 1 2 "${file[@]}" --train-iters 10 --stale-after 3
err_has "--stale-after: the file $work/vertical.pen has steps of its own"
ranks 1 2 "${two[@]}" "${free[@]}" --schedule pipemare --stale-discount 3
err_has "--stale-discount 3: pipemare corrects its delays by itself; leave it out"
ranks 1 2 "${two[@]}" "${free[@]}" --schedule spectrain
err_has "needs --optimizer sgd"
ranks 1 2 "${two[@]}" "${free[@]}" --schedule xpipe --optimizer sgd
err_has "needs --optimizer adam"
ranks 1 2 "${two[@]}" "${free[@]}" --schedule pipedream \
    --use-distributed-optimizer
err_has "zero1 needs a synchronous schedule, and pipedream is asynchronous"
err_has "leave out --sharding and --use-distributed-optimizer"
ranks 1 2 "${two[@]}" "${free[@]}" --schedule pipemare \
    --recompute-granularity full
err_has "in pipemare a backward has other weights than its forward"
err_has "leave out --recompute-granularity"
ranks 0 2 "${two[@]}" "${free[@]}" --schedule pipedream \
    --recompute-granularity full
finish
