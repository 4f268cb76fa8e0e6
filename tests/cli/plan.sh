#!/usr/bin/env bash
# plan ranks layouts that fit, tells memory, reasons and what it left out, and
# writes a plan that check predicts as the same.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

xl=(--model preset:gpt2-xl --seq-length 1024)
a100=("${xl[@]}" --cluster "preset:a100-40*16" --global-batch-size 64)

# A ranking with the best plan in detail.
run 0 plan "${a100[@]}" --top 3 -o "$work/plan.json"
err_empty
out_has "the best plan: a step of"
out_has "memory in GiB (typical error"
out_has "asynchronous schedules (--allow-stale) would save at most"
out_has "replicas that rarely synchronise would save at most"
same "rows of the ranking" "$(grep -cE '^ *[1-3] +[0-9.]+ ' "$work/out")" 3

# What was found of an asynchronous schedule stands where it is proposed, and
# in the list of schedules, in one sentence; not beside synchronous plans.
stale=(--model preset:gpt2 --cluster "preset:xeon-amx*3" --target penstock
    --seq-length 512 --global-batch-size 8)
finding=$("$PENSTOCK" schedule list --json | python3 -c '
import json, sys
print(next(row["finding"] for row in json.load(sys.stdin)["schedules"]
           if row["name"] == "pipedream-2bw"))')
about "finding"
[[ $finding == *"penstock reproduce 2bw"*"% above that of synchronous steps"* ]] ||
    fail "the list has '$finding'"
run 0 plan "${stale[@]}" --allow-stale
out_has "pipedream-2bw: $finding"
run 0 plan "${stale[@]}"
out_lacks "reproduce 2bw"
out_has "sp: tp with sequence parallelism."
run 0 schedule list
out_has "$finding"

# The plan of the file is the first of the list, and predicted again the same.
run 0 plan "${a100[@]}" --top 3 --json
same plans "$(json 'len(d["plans"])')" 3
same order "$(json 'd["plans"] == sorted(d["plans"],
    key=lambda plan: plan["step_sec"])')" True
same fits "$(json 'all(plan["fits"] for plan in d["plans"])')" True
same target "$(json 'd["target"], d["dtype"]')" "('megatron', 'bf16')"
same "devices of the memory" "$(json '{sum(row["devices"]
    for row in plan["memory"]) == plan["devices"] for plan in d["plans"]}')" \
    "{True}"
same "seconds of the parts" "$(json 'all(
    abs(sum(plan["spent_sec"].values()) / plan["step_sec"] - 1) < 1e-6
    for plan in d["plans"])')" True
step=$(json 'd["plans"][0]["step_sec"]')
run 0 plan check "$work/plan.json" --json
same "predicted again" "$(json 'd["step_sec"]')" "$step"
run 0 plan check "$work/plan.json"
out_has "difference +0.0 %"

# Interleaved stages hold less than the search guesses: the faster plan came second.
run 0 plan --model preset:llama-3.1-70b --cluster 'preset:h200*64' --seq-length 8192 --global-batch-size 512 --top 15 --json
same "64 H200, in order" "$(json 'd["search"]["complete"], [p["step_sec"] for p in d["plans"]] ==
    sorted(p["step_sec"] for p in d["plans"])')" "(True, True)"

# A plan that does not fit is a no.
run 1 plan check "$work/plan.json" --memory-limit 3GiB
out_has "which does not fit"
run 1 plan check "$work/plan.json" --cluster "preset:a100-40*8"
err_has "the cluster has 8 devices"

