#!/bin/bash
torchrun --nproc-per-node 8 --nnodes 4 pretrain_gpt.py \
    --num-layers 24 --hidden-size 6144 --num-attention-heads 48 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 \
    --micro-batch-size 1 --global-batch-size 64 --bf16 \
    --group-query-attention --num-query-groups 12
