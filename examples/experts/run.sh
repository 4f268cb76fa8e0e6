#!/usr/bin/env bash
# A mixture of experts beside a dense network that computes as much for a letter:
# both learn from Shakespeare's text, one after the other, on two ranks each. The
# mixture has 20.0 million parameters, of which a letter passes 5.8 million: two
# experts of eight. The dense network has these 5.8 million.
#
#   examples/experts/run.sh [FOLDER] [STEPS]
#
# FOLDER gets everything that is made; 120 steps when not given, some four
# minutes of two cores. Prints one line for each of the two and evaluation: loss,
# tokens per second, and tokens of the busiest expert over those of a mean one.
# PENSTOCK is the program, MPIRUN the launcher of two ranks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-experts}
steps=${2:-120}
penstock=${PENSTOCK:-penstock}
read -ra mpirun <<<"${MPIRUN:-mpirun -n 2}"
export OMP_NUM_THREADS=1

mkdir -p "$folder"
"$penstock" tokenize --train-chars "$here/../shakespeare/input.txt" -o "$folder/tokenizer"
"$penstock" tokenize "$here/../shakespeare/input.txt" --tokenizer "$folder/tokenizer" -o "$folder/tokens"

train() { # NAME OPTIONS...
    "${mpirun[@]}" "$penstock" train --model "$here/$1.json" --data-path "$folder/tokens_text_document" \
        --split 90,10 --seq-length 128 --micro-batch-size 4 --global-batch-size 8 --logical-replicas 2 \
        --train-iters "$steps" --lr 1e-3 --lr-decay-style constant --lr-warmup-iters 20 --adam-beta2 0.99 \
        --weight-decay 0.1 --threads 1 --log-interval 10 --eval-interval 40 --eval-iters 40 \
        --log "$folder/$1.jsonl" "${@:2}"
}
rm -f "$folder"/*.jsonl
train mixture --ep 2 --moe-aux-loss-coeff 0.01
train dense

for name in mixture dense; do
    python3 - "$folder/$name.jsonl" "$name" <<'END'
import json, statistics, sys
steps = [json.loads(line) for line in open(sys.argv[1])][1:]
for step in steps:
    if "val_loss" in step:
        speed = statistics.median(it["tokens_per_sec"] for it in steps[:step["step"]])
        uneven = f', imbalance {step["expert_imbalance"]:.2f}' if "expert_imbalance" in step else ""
        print(f'{sys.argv[2]}, step {step["step"]}: loss {step["loss"]:.3f}, validation {step["val_loss"]:.3f}, '
              f'{speed:.0f} tokens/s{uneven}')
END
done
