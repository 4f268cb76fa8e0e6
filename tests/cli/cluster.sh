#!/usr/bin/env bash
# cluster lists what it has, shows what it can read back, says where a file is
# wrong, and measures this machine, alone and on several ranks and nodes.
. "$(dirname "$0")/support.bash"

run 0 cluster list
err_empty
for name in v100-16 a100-80 h100-sxm h200 b200 b300 gb200 gb300 mi300x mi355x rtx3080 xeon-amx \
    dgx-a100 dgx-h100 gb200-nvl72 gb300-nvl72 mi355x-node ethernet-25; do
    out_has "$name "
done
names=$(awk 'NF > 1 && !/^-/ && !/^(device|system) / { print $1 }' "$work/out" |
    grep -vE '^(preset|this)' | sort)
run 0 cluster list --json
same "names of --json" "$names" "$(json '"\n".join(sorted(
    [x["device"] for x in d["devices"]] + [x["system"] for x in d["systems"]]))')"
same "bytes of one" \
    "$(json '[x["memory_bytes"] for x in d["devices"] if x["device"] == "a100-80"]')" \
    "[85899345920]"
# What nvidia-smi reports as the total, 81559 MiB, and not 80 GiB.
same "bytes of an H100" \
    "$(json '[x["memory_bytes"] for x in d["devices"] if x["device"] in ("h100-sxm", "h100-pcie", "h800")]')" \
    "[85520809984, 85520809984, 85520809984]"
same "NVLink of an H800" "$(json '[x["levels"][0]["bytes_per_sec"] for x in d["systems"]
    if x["system"] in ("dgx-h100", "hgx-h800")]')" "[450000000000.0, 200000000000.0]"

# What is shown is a file.
for source in preset:h100-sxm*1024 preset:gb200-nvl72*4 preset:ethernet-10*3; do
    run 0 cluster show "$source"
    err_empty
    cp "$work/out" "$work/shown.yaml"
    run 0 cluster show "$work/shown.yaml"
    about "what $source shows"
    cmp -s "$work/out" "$work/shown.yaml" || fail "it reads back as another"
done
run 0 cluster check preset:dgx-h100*128
out_has "1024 devices of 1 kind, 2 levels of links"

# What is wrong has its place.
sed 's/count: 12/count: twelve/' "$work/shown.yaml" >"$work/wrong.yaml"
run 1 cluster check "$work/wrong.yaml"
out_empty
err_has "$work/wrong.yaml: line 5, column 12: count must be a whole number"
run 1 cluster show "$work/nothing.yaml"
err_has "$work/nothing.yaml"
run 1 cluster show preset:h101
err_has "there is no preset 'h101'; did you mean h100? Expected one of v100-16"
run 1 cluster show preset:host
err_has "penstock cluster detect"
run 2 cluster
err_has "Usage: penstock cluster"
run 2 cluster detct
err_has "did you mean cluster detect"
run 2 cluster show
err_has "expected SOURCE"
run 2 cluster list more
err_has "unexpected argument 'more'"

if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    finish
    exit
fi
export OMP_WAIT_POLICY=passive

# figure KEY FILE: the first number under this key, without its unit.
figure() {
    python3 - "$1" "$2" <<'P'
import re, sys
units = {"us": 1e-6, "ns": 1e-9, "ms": 1e-3, "s": 1, "TiB": 2**40,
         "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1, "TB/s": 1e12,
         "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1, "TFLOP/s": 1e12,
         "GFLOP/s": 1e9, "MFLOP/s": 1e6, "FLOP/s": 1}
found = re.search(sys.argv[1] + r": ([0-9.e+-]+) ?([A-Za-z/]*)",
                  open(sys.argv[2]).read())
print(float(found[1]) * units[found[2]])
P
}
within() { # WHAT VALUE LEAST MOST
    awk -v x="$2" -v a="$3" -v b="$4" 'BEGIN { exit !(x >= a && x <= b) }' ||
        fail "$1 is $2, expected $3 to $4"
}
sane() { # FILE RANKS
    local memory
    memory=$(awk '/^MemTotal/ { print 1024 * $2 }' /proc/meminfo)
    within "speed in f32" "$(figure f32 "$1")" 1e8 1e15
    within memory "$(figure memory "$1")" 1e6 "$(awk "BEGIN { print $memory / $2 }")"
    within "bandwidth of memory" "$(figure bandwidth "$1")" 1e8 1e13
}

