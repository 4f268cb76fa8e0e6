#!/bin/bash
# A row of the table of Megatron-LM's paper of 2021: 18b parameters on 256 devices.
torchrun --nproc_per_node 8 --nnodes 32 --master_addr "$MASTER_ADDR" pretrain_gpt.py \
    --num-layers 40 --hidden-size 6144 --num-attention-heads 48 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 1 \
    --micro-batch-size 1 --global-batch-size 1024 \
    --vocab-size 51200 --lr 1.0e-4 --train-iters 500000 --fp16
