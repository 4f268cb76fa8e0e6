#!/usr/bin/env bash
# Three islands train one small model on this machine, twice: once undisturbed,
# and once while one island starts late, one is killed, one is silent for longer
# than the patience, and the coordinator is killed. Both runs end with the same
# weights, bit for bit.
#
#   examples/islands.sh [FOLDER]
#
# FOLDER gets everything that is made; it must not exist. A minute on two cores.
# PENSTOCK is the program; four ports from PORT (7070) on are used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-islands}
port=${PORT:-7070}
penstock=$(command -v "${PENSTOCK:-penstock}") || {
    echo "islands: no penstock; PENSTOCK=build/release/penstock names it" >&2
    exit 1
}
penstock=$(realpath "$penstock")
[ ! -e "$folder" ] || {
    echo "islands: $folder exists already" >&2
    exit 1
}
mkdir -p "$folder/keys"
cd "$folder"
export OMP_NUM_THREADS=1
names=(amsterdam berlin cairo)
declare -A processes

# A process that is stopped takes no other signal than KILL.
end_all() {
    for name in "${!processes[@]}"; do
        kill -KILL "${processes[$name]}" 2>/dev/null || true
        wait "${processes[$name]}" 2>/dev/null || true
    done
    processes=()
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- a model, and the bytes of a book as its tokens ----

cat >model.json <<'END'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256,
 "max_position_embeddings": 64, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
 "tie_word_embeddings": false}
END
head -c 130000 "$here/shakespeare/input.txt" | od -An -v -tu1 -w65 >tokens.txt

# ---- a key for each node; the folder of public keys is the same for all ----

"$penstock" ring key coordinator.key --address "127.0.0.1:$port" >keys/coordinator-0.pub 2>keys.err
for i in 0 1 2; do
    "$penstock" ring key "${names[i]}.key" --address "127.0.0.1:$((port + 1 + i))" >"keys/island-$i-${names[i]}.pub" 2>>keys.err
done

coordinate() { # RUN
    "$penstock" ring coordinate --listen "127.0.0.1:$port" --key coordinator.key --keys keys --quorum 3 --patience 2s \
        --store "journal:$1/ring.journal" >>"$1/coordinator.txt" 2>&1 &
    processes[coordinator]=$!
}

train() { # RUN NAME
    mkdir -p "$1/$2"
    "$penstock" train --model model.json --token-ids tokens.txt --micro-batch-size 2 --global-batch-size 12 --train-iters 120 --lr 3e-3 \
        --threads 1 --sync diloco --sync-interval 10 --ring "127.0.0.1:$port" --island "$2" --key "$2.key" --patience 2s --save "$1/$2" \
        >>"$1/$2.txt" 2>&1 &
    processes[$2]=$!
}

committed() { # RUN: rounds so far
    "$penstock" ring show "journal:$1/ring.journal" 2>/dev/null | grep -oE 'round [0-9]+' | head -1 | grep -oE '[0-9]+' || echo 0
}

until_round() { # RUN NUMBER
    local i
    for ((i = 0; i < 1200; i++)); do
        [ "$(committed "$1")" -lt "$2" ] || return 0
        sleep 0.1
    done
    echo "islands: round $2 of $1 is not committed; see $folder/$1/*.txt" >&2
    exit 1
}

kill_one() { # NAME
    kill -KILL "${processes[$1]}"
    wait "${processes[$1]}" 2>/dev/null || true
}

finish() { # RUN
    for name in "${names[@]}"; do
        wait "${processes[$name]}" || {
            echo "islands: $name ended with an error; see $folder/$1/$name.txt" >&2
            exit 1
        }
        unset "processes[$name]"
    done
    end_all
    for name in "${names[@]}"; do
        sha256sum "$1/$name/step-00000120/model.safetensors" | cut -c1-64
    done | sort -u >"$1/hash.txt"
    echo "$1: $(committed "$1") rounds, weights $(cut -c1-16 "$1/hash.txt")..."
}

# ---- undisturbed ----

mkdir calm
coordinate calm
for name in "${names[@]}"; do train calm "$name"; done
finish calm

# ---- disturbed ----

mkdir disturbed
coordinate disturbed
train disturbed amsterdam
train disturbed berlin
sleep 1
echo "cairo joins after the others"
train disturbed cairo
until_round disturbed 2
echo "amsterdam is killed, and starts again"
kill_one amsterdam
train disturbed amsterdam
until_round disturbed 4
echo "berlin is silent for 4 s, twice the patience"
kill -STOP "${processes[berlin]}"
sleep 4
kill -CONT "${processes[berlin]}"
until_round disturbed 6
echo "the coordinator is killed, and starts again"
kill_one coordinator
coordinate disturbed
finish disturbed

[ "$(wc -l <calm/hash.txt)" = 1 ] && cmp -s calm/hash.txt disturbed/hash.txt || {
    echo "islands: the weights differ" >&2
    exit 1
}
echo "both runs ended with the same weights on all islands"
