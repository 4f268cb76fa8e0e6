#!/usr/bin/env bash
# partition cuts each kind of file that it is told, prints stages and says what
# is wrong.
. "$(dirname "$0")/support.bash"

figures() { # FORWARD BACKWARD ACTIVATION PARAMETER
    echo "forward_compute_time=$1, backward_compute_time=$2, activation_size=$3, parameter_size=$4"
}
{
    echo "in -- Input0 -- $(figures 0 0 0 0)"
    for i in 1 2 3 4; do
        echo "n$i -- Linear -- $(figures 1.0 2.0 1000.0 1000000.0)"
    done
    printf '\tin -- n1\n\tn1 -- n2\n\tn2 -- n3\n\tn3 -- n4\n'
} >"$work/chain.txt"

# Reductions take longer than computing: one layer on each device.
run 0 partition "$work/chain.txt" --devices 4 --bandwidth 1e8
out_has "slowest stage 3 ms per micro-batch; one device 12 ms"
err_empty
run 0 partition "$work/chain.txt" --devices 4 --bandwidth 1e8 --json
same "stages" "$(json 'len(d["stages"])')" 4
same "replicas" "$(json '[s["replicas"] for s in d["stages"]]')" "[1, 1, 1, 1]"
same "stages of nodes" "$(json 'd["node_stages"]')" "[0, 0, 1, 2, 3]"
same "seconds" "$(json 'round(d["stage_sec"], 9)')" 0.003

# Rates as people write them: each of these is 1e8 bytes a second.
cp "$work/out" "$work/plain"
for rate in 100MB/s 800Mb/s 800Mbit 0.8Gbps "0.8 Gb/s"; do
    run 0 partition "$work/chain.txt" --devices 4 --bandwidth "$rate" --json
    cmp -s "$work/out" "$work/plain" || fail "another partition than with 1e8"
done
for rate in 1Gb/s/s -1Gb/s 1e308Tb/s 1GB; do
    run 2 partition "$work/chain.txt" --devices 4 --bandwidth "$rate"
    err_has "--bandwidth must be 1 to 4 numbers"
done
run 2 partition "$work/chain.txt" --devices 4kB --bandwidth 1e8
err_has "--devices must be 1 to 4 numbers"

# A fast network: all devices are replicas, unless that is not wanted.
run 0 partition "$work/chain.txt" --devices 3 --bandwidth 1e12 --json
same "replicas" "$(json '[s["replicas"] for s in d["stages"]]')" "[3]"
run 0 partition "$work/chain.txt" --devices 2,2 --bandwidth 1e12,1e12 --straight --json
same "levels" "$(json 'sorted(set(s["level"] for s in d["stages"]))')" "[0, 1]"
same "stages" "$(json 'sum(s["level"] == 0 for s in d["stages"])')" 4

# What goes from stage to stage counts, and may be left out.
run 0 partition "$work/chain.txt" --devices 4 --bandwidth 2e5 --json
same "with transfers" "$(json 'd["stage_sec"] > 0.0099')" True
run 0 partition "$work/chain.txt" --devices 4 --bandwidth 2e5 --no-transfers --json
same "without" "$(json 'round(d["stage_sec"], 9)')" 0.003
run 1 partition "$work/chain.txt" --devices 4 --bandwidth 1e8 --straight --memory-limit 10
err_has "no stages fit in 10 bytes of memory"
run 1 partition "$work/chain.txt"
err_has "needs --devices and --bandwidth with the same number of levels"
run 1 partition "$work/chain.txt" --devices 4,2 --bandwidth 1e8
err_has "with the same number of levels"

cat >"$work/placement.json" <<'END'
{"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [
  {"id": 1, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 5, "isBackwardNode": 0, "size": 40},
  {"id": 2, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0, "size": 40},
  {"id": 3, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0, "size": 40}],
 "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}, {"sourceId": 2, "destId": 3, "cost": 0.25}]}
END
run 0 partition "$work/placement.json"
out_has "largest load 6.5; no placement has less"
run 0 partition "$work/placement.json" --devices 3 --json
same "load" "$(json 'd["load"]')" 5.5
same "stages of nodes" "$(json 'd["node_stages"]')" "[0, 1, 2]"
run 1 partition "$work/placement.json" --memory-limit 30
err_has "no placement on 2 devices with 30 bytes each"
run 1 partition "$work/placement.json" --bandwidth 1e9
err_has "are for PipeDream profiles only"

