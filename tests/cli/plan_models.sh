#!/usr/bin/env bash
# plan takes the models of today: every config.json of the shared data, and ten
# of types that Penstock does not know, on four clusters. A run takes a sample
# by PEN_SEED; PEN_LONG=1 plans all of them.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

shared=$(cd "$(dirname "$0")/../.." && pwd)/../shared/data
clusters=("preset:h100-sxm*2048" "preset:a100-80*4096" "preset:b200*1024"
    "preset:gb200-nvl72*16")

# ---- types that nobody knows ----

sizes='"vocab_size": 128000, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32'
unknown=(
    "$sizes"
    "$sizes, \"num_key_value_heads\": 8, \"intermediate_size\": 14336"
    "\"n_vocab\": 50304, \"n_embd\": 4096, \"n_layer\": 32, \"n_head\": 32,
        \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-5"
    "\"vocab_size\": 50304, \"d_model\": 2048, \"n_layers\": 16, \"n_heads\": 16,
        \"d_ff\": 8192, \"max_seq_len\": 4096"
    "$sizes, \"num_experts\": 64, \"num_experts_per_tok\": 6,
        \"moe_intermediate_size\": 1408, \"n_shared_experts\": 2"
    "$sizes, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128,
        \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"n_routed_experts\": 64,
        \"num_experts_per_tok\": 6, \"moe_intermediate_size\": 1408,
        \"first_k_dense_replace\": 1"
    "$sizes, \"intermediate_size\": 14336, \"attn_layer_period\": 8,
        \"attn_layer_offset\": 4, \"expert_layer_period\": 2,
        \"expert_layer_offset\": 1, \"num_experts\": 16,
        \"num_experts_per_tok\": 2, \"mamba_d_state\": 16, \"mamba_expand\": 2"
    "$sizes, \"intermediate_size\": 12800, \"mamba_n_heads\": 128,
        \"mamba_d_head\": 64, \"mamba_d_state\": 128, \"full_attention_interval\": 8"
    "$sizes, \"intermediate_size\": 14336, \"sliding_window\": 4096,
        \"sliding_window_pattern\": 4, \"use_qk_norm\": true"
    "\"text_config\": {$sizes, \"model_type\": \"inner\"}, \"vision_config\": {}")
for i in "${!unknown[@]}"; do
    printf '{"model_type": "new_%s", %s}\n' "$i" "${unknown[$i]}" >"$work/new_$i.json"
done

# plan_one FILE CLUSTER
plan_one() {
    run 0 plan --model "$1" --cluster "$2" --seq-length 4096 \
        --global-batch-size 1024 --top 1 --seconds 0.1 --json
    same "a plan of $1" "$(json 'len(d["plans"])')" 1
}

files=("$work"/new_*.json)
if [ -d "$shared/configs-2026" ]; then
    files+=("$shared"/configs/hf/*.json "$shared"/configs-2026/*.json)
    same "models" "${#files[@]}" 57
elif [ -n "${PEN_REQUIRE_SHARED:-}" ]; then
    fail "$shared/configs-2026 is missing"
else
    echo "$shared/configs-2026 is missing; its models are not planned"
fi

# Some pairs of a model and a cluster; with PEN_LONG every one.
step=29
[ -z "${PEN_LONG:-}" ] || step=1
at=$((${PEN_SEED:-1} % step))
count=0
for file in "${files[@]}"; do
    for cluster in "${clusters[@]}"; do
        if [ $((at++ % step)) = 0 ]; then
            plan_one "$file" "$cluster"
            count=$((count + 1))
        fi
    done
done
echo "$count plans of ${#files[@]} models on ${#clusters[@]} clusters"

# ---- what is said of them ----

one=(--cluster "preset:h100-sxm*64" --seq-length 4096 --global-batch-size 256
    --tp 4 --json)
run 0 predict --model "$work/new_1.json" "${one[@]}"
err_has 'unknown model_type "new_1": planned as a decoder with a gated MLP; its figures may be off by more'
guessed=$(json 'd["step_error"]')
step_sec=$(json 'd["step_sec"]')
sed 's/new_1/llama/; s/}$/, "max_position_embeddings": 8192}/' "$work/new_1.json" >"$work/known.json"
run 0 predict --model "$work/known.json" "${one[@]}"
err_lacks "unknown model_type"
same "the same time" "$(json 'd["step_sec"]')" "$step_sec"
same "a larger error" "$(json "$guessed > d['step_error']")" True

run 0 predict --model "$work/new_9.json" "${one[@]}"
err_has 'unknown model_type "inner"'
err_has 'only the text part of the model is planned, "inner"'
run 0 predict --model "$work/new_2.json" "${one[@]}"
err_has "a decoder with a plain MLP"

# A plan has its model with it; it cannot be trained. It is exported by its
# sizes, if its blocks are attention and an MLP or experts.
run 0 plan --model "$work/new_4.json" --cluster "preset:h100-sxm*16" \
    --seq-length 4096 --global-batch-size 64 --top 1 --seconds 0.2 -o "$work/plan.json"
run 0 export "$work/plan.json" --to megatron -o "$work/job"
err_has 'model_type "new_4" is exported by its sizes'
grep -qxF -- "--moe-shared-expert-intermediate-size 2816" "$work/job/megatron.args" || fail "no shared experts"
run 0 predict --model "$work/new_7.json" "${one[@]}" -o "$work/mamba.json"
run 1 export "$work/mamba.json" --to megatron -o "$work/mamba"
err_has "Megatron-LM export supports blocks of attention and an MLP, all of one size"
run 0 export "$work/mamba.json" --to deepspeed -o "$work/mamba"
if [ -x "${PENSTOCK%/*}/penstock-train" ]; then
    run 1 train --model "$work/new_4.json" --data-path "$0" --train-iters 1 --lr 1
    err_has 'model_type "new_4" is for planning only'
fi

printf '{"model_type": "foo", "hidden_size": 64, "vocab_size": 100}' >"$work/short.json"
run 1 plan --model "$work/short.json" --cluster "preset:h100-sxm*8"
err_has 'a model of type "foo" cannot be planned without num_hidden_layers, num_attention_heads'

finish
