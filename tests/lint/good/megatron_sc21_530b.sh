#!/usr/bin/env bash
set -euo pipefail
GPUS_PER_NODE=8
NNODES=315
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES   # all of them
    --rdzv_endpoint "$HEAD:29500"
)
GPT_MODEL_ARGS=(
    --num-layers 105
    --hidden-size 20480
    --num-attention-heads 128
    --seq-length 2048
    --max-position-embeddings 2048
)
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 8
    --pipeline-model-parallel-size 35
)
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${GPT_MODEL_ARGS[@]}" \
    "${MODEL_PARALLEL_ARGS[@]}" \
    --micro-batch-size 1 --global-batch-size 2520 --bf16 "$@"