mode() { # SECONDS IN OUT
    echo "{\"id\": \"vanilla\", \"timePerSample\": $1, \"parameterSize\": 0, \"memoryUsageA\": 1, \"memoryUsageB\": 1, \"syncTimeFw\": {$2}, \"syncTimeBw\": {$3}}"
}
cat >"$work/piper.json" <<END
{"maxDevices": 2, "maxMemoryPerDevice": 3, "bandwidth": 1e9, "mbsInBatch": 4, "nodes": [
  {"id": 0, "TMPCs": {"1": [$(mode 0.5 "" '"1": 0')]}},
  {"id": 1, "TMPCs": {"1": [$(mode 0.25 '"0": 0' "")]}}],
 "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 0}]}
END
run 0 partition "$work/piper.json" --json
same "memory for one node" "$(json 'len(d["stages"])')" 2
same "seconds" "$(json 'd["stage_sec"]')" 0.5
run 0 partition "$work/piper.json" --memory-limit 10
out_has "slowest stage 375 ms per micro-batch"
run 1 partition "$work/piper.json" --devices 1
err_has "nothing fits on 1 devices with 3 bytes each"

# Layers that are cut one by one: the examples are what their program writes.
root=$(cd "$(dirname "$0")/../.." && pwd)
python3 "$root/examples/layers/make.py" "$work"
for network in alexnet inception-v3 rnnlm transformer; do
    cmp -s "$work/$network.json" "$root/examples/layers/$network.json" ||
        fail "examples/layers/$network.json is not what make.py writes"
    run 0 partition "$root/examples/layers/$network.json" --devices 4 --json
    same "$network is faster than replicas and than any grid" \
        "$(json 'd["step_sec"] < d["grid_sec"] <= d["data_parallel_sec"]')" True
done
run 0 partition "$root/examples/layers/alexnet.json" --devices 8
out_has "fc6"
out_has "a step takes 13.1218 ms on 8 devices; data parallel 38.1897 ms (2.91 times as long), the best grid, 4 x 2, 24.1779 ms"
run 0 partition "$root/examples/layers/alexnet.json" --devices 1 --flops 5TFLOP/s --bandwidth 1GB/s --json
same "one device" "$(json 'd["step_sec"] == d["data_parallel_sec"] and d["grid"]')" "[1, 1]"
run 1 partition "$root/examples/layers/alexnet.json" --memory-limit 1GB
err_has "a file of layers takes one number of --devices"
run 1 partition "$root/examples/layers/alexnet.json" --devices 300
err_has "300 devices are more than 256"
run 1 partition "$work/piper.json" --flops 1e12
err_has "--flops is for a file of layers"
run 1 partition "$work/chain.txt" --devices 4 --bandwidth 1e8 --flops 1e12
err_has "--flops is for a file of layers"
run 2 partition "$root/examples/layers/alexnet.json" --flops fast
err_has "--flops must be operations per second, as"
sed 's/"from": "pool1"/"from": "pool9"/' "$work/alexnet.json" >"$work/wrong.json"
run 1 partition "$work/wrong.json"
err_has "nodes[2].inputs[0].from: 'pool9' is neither an earlier node nor this one"
sed 's/"dims": "b c n", "sizes": \[128, 4096/"dims": "b c n", "sizes": [128, 4095/' "$work/alexnet.json" >"$work/wrong.json"
run 1 partition "$work/wrong.json"
err_has "'c' has size 4095 and reads 4096 of 'fc6'; give the same size or a window"
sed 's/"whole": "w"/"whole": "w w"/' "$work/alexnet.json" >"$work/wrong.json"
run 1 partition "$work/wrong.json"
err_has "nodes[0].whole: each word must be one of dims, and occur once"

printf '{"maxFPGAs": 2' >"$work/bad.json"
run 1 partition "$work/bad.json"
err_has "$work/bad.json: line 1, column"
run 1 partition "$work/none.txt"
err_has "cannot open"
run 2 partition
err_has "expected FILE"
run 2 partition a b
err_has "unexpected argument 'b'"
run 2 partition "$work/chain.txt" --devices 1.5
err_has "--devices must be whole numbers"
run 2 partition "$work/chain.txt" --bandwidth 1,x
err_has "--bandwidth must be 1 to 4 numbers"
finish
