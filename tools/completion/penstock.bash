# bash completion for penstock. The names of schedules come from the program;
# tests/cli/manual.sh compares the options with --help.
# shellcheck disable=SC2207

_penstock_schedule_options() {
    case $1 in
    list) echo --json ;;
    make)
        echo --stages --microbatches --chunks --slices --batches \
            --group-size --stage-replicas --vertical-sync --recompute --costs --memory \
            --memory-limit --output
        ;;
    search)
        echo --stages --microbatches --chunks --placement --costs --memory \
            --memory-limit --seconds --seed --json --output
        ;;
    check) echo --memory --memory-limit --send-window --json ;;
    time) echo --costs --memory --send-window --all-ranks --json ;;
    draw)
        echo --stages --microbatches --chunks --slices --batches \
            --stage-replicas --recompute --costs --memory --memory-limit \
            --send-window --output
        ;;
    compare)
        echo --stages --microbatches --chunks --slices --batches --recompute \
            --costs --memory --memory-limit --json
        ;;
    convert) echo --force ;;
    esac
}

_penstock_tokenize_options() {
    echo --tokenizer --output --format --append-eod --lines --json-key --threads --train-chars --json
}

_penstock_train_options() {
    echo --model --random-weights --load --data-path --token-ids --split \
        --seq-length --micro-batch-size --global-batch-size --train-iters \
        --seed --optimizer --lr --min-lr --lr-decay-style --lr-warmup-iters \
        --lr-decay-iters --lr-wsd-decay-iters --lr-wsd-decay-style \
        --weight-decay --weight-decay-groups --clip-grad --adam-beta1 \
        --stale-after --stale-discount --predict-weights --stage-replicas --stage-layers --replica-shares --slices --context-parallel-size --cp \
        --adam-beta2 --adam-eps --sgd-momentum --sgd-nesterov --muon-lr \
        --muon-momentum --muon-plain-momentum --muon-adjust-lr \
        --moe-aux-loss-coeff --moe-z-loss-coeff \
        --moe-expert-capacity-factor --moe-router-bias-update-rate --bf16 \
        --engine --threads --recompute-granularity --recompute-modules --recompute-stages --recompute-method --recompute-num-layers --save --save-interval --save-keep \
        --run --log --log-interval --probe --probe-steps --tensorboard-dir --metrics-port \
        --eval-interval --eval-iters \
        --pipeline-model-parallel-size --pp --num-virtual-stages-per-pipeline-rank --vpp \
        --schedule --mapping --use-distributed-optimizer --sharding --data-parallel-sharding-strategy --sharding-group --fast-sums --logical-replicas --logical-tensor --sequence-parallel --plan --move --check \
        --tensor-model-parallel-size --tp --expert-model-parallel-size --ep \
        --sync --sync-interval --sync-option --sync-replicas --compress \
        --ring --island --key --keys --patience --late \
        --sparse-embedding --sparsity --local-updates --compress-stages \
        --profile --trace --verify-interval --checksum-messages \
        --on-nan --hang-timeout --exit-duration-in-mins --peak-tflops
}

_penstock_eval_options() {
    echo --model --data-path --token-ids --split --seq-length \
        --micro-batch-size --bf16 --engine --threads --json
}

_penstock_generate_options() {
    echo --model --tokenizer --prompt --max-tokens --temperature --top-p \
        --seed --bf16 --threads
}

_penstock_plot_options() {
    echo --output --x --smooth --log-y --title
}

_penstock_report_options() {
    echo --output --json
}

_penstock_partition_options() {
    echo --devices --bandwidth --flops --memory-limit --straight --no-transfers --json
}

_penstock_view_options() {
    echo --output --step --ranks --all-ranks --json
}

_penstock_profile_options() {
    echo --model --micro-batch-size --seq-length --bf16 --engine --threads \
        --recompute-granularity --rounds --json --output
}

_penstock_models_options() {
    echo --json
}

_penstock_schema_options() {
    echo --json
}

_penstock_doctor_options() {
    echo --engine --model --seq-length --micro-batch-size --bf16 --json --output
}

# Of a recipe, which plan and predict take.
_penstock_recipe_options() {
    echo --expert-tensor-parallel-size --etp --dispatcher \
        --moe-token-dispatcher-type --moe-flex-dispatcher-backend \
        --overlap-moe-expert-parallel-comm --delay-wgrad-compute --drop-tokens \
        --moe-paged-stash --fused-experts --graphs --cuda-graph-impl \
        --recompute-modules --offload-modules --cpu-offloading-num-layers \
        --offload-blocks --optimizer-cpu-offload --optimizer \
        --grad-reduce-in-bf16 --master-bytes --moment-bytes --fp8-param-gather \
        --fp8-dot-product-attention --mtp-num-layers
}

