#!/bin/bash
torchrun --nproc_per_node=8 scripts/run_recipe.py --recipe llama3_8b_pretrain_config \
    model.tensor_model_parallel_size=2 model.sequence_parallel=true \
    train.micro_batch_size=1 train.global_batch_size=128 "$@"
