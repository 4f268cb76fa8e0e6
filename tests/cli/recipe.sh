#!/usr/bin/env bash
# A recipe goes from options into plan.json, from there into Megatron's command
# line, and back; what does not go together is refused with what to change.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

cat >"$work/config.json" <<'END'
{"model_type": "qwen3_moe", "vocab_size": 1024, "hidden_size": 512,
 "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8,
 "head_dim": 64, "intermediate_size": 1024, "num_experts": 16,
 "num_experts_per_tok": 4, "moe_intermediate_size": 256,
 "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}
END
moe=(--model "$work/config.json" --seq-length 1024 --global-batch-size 64
    --cluster "preset:h100-sxm*16")
layout=(--tp 2 --pp 2 --vpp 2 --ep 4)
recipe=(--etp 1 --dispatcher hybridep --overlap-moe-expert-parallel-comm
    --delay-wgrad-compute --recompute-modules moe_act,layernorm
    --graphs modules --grad-reduce-in-bf16 --moment-bytes 4 --master-bytes 2)

# recipe_of FILE: its recipe and expert degree, as one line.
recipe_of() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(d["version"], d["degrees"].get("expert_tp"), json.dumps(d.get("recipe")))' "$1"
}

run 0 predict "${moe[@]}" "${layout[@]}" "${recipe[@]}" -o "$work/plan.json"
expected='2 1 {"dispatcher": "hybridep", "overlap_experts": true, "delay_weight_gradients": true, "graphs": "modules", '
expected+='"recompute_modules": ["layernorm", "moe_act"], "gradient_bytes": 2, "master_bytes": 2, "moment_bytes": 4}'
same recipe "$(recipe_of "$work/plan.json")" "$expected"
out_has 'recipe: {"dispatcher": "hybridep", "overlap_experts": true'
run 0 predict "${moe[@]}" "${layout[@]}" "${recipe[@]}" --json
same "recipe in JSON" "$(json 'd["expert_tp"], d["recipe"]["graphs"]')" "(1, 'modules')"
same recomputation "$(python3 -c 'import json, sys
print({s["recompute"] for s in json.load(open(sys.argv[1]))["stages"]})' "$work/plan.json")" "{'selective'}"
run 0 plan check "$work/plan.json"

# Megatron's own words mean the same.
run 0 predict "${moe[@]}" "${layout[@]}" -o "$work/other.json" \
    --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep \
    --cuda-graph-impl transformer_engine
same "Megatron's words" "$(recipe_of "$work/other.json")" \
    '2 1 {"dispatcher": "hybridep", "graphs": "modules"}'
run 0 predict "${moe[@]}" --pp 2 --ep 4 -o "$work/plain.json"
same "a plain plan" "$(recipe_of "$work/plain.json")" "1 None null"

# There and back.
run 0 export "$work/plan.json" --to megatron -o "$work/job"
err_empty
grep -qxF -- "--expert-tensor-parallel-size 1" "$work/job/megatron.args" || fail "no expert_tp"
grep -qxF -- "export CUDA_DEVICE_MAX_CONNECTIONS=32" "$work/job/settings.sh" || fail "one connection"
run 0 predict --from-megatron "@$work/job/megatron.args" --model "$work/config.json" \
    --cluster "preset:h100-sxm*16" -o "$work/back.json"
same "the recipe back" "$(recipe_of "$work/back.json")" "$expected"
run 0 export "$work/plan.json" --to megatron@2026.08 -o "$work/new"
err_has "megatron@2026.08 is not judged"
grep -q '^# not judged' "$work/new/megatron.args" || fail "the file does not say that it is not judged"
grep -qF -- "--cuda-graph-modules attn moe_router" "$work/new/megatron.args" || fail "no modules"
run 0 export "$work/plain.json" --to all -o "$work/all"
[ ! -e "$work/all/megatron@2026.08" ] || fail "--to all writes what is not judged"

