#!/usr/bin/env bash
# plan --from-megatron predicts a command line, finds the best plan for the same
# work and names what each option gives on the way; predict reads the same line.
. "$(dirname "$0")/support.bash"

cat >"$work/cmd.txt" <<'END'
#!/bin/bash
# How we start it today.
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 --nnodes=2 --master_addr "$MASTER" \
    pretrain_gpt.py --num-layers 48 --hidden-size 1600 \
    --num-attention-heads '25' --seq-length "1024" \
    --max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 1 \
    --global-batch-size 64 --pipeline-model-parallel-size 8 --bf16 \
    --recompute-granularity full --recompute-method uniform \
    --recompute-num-layers 1 --lr 1e-4 --data-path 'my corpus' "${MORE[@]}"
END
a100=(--cluster 'preset:a100-40*16')

run 0 plan --from-megatron "@$work/cmd.txt" "${a100[@]}"
err_has "not read: --master_addr, --lr, --data-path, \${MORE[@]}"
out_has "one change after the other"
out_has "--pipeline-model-parallel-size 8 -> "
out_has "--recompute-granularity full -> none"
out_has "--overlap-grad-reduce --overlap-param-gather --cross-entropy-loss-fusion off -> on"
out_has "times as fast"
# The cluster is the only word that is missing.
run 0 plan --from-megatron "@$work/cmd.txt" 'a100-40*16' --json -o "$work/best.json"
same "first row" "$(json 'd["changes"][0]["step_sec"] == d["yours"]["step_sec"]')" True
same "last row" "$(json 'd["changes"][-1]["step_sec"] == d["best"]["step_sec"]')" True
same "it is better" "$(json 'd["best"]["step_sec"] < d["yours"]["step_sec"]')" True
same "each row has a change" "$(json 'all(row["options"] for row in d["changes"][1:])')" True
same "no option twice" "$(json '(lambda names: len(names) == len(set(names)))(
    [o["option"] for row in d["changes"] for o in row["options"]])')" True
yours=$(json 'd["yours"]["step_sec"]')
best=$(json 'd["best"]["step_sec"]')
run 0 predict --from-megatron "@$work/cmd.txt" "${a100[@]}" --json
same "predict and plan" "$(json 'd["step_sec"]')" "$yours"
run 0 plan check "$work/best.json" --json
same "the plan of the file" "$(json 'd["step_sec"]')" "$best"

# The best plan as a line: nothing to change. With one option changed: that one.
run 0 export "$work/best.json" --to megatron -o "$work/best"
run 0 plan --from-megatron "@$work/best/megatron.args" "${a100[@]}"
out_has "no faster plan was found"
out_lacks "one change after the other"
for case in '--micro-batch-size 1>--micro-batch-size' '--overlap-grad-reduce>--overlap-grad-reduce' \
    '--cross-entropy-loss-fusion>--cross-entropy-loss-fusion' \
    '--use-distributed-optimizer>--use-distributed-optimizer'; do
    option=${case%%>*}
    sed "s/^${case##*>}\b.*//" "$work/best/megatron.args" >"$work/one.args"
    case $option in *" "*) echo "$option" >>"$work/one.args" ;; esac
    run 0 plan --from-megatron "@$work/one.args" "${a100[@]}" --json
    same "rows without $option" "$(json '[o["option"] for row in d["changes"] for o in row["options"]]')" \
        "['${option%% *}']"
done

# A line that does not fit says by how much, and which change makes it fit.
run 0 plan --from-megatron "$(sed 's/--recompute.*//; s/--pipeline-model-parallel-size 8/--micro-batch-size 4/' "$work/cmd.txt" |
    tr -d '\\')" "${a100[@]}"
out_has "does not fit"
grep -qE '^yours does not fit: [0-9.]+ GiB \+ 5 % = [0-9.]+ GiB > [0-9.]+ GiB of a device$' "$work/out" || fail "no sum"

# Another number of ranks than the cluster has is not silent.
run 0 plan --from-megatron "@$work/cmd.txt" 'a100-40*32' --json
err_has "the line starts 16 ranks, but there are 32 devices: all of them are used"

# What cannot be read.
bad() { # EXPECTED LINE
    printf '%s' "$2" >"$work/bad.txt"
    run 1 plan --from-megatron "@$work/bad.txt" "${a100[@]}"
    err_has "$1"
    out_empty
}
run 1 plan --from-megatron "@$work/none.txt" "${a100[@]}"
err_has "cannot open $work/none.txt"
run 1 plan --from-megatron "@$work" "${a100[@]}"
err_has "is not a regular file but a directory"
mkfifo "$work/pipe"
run 1 plan --from-megatron "@$work/pipe" "${a100[@]}"
err_has "is not a regular file but a named pipe"
head -c 2000000 /dev/zero | tr '\0' 'x' >"$work/large.txt"
run 1 plan --from-megatron "@$work/large.txt" "${a100[@]}"
err_has "is larger than 1048576 bytes"
head -c 100 /dev/zero >"$work/zeros.txt"
run 1 plan --from-megatron "@$work/zeros.txt" "${a100[@]}"
err_has "a command line is a text of at most 1 MiB"
least="--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100"
bad "the command line is empty" ""
bad "--num-layers is missing" "python train.py"
bad "the command line ends inside a quote" "$least --save 'here"
bad "--seq-length has no value" "$least --seq-length --bf16"
bad "--tensor-model-parallel-size is '\$TP', expected what the shell makes of it" "$least --tensor-model-parallel-size \$TP"
bad "--global-batch-size 24 does not divide" "$least --global-batch-size 24"
run 2 plan --from-megatron "$least"
err_has "--cluster is required"
run 2 plan --from-megatron "$least" "${a100[@]}" --compare-targets
err_has "give only one of them"
finish
