#!/usr/bin/env bash
set -euo pipefail
GPUS_PER_NODE=8
NNODES=384
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES   # all of them
    --rdzv_endpoint "$HEAD:29500"
)
GPT_MODEL_ARGS=(
    --num-layers 128
    --hidden-size 25600
    --num-attention-heads 160
    --seq-length 2048
    --max-position-embeddings 2048
)
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 8
    --pipeline-model-parallel-size 64
)
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${GPT_MODEL_ARGS[@]}" \
    "${MODEL_PARALLEL_ARGS[@]}" \
    --micro-batch-size 1 --global-batch-size 3072 --bf16 "$@"
