#!/usr/bin/env bash
# Penstock from end to end: a small GPT is planned for two ranks, trained,
# killed, resumed on another layout to the same bits, and writes; then Llama 3.1
# with 405 billion parameters is planned for 16,384 GPUs, disturbed in
# simulation, and handed to those who would run it.
#
#   examples/tour.sh [--short] [FOLDER]
#
# FOLDER gets everything that is made, pictures, too; it must not hold a tour
# already. Ten minutes on two cores; one with --short, which makes the network
# tiny. Needs what trains (Open MPI), what simulates (SimGrid) and pgrep.
# PENSTOCK is the program, TEXT another book, and PARTS what to see, of "train
# plan simulate export"; the last two need what plan leaves.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
is_short=
if [ "${1:-}" = --short ]; then
    is_short=yes
    shift
fi
folder=${1:-tour}
text=$(realpath "${TEXT:-$here/shakespeare/input.txt}")
penstock=$(command -v "${PENSTOCK:-penstock}") || {
    echo "tour: no penstock; PENSTOCK=build/release/penstock names it" >&2
    exit 1
}
penstock=$(realpath "$penstock")
parts=${PARTS:-train plan simulate export}

penstock() {
    "$penstock" "$@"
}
mpirun=("$(command -v mpirun.openmpi || echo mpirun)")
[ "$(id -u)" != 0 ] || mpirun+=(--allow-run-as-root --oversubscribe)
together() { # COMMAND OPTIONS...: of penstock, on two ranks
    "${mpirun[@]}" -n 2 "$penstock" "$@"
}

# ---- what must not stay behind ----

launcher= # of the training that runs in the background
end_training() {
    [ -n "$launcher" ] || return 0
    kill "$launcher" 2>/dev/null || true
    wait "$launcher" 2>/dev/null || true # mpirun ends its ranks first
    launcher=
}
trap end_training EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- what is told ----

step=0
say() { # WORDS...: what comes
    step=$((step + 1))
    printf '\n%d. %s\n' "$step" "$*"
}

tell() { # COMMAND...: as it could be typed
    local word words=
    for word; do
        case $word in
        together) word="mpirun -n 2 penstock" ;;
        *[\ \*\|]*) word="'$word'" ;;
        esac
        words+=" $word"
    done
    printf '\n   $%s\n' "$words"
}

# Lines as they come, not too wide.
indent() {
    sed -u 's/^\(.\{170\}\).*/\1 .../; s/^/   /'
}

run() { # COMMAND...: with all that it prints
    tell "$@"
    "$@" 2>&1 | indent
}

# With the first lines of what it prints; all of them are in NAME.txt.
glance() { # NAME LINES COMMAND...
    tell "${@:3}"
    "${@:3}" >"$1.txt" 2>&1 || {
        cat "$1.txt"
        return 1
    }
    head -n "$2" "$1.txt" | indent
    [ "$(wc -l <"$1.txt")" -le "$2" ] || echo "   ... all in $1.txt"
}

fail() { # WORDS...
    echo "tour: $*" >&2
    exit 1
}

expect() { # PATTERN FILE: what the file must have
    grep -Eq -- "$1" "$2" || fail "$2 has no '$1'"
}

is_picture() { # FILE...
    local file
    for file; do
        expect '</svg>' "$file"
        echo "   see $PWD/$file"
    done
}

# The first number of this name in a file of JSON.
number_of() { # FILE NAME
    sed -n "/\"$2\": /{ s/.*\"$2\": \([0-9]*\).*/\1/p; q }" "$1"
}

# ---- a small GPT on two ranks ----

if [ -n "$is_short" ]; then
    shape='/n_positions/s/256/32/; /n_embd/s/256/64/; /n_layer/s/6/4/'
    num_steps=200 interval=40 highest_loss=3.2 sweep=1
else
    shape='/n_positions/s/256/128/'
    num_steps=500 interval=100 highest_loss=2.4 sweep=0.25
fi

read_book() {
    say "A book becomes tokens: every letter is one."
    glance letters 1 penstock tokenize --train-chars "$text" -o model
    run penstock tokenize "$text" --tokenizer model -o tokens
    local letters
    letters=$(sed -n 's/.*: \([0-9]*\) characters$/\1/p' letters.txt)
    sed "$shape; /vocab_size/s/65/$letters/" \
        "$here/shakespeare/config.json" >model/config.json
}

measure() {
    say "What can two ranks of this machine do, and how long do layers take?"
    run together cluster detect --threads 1 -o cluster.yaml
    run cat cluster.yaml
    glance profile 8 together profile --model model --micro-batch-size 1,2 \
        --recompute-granularity none --rounds 5 --threads 1 -o profile.json
    expect 'block +none' profile.txt
}

