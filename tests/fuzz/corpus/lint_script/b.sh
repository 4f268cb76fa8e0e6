#!/bin/bash
# A function that starts, and a heredoc with a job in it that is only written.
launch() {
    local name=$1
    echo "--tensor-model-parallel-size 5 is announced, not started"
    torchrun --nproc-per-node 8 pretrain_gpt.py "${COMMON[@]}" --save "out/$name" --save-interval 100
}
COMMON=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --tensor-model-parallel-size 4
        --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64)
cat <<-'JOB' > job.sh
	torchrun pretrain_gpt.py --num-layers 7 --pipeline-model-parallel-size 3 --num-attention-heads 5 "
	JOB
launch base