# Reasons, less memory, fewer devices.
run 0 plan "${a100[@]}" --explain
out_has "neighbouring plans, and why they are worse"
out_has "less memory for more time"
out_has "with fewer devices"
out_has "the step is limited by computing"
out_has "gain from doubling one resource"
# Work is counted, not seconds: five answers, two of them under load, have the same bytes. Rows whose search
# was cut short say so.
torch=(--model preset:llama-3.1-8b --cluster 'preset:h100-sxm*32' --seq-length 4096 --global-batch-size 256 --target torchtitan)
for i in 1 2 3 4 5; do
    (( i < 4 )) || { "$PENSTOCK" plan "${torch[@]}" >/dev/null 2>&1 & }
    run 0 plan "${torch[@]}" --explain --seconds 0.02
    out_has "(search cut short)"
    cp "$work/out" "$work/explained.$i"
done
wait
same "answers that differ" "$(for i in 2 3 4 5; do cmp "$work/explained.1" "$work/explained.$i"; done)" ""
# Small, so that the best plan of many devices is also the best of fewer.
run 0 plan --model preset:gpt2 --cluster 'preset:h100-sxm*64' --seq-length 1024 --global-batch-size 64 --explain --json
same "each with fewer devices than the one before" "$(json '(lambda n: len(n) > 2 and all(a > b
    for a, b in zip(n, n[1:])))([x["devices"] for x in d["by_devices"]])')" True
run 0 plan "${a100[@]}" --explain --json
same "choices that were changed" "$(json '{row["changed"]
    for row in d["explanation"]["neighbours"]} >= {"tp", "pp", "micro-batch",
    "recomputation", "sharding"}')" True
same "no neighbour that may run is quicker" "$(json 'all(
    row["step_sec"] >= d["plans"][0]["step_sec"] * (1 - 1e-9)
    for row in d["explanation"]["neighbours"] if row["fits"] and
    row["allowed"])')" True
same "all others have a reason" "$(json 'all(row["reason"]
    for row in d["explanation"]["neighbours"]
    if not (row["fits"] and row["allowed"]))')" True
same "front" "$(json '[plan["peak_bytes"] for plan in d["front"]] == sorted(
    (plan["peak_bytes"] for plan in d["front"]), reverse=True)')" True

# Replicas that talk otherwise: not where links are fast, but between hosts that
# are far apart, one replica on each.
run 0 plan "${a100[@]}" --top 1 --allow-local
out_has "advice: allreduce; nothing else is faster by a tenth"
cat >"$work/hosts.yaml" <<'END'
name: four-hosts
devices:
  - kind: xeon-amx
    count: 4
    flops: {f32: 7.168 TFLOP/s, bf16: 114.688 TFLOP/s}
    memory: 512 GiB
    bandwidth: 307.2 GB/s
links:
  - {level: network, bandwidth: 100 Mbit/s, latency: 20 ms}
END
hosts=(--model preset:gpt2 --cluster "$work/hosts.yaml" --seq-length 256
    --global-batch-size 16 --top 1)
run 0 plan "${hosts[@]}" --allow-local --html "$work/hosts.html"
out_has "methods to synchronise 4 replicas over network, each"
out_lacks "advice: allreduce;"
out_has "the best plan with synchronisation at every step:"
grep -q "Methods to synchronise replicas" "$work/hosts.html" ||
    fail "the report lacks the section"
run 0 plan "${hosts[@]}" --allow-local --mtbf 1h --restart-sec 300 --json
same "one island of four stops at a time" "$(json '
    {x["islands"]: x["goodput"] for x in d["sync"]["methods"] if
     x["method"] in ("diloco", "allreduce") and x["compressor"] is None}' |
    python3 -c 'd = eval(input()); print(sorted(d) == [0, 4], d[4] > d[0] + 0.02)')" \
    "True True"
same "failures are those of all devices" "$(json 'd["sync"]["mtbf_sec"]')" 3600.0
run 0 plan "${hosts[@]}" --allow-local --json
same "replicas" "$(json 'd["sync"]["replicas"], d["sync"]["link"],
    d["sync"]["replica"]["degrees"]["dp"]')" "(4, 'network', 1)"
