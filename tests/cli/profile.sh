#!/usr/bin/env bash
# profile writes a file of the format with every layer, pass and mode that was
# asked for, tells a summary, and refuses what cannot be measured.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive

mkdir "$work/tiny"
cat >"$work/tiny/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 64,
 "n_layer": 2, "n_head": 4}
END
tiny=(--model "$work/tiny" --threads 1 --micro-batch-size 2 --rounds 5)

# All modes, to standard output.
run 0 profile "${tiny[@]}"
err_empty
same format "$(json 'd["format"], d["version"]')" "('penstock-profile', 1)"
same workload "$(json 'd["micro_batch"], d["sequence"], d["rounds"]')" \
    "(2, 32, 5)"
same engine "$(json 'd["engine"]["name"], d["engine"]["dtype"],
    d["engine"]["threads"]')" "('onednn', 'f32', 1)"
same memory "$(json 'd["machine"]["memory_bytes"] // 1024')" \
    "$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)"
same layers "$(json 'list(d["layers"])')" "['embedding', 'block', 'head']"
same "modes and passes" "$(json '{(mode, key) for layer in d["layers"].values()
    for mode in ("none", "selective", "full") for key in "fiwb"
    if layer[mode][key] < 0 or layer[mode][key + "_spread"] < 0}')" "set()"
same "seconds of blocks" "$(json 'all(d["layers"]["block"]["none"][key] > 0
    for key in "fiwb")')" True
same "parameters of a block" "$(json 'd["layers"]["block"]["parameters"]')" \
    $((12 * 64 * 64 + 13 * 64))
same "boundary" "$(json 'd["layers"]["block"]["output_bytes"]')" \
    $((2 * 32 * 64 * 4))
same "what is kept" "$(json '[d["layers"]["block"][mode]["stash_bytes"]
    for mode in ("none", "selective", "full")] == sorted([
    d["layers"]["block"][mode]["stash_bytes"]
    for mode in ("none", "selective", "full")], reverse=True)')" True

# One mode, in bf16, to a file.
run 0 profile --model "$work/tiny/config.json" --seq-length 16 --bf16 \
    --threads 1 --rounds 5 --recompute-granularity full -o "$work/p.json"
err_empty
out_has "layer"
out_has "per million parameters:"
same "lines of the summary" "$(grep -c ' full ' "$work/out")" 3
cp "$work/p.json" "$work/out"
same "one mode" "$(json '[key for key in d["layers"]["head"]
    if key in ("none", "selective", "full")]')" "['full']"
same precision "$(json 'd["engine"]["dtype"], d["sequence"]')" "('bf16', 16)"

# Several sizes of micro-batches, each with its layers.
run 0 profile --model "$work/tiny" --threads 1 --rounds 5 \
    --recompute-granularity none --micro-batch-size 1,2,4 -o "$work/sizes.json"
same "lines of the summary" "$(grep -c ' none ' "$work/out")" 9
cp "$work/sizes.json" "$work/out"
same sizes "$(json 'd["micro_batch"], [s["micro_batch"] for s in d["more"]]')" \
    "(1, [2, 4])"
same "bytes of sizes" "$(json '[s["layers"]["block"]["none"]["stash_bytes"]
    // d["layers"]["block"]["none"]["stash_bytes"] for s in d["more"]]')" \
    "[2, 4]"
same "bytes of the program" "$(json 'd["program_bytes"] > 1e6')" True
for sizes in 0 2,1 1,1 1, ,1 1,x 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17; do
    run 2 profile "${tiny[@]}" --micro-batch-size $sizes
    err_has "up to 16 ascending numbers"
done

# Two ranks at the same time, and the link between them.
if command -v mpirun >/dev/null; then
    # Open MPI leaks, which is not ours to tell.
    export ASAN_OPTIONS=detect_leaks=0
    about "two ranks"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OMPI_MCA_rmaps_base_oversubscribe=1
    mpirun -n 2 "$PENSTOCK" profile "${tiny[@]}" \
        --recompute-granularity none >"$work/out" 2>"$work/err" ||
        fail "exit code $?"
    same ranks "$(json 'd["engine"]["ranks"]')" 2
    same link "$(json '0 < d["link"]["latency"] < 1 and
        d["link"]["bandwidth"] > 1e6')" True
    mpirun -n 2 "$PENSTOCK" profile "${tiny[@]}" --seq-length 33 \
        >"$work/out" 2>"$work/err" && fail "exit code 0"
    err_has "the model has 32 positions"
fi

# What cannot be measured.
run 2 profile
err_has "--model is required"
run 2 profile "${tiny[@]}" --rounds 4
err_has "--rounds must be a whole number from 5 to 1000"
run 2 profile "${tiny[@]}" --recompute-granularity some
err_has "none, selective, full or all"
run 2 profile "${tiny[@]}" --bf16 --engine reference
err_has "--bf16 needs --engine onednn"
run 1 profile "${tiny[@]}" --seq-length 33
err_has "the model has 32 positions"
run 1 profile --model "$work/nothing" --rounds 5
err_has "$work/nothing"
run 1 profile --model preset:llama-4-scout --rounds 5
err_has 'model_type "llama4_text" is for planning only'
mkdir "$work/huge"
cat >"$work/huge/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 262144,
 "n_layer": 16, "n_head": 64}
END
run 1 profile --model "$work/huge" --rounds 5
err_has "profiling needs more than 211"
err_has "MB, for parameters alone, but "
run 1 profile "${tiny[@]}" --recompute-granularity none -o "$work/no/p.json"
err_has "$work/no/p.json"
finish
