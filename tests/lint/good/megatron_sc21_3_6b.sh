#!/bin/bash
#SBATCH --nodes=8 --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# 3.6b parameters as in the paper of 2021, started by srun alone.
TP=2
PP=${PP:-1}
MODEL="--num-layers 30 --hidden-size 3072 \
       --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048"
PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP}"
srun --mpi=none python -u pretrain_gpt.py $MODEL $PARALLEL \
    --micro-batch-size 1 --global-batch-size 512 --fp16 \
    --data-path "$DATA" --save "$OUT" --save-interval 500 > log.txt 2>&1