same "what is advised is quicker than the best plan" "$(json '[
    x["samples_per_sec"] > 1.1 * 16 / d["plans"][0]["step_sec"]
    for x in d["sync"]["methods"] if (x["method"], x["compressor"]) ==
    (d["sync"]["advice"]["method"], d["sync"]["advice"]["compressor"])]')" \
    "[True]"
run 0 plan "${hosts[@]}" --json
same "not asked" "$(json '"sync" in d')" False

# 48 instead of 64 devices: all of them are used.
run 0 plan "${xl[@]}" --cluster "preset:h100-sxm*48" --global-batch-size 192 \
    --top 1 --json
same "48 devices" "$(json 'd["plans"][0]["devices"]')" 48

# Two RTX 3080 and two RTX 4090: the quick ones get more layers. An even split
# is slower, and does not fit even where all is computed again.
cat >"$work/mixed.yaml" <<'END'
name: two-and-two
devices:
  - kind: rtx3080
    count: 2
    flops: {f32: 29.8 TFLOP/s, bf16: 59.5 TFLOP/s}
    memory: 10 GiB
    bandwidth: 760 GB/s
  - kind: rtx4090
    count: 2
    flops: {f32: 82.6 TFLOP/s, bf16: 165.2 TFLOP/s}
    memory: 24 GiB
    bandwidth: 1008 GB/s
links:
  - {level: node, bandwidth: 31 GB/s, latency: 10 us}
END
mixed=("${xl[@]}" --cluster "$work/mixed.yaml" --global-batch-size 64
    --target megatron)
run 0 plan "${mixed[@]}" --top 1 --json
same "all four" "$(json 'd["plans"][0]["devices"]')" 4
mixed_step=$(json 'd["plans"][0]["step_sec"]')
run 1 predict "${mixed[@]}" --pp 4 --blocks 12,12,12,12 \
    --recompute-granularity full --json
same "an even split" "$(json 'd["fits"]')" False
same "an even split is slower" "$(json "d['step_sec'] > 1.15 * $mixed_step")" \
    True

# The work of a step over the seconds and the peaks of all devices used, fast
# and slow: the same work as on devices of one kind.
cat >"$work/a100-v100.yaml" <<'END'
name: a100-v100
devices:
  - {kind: a100-40, count: 2}
  - {kind: v100-32, count: 2}
links:
  - {level: node, bandwidth: 150 GB/s, latency: 5 us}
END
both=(--model preset:gpt2-xl --seq-length 1024 --global-batch-size 64 --pp 4 --dtype fp16 --json)
run 0 predict "${both[@]}" --cluster 'preset:a100-40*4'
work_of_step=$(json 'd["utilisation"] * d["step_sec"] * 4 * 312')
run 0 predict "${both[@]}" --cluster "$work/a100-v100.yaml"
same "use of mixed devices" "$(json "abs(d['utilisation'] * d['step_sec'] * 2 * (312 + 125) / $work_of_step - 1) < 1e-6")" True

# Fewer devices: the table is part of an answer where they save energy, each
# objective has its plan, and --within takes the fewest.
small=(--model preset:gpt2 --cluster 'preset:h100-sxm*8' --seq-length 1024 --global-batch-size 32 --top 2)
run 0 plan "${small[@]}"
out_has "with fewer devices:"
out_has "J/sample"
out_lacks "price/1e6"
run 0 plan "${small[@]}" --json
same "by devices" "$(json '[x["devices"] for x in d["by_devices"]]')" "[8, 4, 2, 1]"
same "what they are best for" "$(json '[x["best_for"] for x in d["by_devices"]]')" "['time', '', '', 'energy, cost']"
same "joules are watts times seconds" "$(json 'all(abs(x["watts"] * x["step_sec"] /
    (32 * x["joules_per_sample"]) - 1) < 1e-9 for x in d["by_devices"])')" True
