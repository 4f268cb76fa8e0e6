#!/bin/bash
#SBATCH --nodes=128 --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# 76b parameters as in the paper of 2021, started by srun alone.
TP=8
PP=${PP:-4}
MODEL="--num-layers 60 --hidden-size 10240 \
       --num-attention-heads 80 --seq-length 2048 --max-position-embeddings 2048"
PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP}"
srun --mpi=none python -u pretrain_gpt.py $MODEL $PARALLEL \
    --micro-batch-size 1 --global-batch-size 1792 --fp16 \
    --data-path "$DATA" --save "$OUT" --save-interval 500 > log.txt 2>&1
