#!/usr/bin/env bash
# From a text to a network that writes in its manner: letters become tokens, a
# GPT of 4.8 million parameters learns which comes next, its curves are drawn,
# and it writes.
#
#   examples/shakespeare/run.sh [FOLDER] [STEPS]
#
# FOLDER gets everything that is made. 1750 steps end at a validation loss of
# 1.58; at 16,000 tokens a second, which two free cores with AMX give, that is
# eight minutes. 200 steps show that it works.
# Started again on the same folder, the training goes on where it was stopped.
# PENSTOCK is the program, TEXT another text to learn from, THREADS how many.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-shakespeare}
steps=${2:-1750}
text=${TEXT:-$here/input.txt}
penstock=${PENSTOCK:-penstock}

mkdir -p "$folder"
model=$folder/model
"$penstock" tokenize --train-chars "$text" -o "$model"
"$penstock" tokenize "$text" --tokenizer "$model" -o "$folder/tokens"

# Where the processor has no bf16, floats are many times faster.
precision=()
grep -qs 'bf16' /proc/cpuinfo && precision=(--bf16)

# The last tenth of the text is for validation. Dense layers of 256 by 1024 and
# a window of 256 letters.
cp "$here/config.json" "$model"
load=()
! compgen -G "$folder/run/step-*" >/dev/null || load=(--load "$folder/run")
"$penstock" train --model "$model" --data-path "$folder/tokens_text_document" \
    --split 90,10 --seq-length 256 --micro-batch-size 16 \
    ${precision[@]+"${precision[@]}"} \
    --train-iters "$steps" --lr 2e-3 --min-lr 1e-4 --lr-decay-style cosine \
    --lr-warmup-iters 50 --adam-beta2 0.99 --weight-decay 0.1 \
    --log-interval 50 --eval-interval 250 --eval-iters 1000 \
    --save "$folder/run" --save-interval 250 --log "$folder/run.jsonl" \
    ${THREADS:+--threads "$THREADS"} ${load[@]+"${load[@]}"}

"$penstock" plot "$folder/run.jsonl" -o "$folder/run.svg"
"$penstock" eval --model "$folder/run" --split 90,10 --seq-length 256 \
    ${precision[@]+"${precision[@]}"} --micro-batch-size 16 \
    --data-path "$folder/tokens_text_document"
"$penstock" generate --model "$folder/run" \
    ${precision[@]+"${precision[@]}"} --max-tokens 240 \
    --prompt "ROMEO:" --temperature 0.8
