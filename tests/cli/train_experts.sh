#!/usr/bin/env bash
# DeepSeek V2 and V3 learn the alphabet, resume with the same bits, are evaluated
# and write; a capacity and moves of the balancing bias are refused where they
# have no meaning, and have an effect elsewhere.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive
for _ in $(seq 100); do printf abcdefghijklmnopqrstuvwxyz; done >"$work/text"
run 0 tokenize --train-chars "$work/text" -o "$work/letters"
run 0 tokenize "$work/text" --tokenizer "$work/letters" -o "$work/tokens"

model_of() { # KIND MORE
    mkdir "$work/$1"
    cp "$work/letters/tokenizer.json" "$work/$1"
    cat >"$work/$1/config.json" <<END
{"model_type": "$1", "vocab_size": 26, "max_position_embeddings": 64, "hidden_size": 32,
 "intermediate_size": 48, "moe_intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 2, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
 "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": null, "kv_lora_rank": 16,
 "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16, $2}
END
}
model_of deepseek_v2 '"topk_method": "group_limited_greedy", "norm_topk_prob": false'
model_of deepseek_v3 '"norm_topk_prob": true'

train() { # EXIT MODEL FOLDER OPTIONS...
    run "$1" train --model "$work/$2" --data-path "$work/tokens_text_document" --seq-length 32 \
        --micro-batch-size 4 --train-iters 60 --lr 1e-2 --threads 1 --save "$work/$3" --save-interval 30 "${@:4}"
}

# resumes MODEL OPTIONS...: sets `hash`, that of its weights.
resumes() {
    rm -rf "$work/whole" "$work/half"
    train 0 "$1" whole "${@:2}" --log "$work/run.jsonl"
    hash=$(hash_of "$work/whole/step-00000060")
    mkdir "$work/half"
    cp -r "$work/whole/step-00000030" "$work/half"
    train 0 "$1" half --load "$work/half" "${@:2}"
    same "weights" "$(hash_of "$work/half/step-00000060")" "$hash"
}

for model in deepseek_v2 deepseek_v3; do
    resumes $model
    plain=$hash
    run 0 eval --model "$work/whole" --seq-length 32 --data-path "$work/tokens_text_document"
    awk '/^loss/ { found = $2 + 0 } END { exit !(found > 0 && found < 0.3) }' "$work/out" || fail "it has not learnt"
    run 0 generate --model "$work/whole" --prompt fghi --max-tokens 12 --temperature 0
    out_has "fghijklmnopqrstu"
done
resumes deepseek_v3 --moe-expert-capacity-factor 1 --moe-router-bias-update-rate 0.01
[ "$hash" != "$plain" ] || fail "no effect"
python3 -c 'import json, sys
steps = [json.loads(line) for line in open(sys.argv[1])][1:]
sys.exit(not sum(step["dropped_tokens"] for step in steps) > 0)' "$work/run.jsonl" || fail "nothing was dropped"

train 1 deepseek_v2 none --moe-router-bias-update-rate 0.01
err_has "is for models whose routers have a balancing bias"
train 1 deepseek_v3 none --moe-router-bias-update-rate 0.01 --sync local-sgd
err_has "counts the tokens of all replicas at every step, which --sync local-sgd does not"
echo '{"model_type": "gpt2", "vocab_size": 26, "n_positions": 64, "n_embd": 32, "n_layer": 1, "n_head": 2}' >"$work/gpt2"
train 1 gpt2 none --moe-expert-capacity-factor 1
err_has "--moe-expert-capacity-factor is for models with experts, and this one has none"
finish
