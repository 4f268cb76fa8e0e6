#!/bin/bash
NGPU=${NGPU:-16}
torchrun --nproc_per_node=8 --nnodes=2 -m torchtitan.train \
    --module llama3 --config llama3_8b \
    --training.local_batch_size 8 --training.global_batch_size 64 --training.seq_len 8192 \
    --parallelism.data_parallel_shard_degree 2 --parallelism.tensor_parallel_degree 2 \
    --parallelism.pipeline_parallel_degree 4 --parallelism.pipeline_parallel_schedule ZBVZeroBubble
