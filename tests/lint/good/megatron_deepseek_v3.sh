#!/bin/bash
# DeepSeek V3 on 1,024 devices: pipeline 16, experts over 64 ranks, layers 3 dense and 58 with experts.
#SBATCH -N 128
#SBATCH --gres=gpu:h100:8
options=" \
    --num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 \
    --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 \
    --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 \
    --moe-layer-freq ([0]*3+[1]*58) \
    --moe-token-dispatcher-type flex --moe-enable-deepep --moe-grouped-gemm \
    --seq-length 4096 --max-position-embeddings 163840 --position-embedding-type rope \
    --tensor-model-parallel-size 2 --sequence-parallel \
    --pipeline-model-parallel-size 16 --expert-model-parallel-size 64 --expert-tensor-parallel-size 1 \
    --pipeline-model-parallel-layout Et*3|(tt|)*29m|L \
    --mtp-num-layers 1 \
    --micro-batch-size 1 --global-batch-size 8192 --bf16 \
    --recompute-granularity selective --recompute-modules mla_up_proj mlp"
run_cmd="python -u pretrain_gpt.py ${options}"
srun --ntasks-per-node=8 bash -c "${run_cmd}"
