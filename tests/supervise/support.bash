# What the tests of penstock supervise share: a training of 4 ranks that resumes
# from its folder, its processes, and what it must not leave behind.
# Needs `build`, the build folder.
. "$(dirname "${BASH_SOURCE[0]}")/../mpi/support.bash"
unset OMPI_MCA_btl_vader_backing_directory # shared memory where users have it

cat >"$work/config.json" <<'J'
{"model_type": "gpt2", "n_embd": 32, "n_layer": 6, "n_head": 2,
 "n_positions": 32, "vocab_size": 97}
J

# The words of a launch. A later one of a run loads what the others saved.
cat >"$work/launch" <<'R'
#!/usr/bin/env bash
steps=$1 run=$2
load=()
if [ "${PENSTOCK_EPOCH:-1}" != 1 ] && ls "$run"/step-* >/dev/null 2>&1; then
    load=(--load "$run")
fi
exec $LAUNCHER -n 4 "$PENSTOCK" train --model "$WORK/config.json" \
    --token-ids "$WORK/ids.txt" --micro-batch-size 1 --global-batch-size 64 \
    --train-iters "$steps" --lr 1e-2 --threads 1 --log-interval 1 --pp 4 \
    --save "$run" --save-interval 1 --save-keep 3 "${load[@]}"
R
chmod +x "$work/launch"
export LAUNCHER="${mpirun[*]}" PENSTOCK WORK=$work

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
await_step() { # RUN STEP
    for _ in $(seq $((1200 * ${PEN_SLOWNESS:-1}))); do
        [ "$(newest_step "$1")" -ge "$2" ] 2>/dev/null && return
        sleep 0.05
    done
    fail "step $2 does not come"
    return 1
}

# Shared memory and session folders of MPI, and our boards.
leftovers() {
    ls /dev/shm | grep -E '^(vader_segment|sm_segment|penstock-)' | sed 's,^,/dev/shm/,'
    find "$TMPDIR" -mindepth 2 -maxdepth 2 -name 'pid.*'
}

# The events of a run: a filter in Python over each of them.
events() { # FILE EXPRESSION
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    value = eval(sys.argv[2])
    if value is not None:
        print(value)' "$1" "$2"
}
