# Layouts drawn out of everything that composes: tensor, context and pipeline
# ranks, replicas, expert groups, sharding, schedules, slices, recomputation and
# sequence parallelism, for every family. Each has the bits of one process with
# the same logical degrees; parts of sequences, which no process has alone, those
# of ranks that share them and nothing else.
#
# Needs support.bash, and `seed`. compose NUMBER tries a layout that depends on
# both alone, with at most 8 ranks. A file that PEN_DONE names has a line for each
# that passed; those of the same seed are not tried again.
composed_steps=("${same_steps[@]/20/4}")
composed_steps=("${composed_steps[@]/1e-2/1e-3}")
declare -A composed=()

# One of the words, by the seed, the number and what is drawn.
pick() { # WHAT WORDS...
    local words=("${@:2}") drawn
    drawn=$(printf '%s' "$seed $number $1" | cksum | cut -d' ' -f1)
    echo "${words[$((drawn / 7 % (${#words[@]})))]}"
}

composed_model() { # FAMILY LAYERS: its file
    local file=$work/$1-composed-$2.json more=
    local common='"vocab_size": 97, "max_position_embeddings": 32, "hidden_size": 64, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_hidden_layers": '$2
    case $1 in
    gpt2 | llama | mixtral | gpt_oss) config_of "$1" "$2" && return ;;
    qwen2) more='"architectures": ["Qwen2ForCausalLM"], "intermediate_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "tie_word_embeddings": true' ;;
    qwen3) more='"architectures": ["Qwen3ForCausalLM"], "intermediate_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": true' ;;
    mistral) more='"architectures": ["MistralForCausalLM"], "intermediate_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "sliding_window": 8, "tie_word_embeddings": false' ;;
    qwen3_moe) more='"architectures": ["Qwen3MoeForCausalLM"], "intermediate_size": 96, "moe_intermediate_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2,
        "norm_topk_prob": true, "mlp_only_layers": [0], "tie_word_embeddings": true' ;;
    deepseek_v3) more='"architectures": ["DeepseekV3ForCausalLM"], "intermediate_size": 96, "moe_intermediate_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "n_group": 2, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 0, "routed_scaling_factor": 1.5,
        "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "tie_word_embeddings": false' ;;
    esac
    echo "{\"model_type\": \"$1\", $common, $more}" >"$file"
    echo "$file"
}

# Leaves the hash of the last step in `hash`; ranks of one need no launcher.
composed_run() { # RANKS FAMILY LAYERS OPTIONS...
    local start=() program=${reference:-$build}
    [ "$1" = 1 ] || start=("${mpirun[@]}" -n "$1") program=$build
    rm -rf "$work/composed"
    hash=
    in_time 120 "${start[@]}" "$program/penstock" train --model "$(composed_model "$2" "$3")" \
        "${composed_steps[@]}" "${@:4}" --save "$work/composed" >"$work/out" 2>"$work/err" </dev/null || return
    hash=$(hash_of "$work/composed/step-00000004")
}

# Sets what the kind of a layout allows: `same` decides the bits, `own` does not.
draw_kind() {
    kind=$(pick kind tensor tensor tensor tensor context context slices experts)
    family=$(pick family gpt2 llama qwen2 qwen3 mistral mixtral qwen3_moe gpt_oss) tp=1 cp=1 ep=1 own=() same=()
    schedules=(gpipe 1f1b kfkb interleaved breadth-first 2bp zb-h1 zb-auto zb-v dualpipev)
    shardings=(none zero1 zero2 zero3)
    case $kind in
    tensor)
        family=$(pick tensor_family gpt2 llama qwen2 qwen3 mistral mixtral qwen3_moe deepseek_v3 gpt_oss)
        tp=$(pick tp 1 2 2 4) logical=$tp
        [ "$family$tp" != gpt24 ] || tp=2 logical=2
        [ "$family" = gpt2 ] || [ "$tp" = 4 ] || logical=$((tp * $(pick pieces 1 2)))
        [ "$logical" = 1 ] && logical=2
        same=(--logical-tensor "$logical") own=(--tp "$tp")
        [ "$(pick rows 0 1)" = 0 ] || same+=(--sequence-parallel)
        ;;
    context)
        cp=$(pick cp 2 2 4) same=(--context-parallel-size "$cp") logical=$(pick tp 1 2 2 4)
        [ "$family$logical" != gpt24 ] || logical=2
        [ "$logical" = 1 ] || same+=(--logical-tensor "$logical") tp=$(pick both 1 2 2 "$logical")
        [ "$cp$tp" != 44 ] || tp=2
        [ "$tp" = 1 ] || own+=(--tp "$tp")
        [ "$logical" = 1 ] || [ "$(pick rows 0 1)" = 0 ] || same+=(--sequence-parallel)
        ;;
    slices) same=(--slices "$(pick slices 2 4)") schedules=(seq1f1b) ;;
    experts)
        family=$(pick family mixtral qwen3_moe deepseek_v3 gpt_oss) ep=$(pick ep 1 2 4) own=(--ep "$ep")
        schedules=(gpipe 1f1b zb-h1 interleaved) logical=$(pick tp 1 1 2)
        [ "$logical" = 1 ] || tp=$(pick both 1 2) same=(--logical-tensor 2)
        [ "$logical$(pick rows 0 0 1)" != 21 ] || same+=(--sequence-parallel)
        [ "$tp" = 1 ] || own+=(--tp "$tp")
        ;;
    esac
    case $kind-$family in
    context-mixtral | context-*_* | slices-mixtral | slices-*_*) same+=(--moe-aux-loss-coeff 0.01) ;;
    esac
}

