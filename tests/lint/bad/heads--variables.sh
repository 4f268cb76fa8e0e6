#!/bin/bash
# The value is in an assignment, which is where the finding points.
GPUS=8
TP=${TP:-8}
HEADS=20
OPTS="--num-layers 24 --hidden-size 2560 \
      --num-attention-heads $HEADS --seq-length 2048"
torchrun --nproc_per_node=$GPUS pretrain_gpt.py $OPTS --max-position-embeddings 2048 \
    --tensor-model-parallel-size "$TP" --micro-batch-size 1 --global-batch-size 8
