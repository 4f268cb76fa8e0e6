#!/bin/bash
# Megatron-Bridge, pull request 5893: 40 layers, pipeline 2, 12 virtual stages.
uv run python scripts/run_recipe.py model.num_layers=40 model.pipeline_model_parallel_size=2 \
    model.virtual_pipeline_model_parallel_size=12 train.micro_batch_size=1
