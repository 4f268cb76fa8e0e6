#!/bin/bash
torchrun --nproc-per-node 8 --nnodes 4 pretrain_gpt.py \
    --num-layers 24 --hidden-size 2048 --num-attention-heads 16 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 \
    --micro-batch-size 1 --global-batch-size 64 --bf16 \
    --sequence-parallel --num-experts 10 --expert-model-parallel-size 4
