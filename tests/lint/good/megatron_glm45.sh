#!/bin/bash
# 92 layers on 8 stages: ten at each end, twelve between.
mpirun -np 512 python pretrain_gpt.py --num-layers 92 --hidden-size 5120 --kv-channels 128 \
    --num-attention-heads 96 --group-query-attention --num-query-groups 8 \
    --num-experts 160 --expert-model-parallel-size 16 --moe-grouped-gemm \
    --pipeline-model-parallel-size 8 \
    --decoder-first-pipeline-num-layers 10 --decoder-last-pipeline-num-layers 10 \
    --seq-length 4096 --max-position-embeddings 131072 --micro-batch-size 1 \
    --global-batch-size 2048 --bf16