# The search keeps it.
run 0 plan "${moe[@]}" --seconds 0.1 --grad-reduce-in-bf16 --optimizer muon -o "$work/found.json"
same "recipe of a search" "$(recipe_of "$work/found.json" | cut -d ' ' -f 3-)" \
    '{"optimizer": "muon", "gradient_bytes": 2}'

# What does not go together.
refused() { # EXPECTED OPTIONS...
    run 1 predict "${moe[@]}" "${@:2}"
    err_has "$1"
}
refused "use vpp 2 or more" --pp 2 --ep 2 --overlap-moe-expert-parallel-comm
refused "needs recipe.overlap_experts" --ep 2 --delay-wgrad-compute
refused "the dispatcher hybridep" --ep 2 --moe-paged-stash
refused "use pp 1" --pp 2 --offload-blocks 2
refused "use fp8" --fp8-param-gather
run 2 predict "${moe[@]}" --recompute-modules moe_act,bias
err_has "expected a list, as moe_act,layernorm, of core_attn"
run 2 predict "${moe[@]}" --dispatcher deepep --moe-token-dispatcher-type flex
err_has "give only one of them"
run 2 predict "${moe[@]}" --moe-flex-dispatcher-backend deepep
err_has "needs --moe-token-dispatcher-type flex"
run 2 predict "${moe[@]}" --moment-bytes 7
err_has "--moment-bytes must be 2, 3, 4, 5, 6 or 8"
run 2 plan --from-megatron "@$work/job/megatron.args" 16xh100 --graphs full
err_has "--from-megatron takes the recipe from the command line"
run 1 predict "${moe[@]}" --target penstock --dtype f32 --optimizer muon
err_has "give --target megatron"


# The search chooses modules to recompute where none are given, and says so.
deepseek=(deepseek-v3 256xgb200 --seq-length 4096 --global-batch-size 4096
    --dtype mxfp8 --dispatcher hybridep)
run 0 plan "${deepseek[@]}" --json -o "$work/chosen.json"
same "chosen modules" "$(json 'd["plans"][0]["recompute"], d["plans"][0]["recipe"]["recompute_modules"]')" \
    "('selective', ['mla_up_proj'])"
same "one row for a layout" "$(json 'len(d["plans"]) == len({str((p["degrees"], p["micro_batch"], p["schedule"], p["sharding"])) for p in d["plans"]})')" True
same "modules of the file" "$(recipe_of "$work/chosen.json")" \
    '2 None {"dispatcher": "hybridep", "recompute_modules": ["mla_up_proj"]}'
run 0 plan check "$work/chosen.json"
run 0 export "$work/chosen.json" --to megatron -o "$work/chosen"
grep -qxF -- "--recompute-modules mla_up_proj" "$work/chosen/megatron.args" || fail "no modules in the export"
run 0 plan "${deepseek[@]}" --why tp=1,pp=4,vpp=4,ep=64
out_has 'with pp 4 vpp 4 ep 64 dp 64 micro-batch 1 interleaved recompute mla_up_proj zero1'
out_lacks 'context parallel'
# Modules that are given are kept.
run 0 plan "${deepseek[@]}" --recompute-modules moe_act --json
same "given modules" "$(json '{str(p["recipe"]["recompute_modules"]) for p in d["plans"]}')" "{\"['moe_act']\"}"
# A command line is told which ones to take.
sed 's/^--recompute-granularity .*/--recompute-granularity full --recompute-method uniform --recompute-num-layers 1/; /^--recompute-modules/d' \
    "$work/chosen/megatron.args" >"$work/full.args"
run 0 plan --from-megatron "@$work/full.args" --model deepseek-v3 256xgb200
out_has '--recompute-granularity full -> selective --recompute-modules mla_up_proj'
# Options that would help are named with their gain.
run 0 plan qwen3-30b-a3b 32xh100 --seq-length 4096 --global-batch-size 512 --explain
out_has 'gain from one more option'
grep -Eq '^  --overlap-moe-expert-parallel-comm +\+[0-9.]+ % tokens/s, with ' "$work/out" || fail "no overlap"
finish