run 0 cluster detect --threads 1 -o "$work/one.yaml"
err_empty
out_empty
sane "$work/one.yaml" 1
run 0 cluster check "$work/one.yaml"
out_has "1 device of 1 kind, 1 level of links"

# On a terminal it says how far it is; three parts take longer than a moment.
about "progress"
python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' \
    "$PENSTOCK" cluster detect --threads 1 -o "$work/one.yaml" \
    >"$work/out" 2>"$work/err" </dev/null || fail "exit code $?"
out_has "3 of 3 parts"

run 2 cluster detect --threads 0
err_has "--threads must be a whole number from 1 to 4096"
run 2 cluster detect more
err_has "more"
run 1 cluster detect --threads 1 -o "$work/no/c.yaml"
err_has "$work/no/c.yaml"

if ! command -v mpirun >/dev/null; then
    finish
    exit
fi
# Open MPI leaks, which is not ours to tell.
export ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none
# Of processes that a launcher of another library started one says so.
MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_RANK=0 run 1 cluster detect
err_has "started 4 processes that do not find each other"
MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_RANK=1 run 1 cluster detect
err_empty

about "two ranks"
mpirun -n 2 "$PENSTOCK" cluster detect --threads 1 -o "$work/two.yaml" \
    >"$work/out" 2>"$work/err" || fail "exit code $?"
sane "$work/two.yaml" 2
sed -n '/^links/,$p' "$work/two.yaml" >"$work/links"
within "bandwidth of the link" "$(figure bandwidth "$work/links")" 1e8 1e12
within "latency of the link" "$(figure latency "$work/links")" 1e-8 1
run 0 cluster check "$work/two.yaml"
out_has "2 devices of 1 kind, 1 level of links"

# Ranks that share cores are told so.
cores=$(nproc --all)
if [ "$cores" -le 4 ]; then
    about "more ranks than cores"
    mpirun -n $((cores + 1)) "$PENSTOCK" cluster detect --threads 1 \
        >"$work/out" 2>"$work/err" || fail "exit code $?"
    err_has "$((cores + 1)) ranks of 1 thread share"
    out_has "count: $((cores + 1))"
fi

# Ranks with another name of the host are on another node.
on_nodes() { # RANKS COMMAND: sets node from rank
    about "$1 ranks, $2"
    printf '#!/bin/sh\nrank=$OMPI_COMM_WORLD_RANK\n%s\n' "$2" >"$work/rank"
    printf 'exec unshare --uts sh -c "hostname node$node; exec %s %s"\n' \
        "$PENSTOCK" "cluster detect --threads 1 -o $work/nodes.yaml" \
        >>"$work/rank"
    chmod +x "$work/rank"
    mpirun -n "$1" "$work/rank" >"$work/out" 2>"$work/err" ||
        fail "exit code $?"
}
if mpirun --version | grep -q "Open MPI" && unshare --uts true 2>/dev/null; then
    on_nodes 4 'node=$((rank / 2))'
    run 0 cluster check "$work/nodes.yaml"
    out_has "4 devices of"
    out_has "2 levels of links"
    grep -q 'level: node, size: 2,' "$work/nodes.yaml" || fail "no node of 2"
    on_nodes 3 'node=$((rank / 2))'
    err_has "all links are treated as one level"
    run 0 cluster check "$work/nodes.yaml"
    out_has "3 devices of"
    out_has "1 level of links"
fi
finish