# Ranks, stages and batches of at most 8 ranks.
draw_sizes() {
    pp=$(pick pp 1 2 2 4) dp=$(pick dp 1 2 2 4)
    [ "$dp" -ge "$ep" ] || dp=$ep
    while [ $((tp * cp * pp * dp)) -gt 8 ] && [ "$pp" -gt 1 ]; do pp=$((pp / 2)); done
    while [ $((tp * cp * pp * dp)) -gt 8 ]; do dp=$((dp / 2)); done
    schedule=$(pick schedule "${schedules[@]}") layers=2 batches=$(pick batches 1 2 4) size=$(pick size 1 2)
    [ "$pp" != 1 ] || [ "$kind" = slices ] || schedule=1f1b
    case $schedule in
    interleaved | breadth-first) own+=(--vpp 2) batches=$((batches < pp ? pp : batches)) ;;
    dualpipev) batches=$((2 * pp)) ;;
    zb-h1 | zb-auto | zb-v) batches=$((batches < pp ? pp : batches)) ;;
    esac
    [ "$pp" != 4 ] || layers=6
    logical_replicas=$((dp * $(pick logical_replicas 1 1 2)))
    [ $((batches * dp % logical_replicas)) = 0 ] || logical_replicas=$dp
    same+=(--micro-batch-size "$size" --global-batch-size $((size * batches * dp)) --logical-replicas "$logical_replicas")
}

draw_rest() {
    local granularity
    # The distant engine has the sums of the reference, and no experts. Groups inside layers need memory of the host.
    case $(pick engine onednn onednn bf16 distant distant),$((tp * cp * ep)),$family in
    bf16,*) same+=(--bf16) ;;
    distant,1,mixtral | distant,1,*_moe | distant,1,deepseek_v3) ;;
    distant,1,*) same+=(--engine reference) own+=(--engine distant) ;;
    esac
    granularity=$(pick recompute none selective full full)
    own+=(--recompute-granularity "$granularity")
    [ "$granularity" != selective ] || own+=(--recompute-modules "$(pick modules core_attn mlp layernorm core_attn,mlp)")
    [ "$granularity $(pick span 0 1)" != "full 1" ] || [ "$layers" = 2 ] || own+=(--recompute-num-layers 2)
    own+=(--mapping "$(pick mapping tp-cp-pp-dp tp-cp-dp-pp)")
    sharding=$(pick sharding "${shardings[@]}")
    [ $((dp * cp)) = 1 ] || own+=(--sharding "$sharding")
    [ $((dp * cp)) -lt 4 ] || [ "$sharding$(pick hybrid 0 1)" != zero31 ] || own+=(--sharding-group 2)
    [ "$(pick checksum 0 0 0 1)" = 0 ] || own+=(--checksum-messages)
}

# Percent by which the memory of ranks was above their prediction: least, most.
memory_above() {
    sed -n 's/.*memory of rank .* predicted .*, \([-+][0-9.]*\) %$/\1/p' "$work/err" | sort -g | sed -n '1p;$p' | xargs
}

compose() { # NUMBER
    local number=$1 kind family tp cp ep pp dp own same logical schedules shardings schedule layers batches size \
        logical_replicas sharding hash
    [ -z "${PEN_DONE:-}" ] || ! grep -qsx "$seed $number" "$PEN_DONE" || return 0
    draw_kind
    draw_sizes
    draw_rest
    about "layout $number: $family of $layers layers, $((tp * cp * pp * dp)) ranks, pp $pp, $schedule ${same[*]} ${own[*]}"
    local key="$family $layers ${same[*]}"
    if [ -z "${composed[$key]:-}" ]; then
        composed_run "$cp" "$family" "$layers" "${same[@]}" || fail "one process: $(tail -1 "$work/err")"
        composed[$key]=$hash
    fi
    composed_run $((tp * cp * pp * dp)) "$family" "$layers" "${same[@]}" "${own[@]}" --pp "$pp" \
        --schedule "$schedule" || fail "the training failed: $(grep error "$work/err" | head -1)"
    num_composed=$((num_composed + 1))
    if [ -n "$hash" ] && [ "$hash" = "${composed[$key]}" ]; then
        num_equal=$((num_equal + 1))
        [ -z "${PEN_DONE:-}" ] || echo "$seed $number" >>"$PEN_DONE"
        [ -z "${PEN_VERBOSE:-}" ] || echo "equal: $line (memory $(memory_above) %)"
    else
        fail "other bits than one process"
    fi
}

# Prints how many layouts have the bits of one process.
compose_all() { # COUNT
    local i num_composed=0 num_equal=0
    for ((i = 1; i <= $1; i++)); do compose "$i"; done
    echo "$num_composed composed layouts, $num_equal with the bits of one process"
    about "composed layouts"
    same "equal layouts" "$num_equal" "$num_composed"
}
