#!/bin/bash
#SBATCH --nodes=3
#SBATCH --gpus-per-node=8
srun --ntasks-per-node=8 python pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
    --num-attention-heads 32 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 \
    --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1