plan_small() {
    local job=(--model model --cluster cluster.yaml --profile profile.json
        --seq-length "$(number_of model/config.json n_positions)"
        --global-batch-size 16)
    say "The planner ranks the layouts of a training on them."
    glance plan 12 penstock plan "${job[@]}" -o best.json
    expect 'the best plan' plan.txt
    say "To see a schedule at work we take a pipeline of two ranks."
    glance predict 4 penstock predict "${job[@]}" --micro-batch-size 2 --pp 2 \
        --schedule zb-h1 -o pipeline.json
    expect 'bubble' predict.txt
}

# Seconds of half of the blocks and a micro-batch of 2, as they were measured.
measured_costs() {
    awk -v blocks="$(number_of model/config.json n_layer)" '
        $1 == 2 && $2 == "block" {
            sec = blocks / 2 / 1000
            printf "f=%.3g,i=%.3g,w=%.3g", $4 * sec, $5 * sec, $6 * sec
        }' profile.txt
}

look_at_schedule() {
    local name
    say "Its schedule, beside the usual one, with the times just measured."
    for name in 1f1b zb-h1; do
        run penstock schedule make "$name" --stages 2 --microbatches 8 \
            -o "$name.pen"
    done
    run penstock schedule check zb-h1.pen
    run penstock schedule draw 1f1b.pen zb-h1.pen --costs "$(measured_costs)" \
        -o schedule.svg
    is_picture schedule.svg
}

# What all trainings have, so that they compute the same.
training=(--model model --data-path tokens_text_document --split "90,10"
    --threads 1 --train-iters "$num_steps" --lr 2e-3 --lr-warmup-iters 20
    --log-interval $((num_steps / 10)) --save-interval "$interval")
pipeline=(--plan pipeline.json --profile profile.json --logical-replicas 2)

# Waits until a training has saved a step, and then kills one of its ranks.
kill_after() { # LAUNCHER CHECKPOINT
    until [ -d "$2" ]; do
        kill -0 "$1" 2>/dev/null || fail "the training ended early"
        sleep 0.1
    done
    pgrep -P "$1" penstock >ranks || fail "it ended before it was killed"
    kill -KILL "$(tail -n 1 ranks)"
}

progress() { # of what is read
    grep --line-buffered -E '^step |^penstock: (rank|resuming)' | indent
}

follow() { # NAME COMMAND...: its progress, and all of it in NAME.txt
    tell "${@:2}"
    "${@:2}" 2>&1 | tee "$1.txt" | progress
}

train_and_kill() {
    local first killer
    first=run/step-$(printf '%08d' "$interval")
    say "It trains on two ranks; after step $interval we kill one of them."
    tell together train "${training[@]}" "${pipeline[@]}" --save run \
        --log run.jsonl
    : >killed.txt # tail may be faster than the shell that writes it
    "${mpirun[@]}" -n 2 "$penstock" train "${training[@]}" "${pipeline[@]}" \
        --save run --log run.jsonl >killed.txt 2>&1 &
    launcher=$!
    kill_after "$launcher" "$first" &
    killer=$!
    # In the background, since bash obeys a signal only while it waits there.
    tail -n +1 -f --pid="$launcher" killed.txt | progress &
    wait "$!"
    wait "$killer"
    ! wait "$launcher" || fail "a job with a killed rank must not end well"
    launcher=
    expect 'rank [01] .*died \(signal (9|or exit unknown)\)' killed.txt
    run penstock checkpoint verify run
}

resume() {
    say "It goes on as two replicas with ZeRO-1, without a pipeline."
    follow resumed together train "${training[@]}" --micro-batch-size 2 \
        --global-batch-size 16 --use-distributed-optimizer --load run \
        --save run --log run.jsonl
    expect 'resuming after step' resumed.txt
    expect "^step $num_steps/" resumed.txt
}

compare_bits() {
    say "The same training without interruption, and recorded."
    follow whole together train "${training[@]}" "${pipeline[@]}" \
        --save whole --run recorded
    say "Both end with the same bits."
    tell penstock checkpoint hash run whole
    penstock checkpoint hash run whole >hashes.txt
    indent <hashes.txt
    awk '{ hash[NR] = $1 } END { exit NR != 2 || hash[1] != hash[2] }' \
        hashes.txt || fail "the bits are not the same"
}

