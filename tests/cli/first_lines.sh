#!/usr/bin/env bash
# What new users type first, and what the answers must say: first_lines.txt.
#
#   tests/cli/first_lines.sh [--show]     --show prints the answers, too
. "$(dirname "$0")/support.bash"
lines=$(cd "$(dirname "$0")" && pwd)/first_lines.txt
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
mkdir "$work/folder"
cd "$work/folder" || exit 1
penstock() { "$PENSTOCK" "$@"; }

for _ in $(seq 200); do
    echo "the quick brown fox jumps over the lazy dog, and the dog sleeps on"
done >text.txt
cat >config.json <<'END'
{"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048,
 "intermediate_size": 5632, "num_hidden_layers": 22,
 "num_attention_heads": 32, "num_key_value_heads": 4,
 "max_position_embeddings": 2048, "rms_norm_eps": 1e-5}
END
cat >cmd.txt <<'END'
torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 24 \
    --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 50257 \
    --micro-batch-size 1 --global-batch-size 64 --bf16 \
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2
END
printf '%s\n' 'F0 F1 B0 B1' 'F0 B0 F1 B1' >mine.txt
printf '%s\n' 'F0 B0 F1 B1' 'B0 F0 F1 B1' >dead.txt

# One line of the file, as typed.
try() { # LINE CODE WORDS
    local code=0
    about "$1"
    eval "$1" >"$work/out" 2>"$work/err" </dev/null || code=$?
    cat "$work/out" "$work/err" >"$work/both"
    same "exit code" "$code" "$2"
    grep -qF -- "$3" "$work/both" || fail "no '$3' in: $(tail -n 5 "$work/both")"
}

# As 0.1.0's answers were taken: PENSTOCK=... tests/cli/first_lines.sh --show
show() { # LINE
    echo "$ $1"
    (eval "$1") </dev/null >"$work/out" 2>&1
    echo "exit code $?"
    head -n 50 "$work/out"
}

count=0
while IFS= read -r row; do
    case $row in
    '$ '*) typed=${row#\$ } && [ "${1-}" != --show ] || show "$typed" ;;
    'now: '*)
        row=${row#now: }
        [ "${1-}" = --show ] || try "$typed" "${row%%:*}" "${row#*: }"
        count=$((count + 1))
        ;;
    esac
done <"$lines"
about "$lines"
[ "${1-}" = --show ] || same "lines" "$count" 40
finish
