#!/usr/bin/env bash
# The memory of a training is what was predicted before its first step, within
# 2 %: the peak of the process, and what is resident behind the last step.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive

python3 - "$work" <<'END'
import json, random, struct, sys
work = sys.argv[1]

def gpt2(name, vocab, hidden, layers, heads):
    json.dump({"model_type": "gpt2", "vocab_size": vocab, "n_positions": 1024,
               "n_embd": hidden, "n_layer": layers, "n_head": heads},
              open(f"{work}/{name}.json", "w"))

def llama(name, vocab, hidden, inner, layers, heads, kv_heads):
    json.dump({"model_type": "llama", "vocab_size": vocab,
               "hidden_size": hidden, "intermediate_size": inner,
               "num_hidden_layers": layers, "num_attention_heads": heads,
               "num_key_value_heads": kv_heads, "rms_norm_eps": 1e-5,
               "max_position_embeddings": 1024},
              open(f"{work}/{name}.json", "w"))

gpt2("gpt-1m", 512, 128, 4, 4)
gpt2("gpt-5m", 65, 256, 6, 8)
gpt2("gpt-124m", 50257, 768, 12, 12)
llama("llama-1m", 500, 128, 352, 4, 4, 2)
llama("llama-21m", 32000, 256, 688, 6, 4, 4)
llama("llama-31m", 8000, 512, 1376, 8, 8, 4)
random.seed(5)
tokens = random.choices(range(65), k=500000)
open(work + "/tokens.bin", "wb").write(struct.pack("<500000H", *tokens))
END

# Both pairs that the messages tell, and whether they are near enough.
cat >"$work/compare.py" <<'END'
import re, sys
text = open(sys.argv[1]).read()

def number(before, behind=""):
    return float(re.search(before + r"([\d.]+)" + behind, text)[1])

steps = sum(map(number, ["moments ", "activations ", "program ",
                         "temporary "]))
pairs = {"peak": (number("memory will be "), number("memory was ")),
         "end": (steps, number("; ", " MB at the end"))}
share = {name: found / expected - 1
         for name, (expected, found) in pairs.items()}
print(*(f"{name} {found:.1f} MB for {expected:.1f} MB, {share[name]:+.2%}"
        for name, (expected, found) in pairs.items()), sep="; ")
sys.exit(any(abs(one) > 0.02 for one in share.values()))
END

# expect_memory MODEL OPTIONS...
expect_memory() {
    local model=$1 found
    shift
    run 0 train --model "$work/$model.json" --data-path "$work/tokens.bin" \
        --train-iters 2 --lr 1e-4 "$@"
    found=$(python3 "$work/compare.py" "$work/err") || fail "$found"
    echo "$model: $found"
}

# Families and sizes, both precisions, all ways to recompute; the third as
# users run it for long, with all that may come between steps. A third of them,
# drawn by the seed; all with PEN_LONG.
draw() { # MODEL OPTIONS...
    if drawn 3; then expect_memory "$@"; fi
}
draw gpt-1m --seq-length 128 --micro-batch-size 8
draw llama-1m --seq-length 1024 --micro-batch-size 2 --bf16 \
    --recompute-granularity selective
draw gpt-5m --seq-length 256 --micro-batch-size 16 --bf16 \
    --recompute-granularity full --save "$work/run" --eval-interval 1 \
    --eval-iters 1 --log "$work/log" --tensorboard-dir "$work/board"
draw llama-21m --seq-length 256 --micro-batch-size 4 \
    --recompute-granularity selective
draw llama-31m --seq-length 512 --micro-batch-size 1 \
    --global-batch-size 2 --bf16
draw gpt-124m --seq-length 1024 --micro-batch-size 1 --bf16 \
    --recompute-granularity full
finish
