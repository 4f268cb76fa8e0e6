#!/bin/bash
# A row of the table of Megatron-LM's paper of 2021: 1.7b parameters on 32 devices.
torchrun --nproc_per_node 8 --nnodes 4 --master_addr "$MASTER_ADDR" pretrain_gpt.py \
    --num-layers 24 --hidden-size 2304 --num-attention-heads 24 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 \
    --micro-batch-size 1 --global-batch-size 512 \
    --vocab-size 51200 --lr 1.0e-4 --train-iters 500000 --fp16