look_at_run() {
    say "What was predicted of a step, and what every rank did in it."
    glance view 12 penstock view recorded/trace -o measured.svg
    expect 'predicted' view.txt
    say "How it learnt."
    run penstock plot run.jsonl -o curves.svg
    is_picture measured.svg curves.svg
    say "Both trainings on one page, for the browser, and what to do about them."
    glance report 14 penstock report recorded run.jsonl
    expect 'recorded .* 2 ' report.txt
    run penstock report recorded run.jsonl -o report.html
    expect '</html>' report.html
    echo "   see $PWD/report.html"
}

let_it_write() {
    local loss
    say "It has learnt to write, a little."
    glance eval 6 penstock eval --model run --data-path tokens_text_document \
        --split 90,10 --micro-batch-size 16
    loss=$(awk '/^loss/ { print $2 }' eval.txt)
    awk -v loss="$loss" -v most="$highest_loss" \
        'BEGIN { exit !(loss > 0 && loss <= most) }' ||
        fail "the loss must be at most $highest_loss, not '$loss'"
    run penstock generate --model run --prompt ROMEO: --temperature 0.8 \
        --max-tokens 200
}

# ---- a large one on 16,384 ----

plan_large() {
    say "Llama 3.1 405B on 16,384 H100: the best plans, without a single GPU."
    glance llama 16 penstock plan --model preset:llama-3.1-405b \
        --cluster 'preset:h100-sxm*16384' --seq-length 8192 \
        --global-batch-size 2048 --explain -o llama.json
    [ "$(number_of llama.json pp)" -gt 1 ] || fail "405 B need a pipeline"
    say "Why its neighbours lose: ms more in a step, GiB more, or a rule."
    sed -n '/^neighbouring plans/,$p' llama.txt >neighbours.txt
    awk '/^the step/ { is_all = 1 }
        is_all || $1 != last { print }
        { last = $1 }' neighbours.txt | indent
    expect 'needs .* GiB on rank' neighbours.txt
}

# Two replicas, for all take many minutes; what a slow rank costs its own
# pipeline is the same. Each of the two holds more of the optimizer, so they
# are on H200, the same chip with more memory.
simulate_slow_rank() {
    local name devices=2 degrees=()
    for name in tp cp pp; do
        devices=$((devices * $(number_of llama.json "$name")))
        degrees+=("--$name" "$(number_of llama.json "$name")")
    done
    say "Two of its replicas, on H200, in simulation; a rank computes twice as long."
    glance replicas 2 penstock predict --model preset:llama-3.1-405b \
        --cluster "preset:h200*$devices" --seq-length 8192 \
        --global-batch-size $((2 * 2048 / $(number_of llama.json dp))) \
        --micro-batch-size "$(number_of llama.json micro_batch)" \
        "${degrees[@]}" --vpp "$(number_of llama.json vpp)" \
        --use-distributed-optimizer -o replicas.json
    glance slow 12 penstock simulate --plan replicas.json --steps 1 \
        --slow-rank 3=2.0
    expect 'with the disturbance it takes .* 1\.[0-9]+ times as long' slow.txt
    expect 'Rank 3 .*computes [12]\.[0-9] times as long' slow.txt
    say "And with one from as fast as the others to three times as slow."
    glance sweep 13 penstock simulate --plan replicas.json --steps 1 \
        --sweep "slow-rank=3@1:3:$sweep" --plot slow.svg
    is_picture slow.svg
}

export_large() {
    say "The plan as options of Megatron-LM and of torchtitan."
    glance megatron 4 penstock export llama.json --to megatron -o megatron
    run grep -E 'parallel-size|virtual|distributed' megatron/megatron.args
    expect "tensor-model-parallel-size $(number_of llama.json tp)" \
        megatron/megatron.args
    glance torchtitan 4 penstock export llama.json --to torchtitan \
        -o torchtitan
    run grep parallel torchtitan/torchtitan.args
    expect "tensor_parallel_degree.$(number_of llama.json tp)" \
        torchtitan/torchtitan.args
}

# ---- all of it ----

mkdir -p "$folder"
cd "$folder"
[ ! -e run ] || fail "$folder has a tour already"
for part in $parts; do
    case $part in
    train)
        read_book
        measure
        plan_small
        look_at_schedule
        train_and_kill
        resume
        compare_bits
        look_at_run
        let_it_write
        ;;
    plan) plan_large ;;
    simulate) simulate_slow_rank ;;
    export) export_large ;;
    *) fail "no part '$part'; there are train, plan, simulate and export" ;;
    esac
done
printf '\nThat was the tour, in %d seconds; what it made is in %s\n' \
    "$SECONDS" "$PWD"