same "objective" "$(json 'd["objective"], d["within"]')" "('time', 0.0)"
for objective in energy cost; do
    run 0 plan "${small[@]}" --objective $objective -o "$work/$objective.json"
    out_has "the plan with the least $objective: a step of"
    out_has "chosen"
    run 0 plan "${small[@]}" --objective $objective --json
    same "devices for $objective" "$(json 'd["plans"][0]["devices"]')" 1
    run 0 plan check "$work/$objective.json" --json
    same "the plan that was written" "$(json 'd["devices"]')" 1
done
run 0 plan "${small[@]}" --within 40%
out_has "the plan with the fewest devices within 40 % of the least time: a step of"
for pair in 0%:8 10%:8 40%:4 120%:2 900%:1; do
    run 0 plan "${small[@]}" --within "${pair%:*}" --json
    same "devices within ${pair%:*}" "$(json 'd["plans"][0]["devices"]')" "${pair#*:}"
done
# Where all devices are worth their energy the table is not there, unless asked.
large=("${xl[@]}" --cluster "preset:a100-40*16" --global-batch-size 256 --top 1)
run 0 plan "${large[@]}"
out_lacks "with fewer devices"
run 0 plan "${large[@]}" --within 1%
out_has "with fewer devices"
# Prices of the cluster file.
cat >"$work/prices.yaml" <<'END'
version: 2
name: prices
devices:
  - {kind: h100-sxm, count: 2, price_per_hour: 4}
  - {kind: a100-80, count: 2, price_per_hour: 1}
links:
  - {level: node, bandwidth: 150 GB/s, latency: 5 us}
END
prices=(--model preset:gpt2 --cluster "$work/prices.yaml" --seq-length 1024 --global-batch-size 32)
run 0 plan "${prices[@]}" --objective cost
out_has "price/1e6"
run 0 plan "${prices[@]}" --objective cost --json
same "the first plan costs least" "$(json 'd["plans"][0]["price"]["step"] ==
    min(x["price"]["step"] for x in d["plans"] + d["by_devices"])')" True
run 2 plan "${small[@]}" --objective speed
err_has "--objective must be time, energy or cost, not 'speed'"
for wrong in 5 x% -1% nan% 5%% 99999%; do
    run 2 plan "${small[@]}" --within "$wrong"
    err_has "--within must be 0% to 10000%, as 5%, not '$wrong'"
done
sed 's/count: 2, p/count: 2, watts: 0, p/' "$work/prices.yaml" >"$work/dark.yaml"
run 1 plan --model preset:gpt2 --cluster "$work/dark.yaml" --seq-length 1024 --global-batch-size 32 --objective energy
err_has "the energy of h100-sxm is not known; give its 'watts' in the cluster file"

# Targets differ; so do their defaults.
run 0 plan "${a100[@]}" --target torchtitan --top 1 --json
same torchtitan "$(json 'd["plans"][0]["sharding"] in ("none", "zero2",
    "zero3")')" True
run 0 plan --model preset:gpt2 --cluster "preset:xeon-amx*4" --seq-length 256 \
    --global-batch-size 16 --top 1 --json
same "on processors" "$(json 'd["target"], d["dtype"]')" "('penstock', 'f32')"