# Of runs that fail.
_penstock_failure_options() {
    echo --failures --mtbf --checkpoint-interval --detect-sec --restart-sec --save-sec \
        --reload-sec --storage-rate --pair-share --islands --sync-steps --spares \
        --repair --stacks --seed
}

_penstock_plan_options() {
    _penstock_recipe_options
    _penstock_failure_options
    echo --model --cluster --seq-length --global-batch-size --tokens --target --dtype \
        --memory-limit --profile --top --seconds --allow-stale --clip-grad --allow-local \
        --explain --html --json --output --objective --within \
        --from-megatron --why --compare-targets --recovery
}

_penstock_predict_options() {
    _penstock_recipe_options
    _penstock_failure_options
    echo --model --cluster --seq-length --global-batch-size --tokens --target --dtype \
        --memory-limit --profile --tensor-model-parallel-size --tp \
        --pipeline-model-parallel-size --pp \
        --num-virtual-stages-per-pipeline-rank --vpp --context-parallel-size \
        --cp --expert-model-parallel-size --ep --dp --micro-batch-size \
        --schedule --recompute-granularity --use-distributed-optimizer \
        --sharding --sharding-group --sequence-parallel --blocks \
        --pipeline-model-parallel-layout --from-megatron --devices --peers --lost-peers --peer-link --json --output
}

_penstock_simulate_options() {
    echo --plan --cluster --model --profile --costs --steps --trace \
        --slow-rank --slow-link --fail --background --jitter --seed --mapping \
        --use-tp-pp-dp-mapping --topology --no-contention --sweep --plot \
        --json
}

_penstock_export_options() {
    echo --to --output --model --cluster --json
}

_penstock_lint_options() {
    echo --world-size --cluster --fix --rules --json --sarif
}

_penstock_probe_options() {
    echo --tolerance --output --json
}

_penstock_reproduce_options() {
    echo --data --launcher --short --json --output
}

_penstock_checkpoint_options() {
    case $1 in
    ls | verify) echo --json ;;
    hash) echo --weights --json ;;
    reshard) echo --max-shard-size --output ;;
    export) echo --dtype --max-shard-size --output ;;
    esac
}

_penstock_cluster_options() {
    case $1 in
    list | show | check) echo --json ;;
    detect) echo --threads --output ;;
    esac
}

_penstock_sync_options() {
    case $1 in
    list) echo --json ;;
    compare)
        echo --model --link --latency --replicas --step-time --microbatches \
            --profile --cluster --seq-length --global-batch-size \
            --optimizer --sync-interval --compress --encode-rate --factors \
            --mtbf --islands --restart-sec --json
        ;;
    esac
}

_penstock_supervise_options() {
    echo --events --max-restarts --window --nodes-from --nodes-interval --plans
}

_penstock_hold_options() {
    echo --idle
}

_penstock_ring_options() {
    case $1 in
    draw) echo --output --begin --end ;;
    show) echo --json ;;
    key) echo --address ;;
    coordinate) echo --listen --key --keys --quorum --patience --store --replay ;;
    status) echo --key --keys --json ;;
    evict) echo --key --keys ;;
    esac
}

_penstock_schedule_names() {
    penstock schedule list 2>/dev/null | awk 'NF == 0 { exit } NR > 2 { print $1 }'
}

_penstock_sync_names() {
    penstock sync list 2>/dev/null | awk 'NF == 0 { exit } NR > 2 { print $1 }'
}

# Words that an option takes.
_penstock_words() { # OPTION COMMAND
    case $2$1 in
    plan--optimizer | predict--optimizer)
        echo adam adam8 adafactor muon
        return
        ;;
    esac
    case $1 in
    --dispatcher) echo alltoall allgather deepep hybridep ;;
    --moe-token-dispatcher-type) echo alltoall allgather flex ;;
    --moe-flex-dispatcher-backend) echo deepep hybridep ;;
    --graphs) echo none modules full ;;
    --cuda-graph-impl) echo none local transformer_engine full_iteration ;;
    --format) echo megatron llmc nanogpt ;;
    --x) echo step tokens time ;;
    train--optimizer) echo adam sgd muon ;;
    --muon-adjust-lr) echo original match_rms_adamw spectral_unclamped ;;
    --optimizer) echo adam sgd ;;
    --lr-decay-style) echo constant linear cosine WSD ;;
    --lr-wsd-decay-style) echo exponential linear cosine minus_sqrt ;;
    --weight-decay-groups) echo matrices all ;;
    --engine) echo onednn reference opencl cuda ;;
    --target) echo penstock megatron torchtitan deepspeed ;;
    --sharding) echo none zero1 zero2 zero3 ;;
    --data-parallel-sharding-strategy) echo no_shard optim optim_grads optim_grads_params ;;
    --recompute-granularity) echo none selective full ;;
    --mapping) echo tp-cp-dp-pp tp-cp-pp-dp ;;
    --to) echo megatron megatron@2026.08 torchtitan torchtitan@0.2.2 deepspeed nanotron sbatch all ;;
    esac
}

