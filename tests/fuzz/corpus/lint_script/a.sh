#!/bin/bash
# Llama 3 8B on two nodes.
NUM_NODES=2
SEQ=8192
ARGS=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --seq-length $SEQ --max-position-embeddings $SEQ
  --position-embedding-type rope --rotary-base 500000
  --swiglu --normalization RMSNorm --disable-bias-linear
  --untie-embeddings-and-output-weights
)
ARGS+=(--tensor-model-parallel-size 4 --sequence-parallel)
ARGS+=(--micro-batch-size 1 --global-batch-size 128 --bf16)
ARGS+=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
if [ -n "${WANDB_KEY:-}" ]; then
    ARGS+=(--wandb-project llama --wandb-exp-name "$(date +%F)")
fi
cat > hosts <<END
--tensor-model-parallel-size 3 is only text here
END
torchrun --nproc-per-node=8 --nnodes="$NUM_NODES" pretrain_gpt.py "${ARGS[@]}"
