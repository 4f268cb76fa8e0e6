#!/bin/bash
# The layout of Megatron-Bridge after pull request 4604: 48 layers, pipeline 8, two virtual stages.
python -m torch.distributed.run --nnodes 16 --nproc-per-node 8 pretrain_gpt.py \
    --num-layers 48 --hidden-size 3072 --num-attention-heads 32 --kv-channels 256 \
    --group-query-attention --num-query-groups 2 \
    --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 1024 --moe-grouped-gemm \
    --seq-length 4096 --max-position-embeddings 4096 \
    --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 8 \
    --num-virtual-stages-per-pipeline-rank 2 --expert-model-parallel-size 16 \
    --expert-tensor-parallel-size 1 \
    --micro-batch-size 1 --global-batch-size 1024 --bf16
