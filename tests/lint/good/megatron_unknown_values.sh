#!/bin/bash
# Nothing here can be judged: values come from the caller.
TP=$1; PP=$2; shift 2
case $SIZE in
    7b) LAYERS=32; HEADS=32 ;;
    *)  LAYERS=40; HEADS=40 ;;
esac
for MBS in 1 2 4; do
    torchrun --nproc_per_node $(nvidia-smi -L | wc -l) pretrain_gpt.py \
        --tensor-model-parallel-size $TP --pipeline-model-parallel-size ${PP} \
        --num-layers $LAYERS --num-attention-heads $HEADS --hidden-size `cat hidden` \
        --micro-batch-size $MBS --global-batch-size 33 --sequence-parallel $EXTRA "$@"
done
