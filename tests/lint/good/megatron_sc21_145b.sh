#!/bin/bash
# A row of the table of Megatron-LM's paper of 2021: 145b parameters on 1536 devices.
torchrun --nproc_per_node 8 --nnodes 192 --master_addr "$MASTER_ADDR" pretrain_gpt.py \
    --num-layers 80 --hidden-size 12288 --num-attention-heads 96 \
    --seq-length 2048 --max-position-embeddings 2048 \
    --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 \
    --micro-batch-size 1 --global-batch-size 2304 \
    --vocab-size 51200 --lr 1.0e-4 --train-iters 500000 --fp16