# What cannot be planned.
# Ranks of this program step and sum 1/ep of the experts.
cat >"$work/mixture.json" <<'END'
{"model_type": "mixtral", "vocab_size": 512, "max_position_embeddings": 64, "hidden_size": 256,
 "intermediate_size": 2048, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
 "num_local_experts": 16, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
END
cat >"$work/host.yaml" <<'END'
name: host
devices:
  - {kind: core, count: 4, flops: {f32: 50 GFLOP/s}, memory: 800 MiB, bandwidth: 10 GB/s}
links:
  - {level: node, bandwidth: 10 GB/s, latency: 1 us}
END
run 0 plan --model "$work/mixture.json" --cluster "$work/host.yaml" --target penstock --seq-length 16 \
    --global-batch-size 8 --top 1 --json
same "proposed groups" "$(json '[d["plans"][0]["degrees"][key] for key in ("tp", "ep", "dp")]')" "[2, 2, 2]"
# Experts stay whole: only the other 3.4 % of the weights take turns.
memory() {
    run 0 predict --model "$work/mixture.json" --cluster "$work/host.yaml" --target penstock --seq-length 16 \
        --global-batch-size 4 --dp 4 "$@" --json
    json '[d["memory"][0][key] for key in ("weights", "gradients", "optimizer")]'
}
experts=$((16 * 3 * 256 * 2048)) others=$((2 * 512 * 256 + 2 * 256 * 256 + 2 * 256 * 128 + 16 * 256 + 3 * 256))
same "zero3 with ep" "$(memory --ep 2 --sharding zero3)" \
    "[$((others + 2 * experts)), $((others + 4 * experts)), $((2 * others + 2 * experts))]"
same "zero3 without ep" "$(memory --sharding zero3)" \
    "[$((others + experts)), $((others + experts)), $((2 * (others + experts)))]"

run 2 plan --model preset:gpt2
err_has "--cluster is required, as in: penstock plan llama-3.1-70b 64xh100"
run 2 plan
err_has "--model and --cluster are required, as in: penstock plan llama-3.1-70b 64xh100"
run 2 plan gpt2 8xh100 more
err_has "unexpected argument 'more'"
run 1 plan gpt2 8xh1000
err_has "there is no preset 'h1000'; did you mean h100?"

# First guesses: all the same cluster, with defaults that are printed.
run 0 plan gpt2 --cluster 'preset:h100-sxm*8' --seq-length 1024 --global-batch-size 4096 --top 1 --json
step=$(json 'd["plans"][0]["step_sec"]')
for words in 8xh100 '8*h100' h100x8 'h100*8' h100-sxmx8 dgx-h100 1xdgx-h100; do
    run 0 plan gpt2 "$words" --top 1 --json
    err_has "using --seq-length 1024 --global-batch-size 4096"
    same "a step on $words" "$(json 'd["plans"][0]["step_sec"]')" "$step"
done
run 2 plan "${a100[@]}" --target pytorch
err_has "--target must be penstock, megatron, torchtitan or deepspeed"
run 1 plan "${a100[@]}" --memory-limit 3GiB
err_has "no layout fits"
run 1 plan "${a100[@]}" --memory-limit much
err_has "--memory-limit much: expected a number with a unit, as"
run 1 plan "${xl[@]}" --cluster "preset:a100-40*16" --global-batch-size 64 \
    --dtype fp8
err_has "a100-40 does not support fp8; give --dtype with one of: f32, bf16, fp16"
for numbers in mxfp8 nvfp4; do
    run 1 predict "${xl[@]}" --cluster "preset:h200*16" --global-batch-size 64 --dtype "$numbers"
    err_has "h200 does not support $numbers; give --dtype with one of: f32, bf16, fp16, fp8"
done
run 0 plan "${xl[@]}" --cluster "preset:b200*16" --global-batch-size 64 --dtype nvfp4 --top 1 -o "$work/narrow.json"
out_has "of the nvfp4 peak (9000 Tflop/s a device)"
grep -q '"dtype": "nvfp4"' "$work/narrow.json" || fail "the plan lacks its numbers"
run 0 plan check "$work/narrow.json"
# An optimizer with fewer bytes fits where Adam does not: the search must not leave it out.
run 1 plan llama-3.1-70b 16xh100 --seconds 0.1
err_has "no layout fits"
for optimizer in adam8 adafactor muon; do
    run 0 plan llama-3.1-70b 16xh100 --seconds 0.1 --top 1 --optimizer "$optimizer"
done
run 1 plan check "$work/nothing.json"
err_has "$work/nothing.json"
run 2 plan check
err_has "expected a PLAN"
finish
