#!/usr/bin/env bash
# predict tells time and memory of one layout, given by degrees, by stages, in
# Megatron's letters or as its command line.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

large=(--model preset:gpt2-large --seq-length 1024 --global-batch-size 64
    --cluster "preset:a100-40*16")

run 0 predict "${large[@]}" --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 4
err_empty
out_has "tokens/s"
out_has "layers of 4 stages"
run 0 predict "${large[@]}" --tp 2 --pp 4 --json -o "$work/plan.json"
same degrees "$(json 'd["degrees"]["tp"], d["degrees"]["pp"],
    d["degrees"]["dp"]')" "(2, 4, 2)"
same "micro-batches" "$(json 'd["num_microbatches"], d["micro_batch"]')" \
    "(32, 1)"
step=$(json 'd["step_sec"]')
run 0 plan check "$work/plan.json" --json
same "the plan of the file" "$(json 'd["step_sec"]')" "$step"

# What is not given is as plan chooses it, so that both have the same seconds.
run 0 plan "${large[@]}" --top 1 --json
best=$(json '[d["plans"][0][key] for key in ("degrees", "step_sec", "sharding")]')
run 0 predict "${large[@]}" $(json '"--tp %(tp)d --pp %(pp)d --vpp %(vpp)d --cp %(cp)d" % d["plans"][0]["degrees"] +
    " --micro-batch-size %d --recompute-granularity %s" % (d["plans"][0]["micro_batch"], d["plans"][0]["recompute"])') --json
same "predict and plan" "$(json '[d[key] for key in ("degrees", "step_sec", "sharding")]')" "$best"
for case in megatron:zero1 torchtitan:zero2 deepspeed:zero1; do
    run 0 predict "${large[@]}" --pp 2 --target "${case%:*}" --json
    same "usual sharding of ${case%:*}" "$(json 'd["sharding"]')" "${case#*:}"
done
run 0 predict "${large[@]}" --tp 2 --pp 4 --sharding none --json
same "none, as asked" "$(json 'd["sharding"]')" none

# Stages by number, and the same in Megatron's letters.
run 0 predict "${large[@]}" --tp 2 --pp 4 --blocks 10,9,9,8 --json
same layers "$(json 'd["layers"]')" "[11, 9, 9, 9]"
step=$(json 'd["step_sec"]')
run 0 predict "${large[@]}" --tp 2 --pp 4 --json \
    --pipeline-model-parallel-layout 'Et*10|(t*9|)*2t*8L'
same "the same layout" "$(json 'd["layers"], d["step_sec"]')" \
    "([11, 9, 9, 9], $step)"

# An uneven split needs what its fullest rank holds, not the mean of all.
cat >"$work/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 1024, "n_positions": 1024, "n_embd": 2048,
 "n_layer": 8, "n_head": 16}
END
small=(--model "$work/config.json" --seq-length 1024 --global-batch-size 32
    --cluster "preset:a100-40*4" --pp 4 --json)
run 0 predict "${small[@]}" --blocks 2,2,2,2
even=$(json 'max(row["weights"] for row in d["memory"])')
run 0 predict "${small[@]}" --blocks 1,2,2,3
same "weights of three blocks" \
    "$(json "1.35 < d['memory'][-1]['weights'] / $even < 1.55")" True

# Interleaved zero bubble lost to interleaved 1F1B in torchtitan's issue 773:
# where all is recomputed, a weight gradient of its own has nothing to fill.
llama=$(dirname "$0")/../../../shared/data/configs/hf
llama=$llama/meta-llama--Meta-Llama-3.1-405B.config.json
if [ -f "$llama" ]; then
    titan=(--model "$llama" --cluster "preset:h100-sxm*512"
        --target torchtitan --seq-length 8192 --global-batch-size 512 --tp 8
        --pp 16 --sharding zero2 --recompute-granularity full --json)
    run 0 predict "${titan[@]}" --schedule interleaved --vpp 2
    interleaved=$(json 'd["step_sec"]')
    for schedule in zb-v zb-h1; do
        run 1 predict "${titan[@]}" --schedule "$schedule" # it also needed more memory there
        same "$schedule is slower" "$(json "d['step_sec'] > $interleaved")" True
    done

    # Megatron-Bridge's own layout of 70B, written by hand: the best plan of the
    # same devices and batch is no slower.
    llama=${llama/405B/70B}
    hand=(--model "$llama" --cluster "preset:h100-sxm*64" --seq-length 4096
        --global-batch-size 128 --json)
    run 0 predict "${hand[@]}" --tp 4 --pp 8 --use-distributed-optimizer \
        --pipeline-model-parallel-layout \
        'Et*2|(t*2|)*34,t*3|(t*2|)*3,tL' --recompute-granularity selective
    same "stages of the layout" "$(json 'len(d["layers"]),
        d["degrees"]["vpp"], d["schedule"]')" "(40, 5, 'interleaved')"
    step=$(json 'd["step_sec"]')
    run 0 plan "${hand[@]}" --top 1
    same "the best plan" "$(json "d['plans'][0]['step_sec'] <= $step")" True
elif [ -n "${PEN_REQUIRE_SHARED:-}" ]; then
    fail "$llama is not there"
fi

# A command line of Megatron-LM.
line="torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --num-layers 48
    --hidden-size 1600 --num-attention-heads 25 --seq-length 1024
    --max-position-embeddings 1024 --vocab-size 50257 --micro-batch-size 2
    --global-batch-size 64 --pipeline-model-parallel-size 4 --bf16
    --use-distributed-optimizer"
run 0 predict --cluster "preset:a100-40*16" --from-megatron "$line" --json
same "its layout" "$(json 'd["degrees"]["pp"], d["degrees"]["dp"],
    d["micro_batch"], d["sharding"]')" "(4, 4, 2, 'zero1')"
step=$(json 'd["step_sec"]')
printf '%s\n' "$line" >"$work/line"
run 0 predict --cluster "preset:a100-40*16" --from-megatron "@$work/line" --json
same "from a file" "$(json 'd["step_sec"]')" "$step"

# What cannot be predicted.
run 2 predict --seq-length 1024
err_has "--model and --cluster are required, as in: penstock predict llama-3.1-70b 64xh100 --tp 4 --pp 4"
run 1 predict "${large[@]}" --tp 8
err_has "tp 8 does not divide 20 attention heads"
run 1 predict "${large[@]}" --tp 4 --pp 8
err_has "tp, cp and pp need 32 devices, but there are 16"
run 1 predict "${large[@]}" --pp 4 --blocks 9,9,9
err_has "the stages have 27 blocks, but the model has 36"
run 1 predict "${large[@]}" --pp 4 --blocks 18,18
err_has "2 stages cannot be divided evenly among 4 ranks"
run 1 predict "${large[@]}" --pp 4 --blocks 12,x
err_has "expected numbers as 1,2,2,3"
run 1 predict "${large[@]}" --pp 4 --schedule zb-w
err_has "there is no schedule zb-w"
run 1 predict "${large[@]}" --pp 4 --schedule zb-v
err_has "megatron does not run zb-v"
run 1 predict "${large[@]}" --micro-batch-size 3
err_has "do not divide the batch of 64"
run 2 predict "${large[@]}" --blocks 36 --pipeline-model-parallel-layout Et*36L
err_has "give only one of them"
finish
