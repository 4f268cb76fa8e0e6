# What the tests of penstock supervise share: a training of 4 ranks that resumes
# from its folder, its processes, and what it must not leave behind.
# Needs `build`, the build folder.
. "$(dirname "${BASH_SOURCE[0]}")/../mpi/support.bash"
unset OMPI_MCA_btl_vader_backing_directory # shared memory where users have it

cat >"$work/config.json" <<'J'
{"model_type": "gpt2", "n_embd": 32, "n_layer": 6, "n_head": 2,
 "n_positions": 32, "vocab_size": 97}
J

# A training of 4 ranks: supervised OPTIONS... -- STEPS RUN
train_words() { # STEPS RUN
    echo "${mpirun[@]}" -n 4 "$PENSTOCK" train --model "$work/config.json" \
        --token-ids "$work/ids.txt" --micro-batch-size 1 --global-batch-size 64 \
        --train-iters "$1" --lr 1e-2 --threads 1 --log-interval 1 --pp 4 \
        --peak-tflops 0.1 --save "$2" --save-interval "${interval:-5}" --save-keep 3
}

# Processes below one, one number per line; the last argument filters names.
descendants() { # PID [NAME]
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v root="$1" -v name="${2:-.}" '
        { match($0, /\(.*\)/); comm = substr($0, RSTART + 1, RLENGTH - 2)
          split(substr($0, RSTART + RLENGTH + 1), rest, " ")
          parent[$1] = rest[2]; state[$1] = rest[1]; names[$1] = comm }
        END { for (pid in parent) {
                  if (state[pid] == "Z" || names[pid] !~ name) continue
                  for (up = pid; up > 1 && up != root; up = parent[up]);
                  if (up == root && pid != root) print pid } }' |
        sort -n
}
ranks_of() { descendants "$1" '^penstock-train$'; }
launcher_of() { descendants "$1" '^(mpirun|orterun|mpiexec)' | tail -1; }

newest_step() { # RUN
    ls "$1" 2>/dev/null | sed -n 's/^step-0*//p' | sort -n | tail -1
}
# Of the standard output in the work folder.
await_step() { # STEP
    for _ in $(seq $((1200 * ${PEN_SLOWNESS:-1}))); do
        [ "$(sed -n 's,^step \([0-9]*\)/.*,\1,p' "$work/out" | tail -1)" -ge "$1" ] 2>/dev/null && return
        kill -0 "$supervisor" 2>/dev/null || break
        sleep 0.05
    done
    fail "step $1 does not come"
    return 1
}

# Shared memory and session folders of MPI, and our boards, that no process uses.
leftovers() {
    local file
    for file in /dev/shm/vader_segment.* /dev/shm/sm_segment.* /dev/shm/penstock-*; do
        [ ! -e "$file" ] || grep -qsF "$file" /proc/[0-9]*/maps || echo "$file"
    done
    find "$TMPDIR" -mindepth 2 -maxdepth 2 -name 'pid.*'
}

# The events of a run: a filter in Python over each of them.
events() { # FILE EXPRESSION
    python3 -IS -c 'import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    value = eval(sys.argv[2])
    if value is not None:
        print(value)' "$1" "$2"
}

# A plan for DP x PP ranks, as the file plan-RANKS.json of the work folder.
plan() { # DP PP MICROBATCHES SCHEDULE SHARDING COUNT...
    [ -e "$work/any.json" ] || "$PENSTOCK" plan "$work/config.json" 4xh100 --seq-length 16 \
        -o "$work/any.json" >/dev/null 2>&1 || fail "no plan"
    python3 - "$work/any.json" "$work/plan-$(($1 * $2)).json" "$@" <<'P'
import json, sys
found, out, dp, pp, microbatches, schedule, sharding, *counts = sys.argv[1:]
first, stages = 0, []
for count in map(int, counts):
    stages.append({"first": first, "count": count, "recompute": "none"})
    first += count
json.dump({
    "format": "penstock-plan", "version": 1,
    "model": {"name": "tiny", "sha256": json.load(open(found))["model"]["sha256"]},
    "workload": {"sequence": 16, "dtype": "f32"},
    "degrees": {"dp": int(dp), "tp": 1, "pp": int(pp), "vpp": 1, "cp": 1, "ep": 1},
    "micro_batch": 1, "microbatches": int(microbatches), "stages": stages,
    "schedule": {"name": schedule}, "sharding": sharding,
    "logical_replicas": 4, "seed": 1234}, open(out, "w"))
P
}