# Commands without commands behind them.
_penstock_simple() { # NAME WORD BEFORE
    local words
    words=$(_penstock_words "$3" "$1")
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$2"))
    elif [[ $2 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$("_penstock_$1_options") --help --usage" -- "$2"))
    else
        COMPREPLY=($(compgen -f -- "$2"))
    fi
}

_penstock_checkpoint() { # WORD COMMAND
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "ls verify hash reshard export --help" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_checkpoint_options "$2") --help --usage" -- "$1"))
    else
        COMPREPLY=($(compgen -d -- "$1"))
    fi
}

_penstock_cluster() { # WORD COMMAND
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "list show check detect --help" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_cluster_options "$2") --help --usage" -- "$1"))
    else
        COMPREPLY=($(compgen -f -- "$1"))
    fi
}

_penstock_sync() { # WORD COMMAND
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "list compare --help" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_sync_options "$2") --help --usage" -- "$1"))
    elif [ "$2" = compare ]; then
        COMPREPLY=($(compgen -W "$(_penstock_sync_names)" -f -- "$1"))
    fi
}

_penstock_probe() { # WORD COMMAND
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "diff --help" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_probe_options) --help --usage" -- "$1"))
    else
        COMPREPLY=($(compgen -f -- "$1"))
    fi
}

_penstock_ring() { # WORD COMMAND
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "draw show key coordinate status evict --help" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_ring_options "$2") --help --usage" -- "$1"))
    else
        COMPREPLY=($(compgen -f -- "$1"))
    fi
}

_penstock() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local simple="plan predict simulate tokenize train eval generate plot view report models profile doctor partition export lint reproduce schema supervise hold"
    local all="schedule checkpoint cluster sync probe ring $simple"
    local commands="list make search check time draw compare convert"
    local first=${COMP_WORDS[1]} command=${COMP_WORDS[2]-}
    COMPREPLY=()
    if [ "$first" = help ]; then
        [ "$command" = checkpoint ] && commands="ls verify hash reshard export"
        [ "$command" = cluster ] && commands="list show check detect"
        [ "$command" = sync ] && commands="list compare"
        [ "$command" = probe ] && commands="diff"
        [ "$command" = ring ] && commands="draw show key coordinate status evict"
        case $COMP_CWORD in
        2) COMPREPLY=($(compgen -W "$all" -- "$word")) ;;
        3) COMPREPLY=($(compgen -W "$commands" -- "$word")) ;;
        esac
        return
    fi
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "$all help --help --version" -- "$word"))
        return
    fi
    if [[ " $simple " == *" $first "* ]]; then
        _penstock_simple "$first" "$word" "$before"
        return
    fi
    if [ "$first" = checkpoint ]; then
        _penstock_checkpoint "$word" "$command"
        return
    fi
    if [ "$first" = cluster ]; then
        _penstock_cluster "$word" "$command"
        return
    fi
    if [ "$first" = sync ]; then
        _penstock_sync "$word" "$command"
        return
    fi
    if [ "$first" = probe ]; then
        _penstock_probe "$word" "$command"
        return
    fi
    if [ "$first" = ring ]; then
        _penstock_ring "$word" "$command"
        return
    fi
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "$commands --help" -- "$word"))
        return
    fi
    case $before in
    --placement)
        COMPREPLY=($(compgen -W "linear loop v any" -- "$word"))
        return
        ;;
    -o | --output | --costs)
        COMPREPLY=($(compgen -f -- "$word"))
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_schedule_options "$command") --help --usage" \
            -- "$word"))
        return
    fi
    case $command in
    make | compare)
        COMPREPLY=($(compgen -W "$(_penstock_schedule_names)" -- "$word"))
        ;;
    draw)
        COMPREPLY=($(compgen -W "$(_penstock_schedule_names)" -- "$word")
            $(compgen -f -- "$word"))
        ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}

complete -o filenames -F _penstock penstock
