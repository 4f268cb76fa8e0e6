#!/usr/bin/env bash
# Measures again what README and docs state of time, one part after the other,
# and leaves what each command printed in FOLDER/PART.txt; docs/figures.md has
# the results. What is no time is held by tests and needs no measuring.
#
#   bench/figures.sh FOLDER [PART...]
#
# An hour on two cores that have nothing else to do. The parts:
#   speed     train steps beside PyTorch           (PEN_JUDGES)
#   pipeline  two ranks beside PyTorch             (PEN_JUDGES)
#   readme    the training of README
#   tour      examples/tour.sh
#   images    examples/mnist/run.sh on MNIST       (MNIST: the folder)
#   large     what simulating many ranks costs
#   slow      replicas on a slow link              (root)
#   compress  bytes per second of compressors
#   board     what a rank pays for being watched
# SIZES are those of bench/train_ratio.py, all when not given. PEN_JUDGES is an
# environment made by tests/interop/setup-judges, TORCH the
# pipeline script that bench/pipeline_ratio.py takes.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: figures.sh FOLDER [PART...]}
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
build=$source/build/release
export PENSTOCK=$build/penstock
[ $# -gt 0 ] || set -- speed pipeline readme tour images large slow compress board

speed() {
    # shellcheck disable=SC2086
    "$source/bench/train_ratio.py" --build "$build" --python "$PEN_JUDGES/bin/python" --rounds 5 ${SIZES:-}
}

pipeline() {
    for size in "f32 128" "bf16 256"; do
        "$source/bench/pipeline_ratio.py" --penstock "$PENSTOCK" --torch "$TORCH" --rounds 5 \
            --python "$PEN_JUDGES/bin/python" --dtype "${size% *}" --seq "${size#* }"
    done
}

# The commands of "Train a GPT from a text", to the letter.
readme() {
    rm -rf "$folder/readme"
    mkdir "$folder/readme"
    cd "$folder/readme"
    cp "$source/examples/shakespeare/input.txt" .
    sed -n '/^Then, with any text/,/^This takes/p' "$source/README.md" |
        sed -n "/^    /{ s///; s,examples/,$source/examples/,; s,^penstock,$PENSTOCK,; p }" >commands
    time bash -ex commands
}

tour() {
    rm -rf "$folder/tour"
    "$source/examples/tour.sh" "$folder/tour"
}

images() {
    time "$source/examples/mnist/run.sh" "${MNIST:?the folder with its files}" "$folder/mnist"
}

large() {
    for devices in 1024 4096 16384; do
        "$PENSTOCK" predict --model preset:llama-3.1-8b --cluster "preset:h100-sxm*$devices" \
            --seq-length 8192 --global-batch-size $((2 * devices)) --pp 8 --dp $((devices / 8)) \
            -o "$folder/ranks.json" >/dev/null
        time "$PENSTOCK" simulate --plan "$folder/ranks.json" --steps 1
    done
}

slow() {
    "$source/bench/slow_link.py" --folder "$folder/slow" --micro-batch-size 1 --sync-steps 20 \
        --steps 300 --eval-interval 10 \
        "--sync streaming-diloco --sync-interval 20 --sync-option delay=2 lr=1 momentum=0 --compress int4" \
        "--sync diloco --sync-interval 20 --compress int4" \
        "--sync diloco --sync-interval 20"
}

compress() {
    for members in 2 4; do "$build/bench/compress" -n $members -r 7; done
}

board() {
    "$build/bench/watch_board"
}

for part; do
    echo "$part, $(date '+%F %T')"
    { date '+%F %T'; "$part"; date '+%F %T'; } >"$folder/$part.txt" 2>&1 ||
        { tail -n 20 "$folder/$part.txt"; exit 1; }
done
