#!/usr/bin/env bash
# Versions, predictions and averages of weights are memory that is told before
# the first step, within 2 % on every rank. PEN_SEED chooses two or three of seven schedules;
# PEN_LONG=1 has all.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ] ||
    ! command -v mpiexec >/dev/null; then
    echo "penstock-train is not built, or mpiexec is missing; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive
# Words of Open MPI, which others do not read.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none

cat >"$work/config.json" <<'END'
{"model_type": "llama", "vocab_size": 8000, "hidden_size": 384,
 "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 2,
 "num_key_value_heads": 1, "max_position_embeddings": 32,
 "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
END
for i in 1 2 3 4 5 6 7 8; do
    seq -s ' ' "$i" 7 $((i + 112))
done >"$work/ids.txt"

# expect_memory SCHEDULE OPTIONS...
expect_memory() {
    drawn 3 || return 0
    line="penstock train --schedule $*"
    mpiexec -n 2 "$PENSTOCK" train --model "$work/config.json" --threads 1 --peak-tflops 0.05 \
        --token-ids "$work/ids.txt" --train-iters 6 --lr 1e-4 --clip-grad 0 \
        --pipeline-model-parallel-size 2 --schedule "$@" \
        >"$work/out" 2>"$work/err" || fail "exit code $?"
    python3 - "$work/err" >"$work/out" <<'END'
import json, re, sys
found = re.findall(r"memory of rank \d was .* ([-+][0-9.]+) %",
                   open(sys.argv[1]).read())
print(json.dumps([float(share) for share in found]))
END
    echo "$line: $(json d) %"
    same "both ranks" "$(json '[abs(share) <= 2 for share in d]')" \
        "[True, True]"
}

expect_memory pipedream
expect_memory pipedream-2bw --global-batch-size 4
expect_memory pipemare --global-batch-size 4
expect_memory xpipe --global-batch-size 4
expect_memory pb --optimizer sgd
expect_memory cyclic --global-batch-size 2
expect_memory timeprest --global-batch-size 4
finish
