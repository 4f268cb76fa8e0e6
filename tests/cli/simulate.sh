#!/usr/bin/env bash
# simulate runs a plan on simulated ranks: what it says agrees with the planner
# where nothing is shared, disturbances lengthen it and are told, the same seed
# gives the same run, and wrong lines say what would be right.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes
if [ ! -x "$(dirname "$PENSTOCK")/penstock-simulate" ]; then
    echo "penstock-simulate is not built; skipped"
    exit 77
fi

plan=$work/plan.json
run 0 predict --model preset:gpt2 --cluster 'preset:h100-sxm*8' \
    --seq-length 1024 --global-batch-size 32 --pp 4 -o "$plan"
predicted=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["predicted"]["step_sec"])' "$plan")

# ---- wrong lines ----
run 0 simulate --help
out_has "Usage: penstock simulate"
err_empty
run 0 help simulate
out_has "--slow-rank=RANK=FACTOR"
wrong() { # WORDS ARGS...
    local words=$1
    shift
    run 2 simulate --plan "$plan" "$@"
    out_empty
    err_has "$words"
}
run 2 simulate
err_has "--plan is required"
wrong "--slow-rank 1: " --slow-rank 1
wrong "--slow-link rank-1: " --slow-link rank-1
wrong "--fail rank-1: " --fail rank-1
wrong "--background 1: " --background 1
wrong "--jitter 2: expected a share" --jitter 2
wrong "--jitter 5x: expected a share" --jitter 5x
wrong "--mapping must be tp-cp-dp-pp, tp-cp-pp-dp or random" --mapping dp
wrong "give only one of them" --mapping random --use-tp-pp-dp-mapping
wrong "--steps must be a whole number" --steps 0
wrong "--plot draws a --sweep" --plot x.svg
wrong "--trace records one run" --trace t --sweep jitter=0:1:1
wrong "expected slow-rank, slow-link or jitter" --sweep rank=1:2:1
wrong "expected slow-rank, slow-link or jitter" --sweep slow-rank
wrong "expected three numbers FROM:TO:STEP" --sweep slow-rank=1:2
wrong "expected three numbers FROM:TO:STEP" --sweep slow-rank=1:2:x
wrong "expected FROM up to TO" --sweep slow-rank=2:1:1
wrong "expected FROM up to TO" --sweep slow-rank=1:2:0
wrong "the strengths are out of range" --sweep slow-rank=0:1:1
wrong "jitter applies to all ranks" --sweep jitter=3@0:1:1
wrong "more than 1000; give a larger STEP" --sweep slow-rank=1:2:0.0001
run 1 simulate --plan "$work/none.json"
err_has "cannot open $work/none.json"
run 0 predict --model preset:llama-2-7b --cluster 'preset:h100-sxm*8' \
    --seq-length 1024 --global-batch-size 32 --pp 4 --target penstock \
    --dtype bf16 --schedule pipedream-2bw -o "$work/stale.json"
run 1 simulate --plan "$work/stale.json"
err_has "steps of pipedream-2bw overlap"
run 1 simulate --plan "$plan" --cluster preset:none
err_has "preset"
run 1 simulate --plan "$plan" --cluster 'preset:h100-sxm*4'
err_has "the plan has 8 ranks, but the cluster has 4 devices"
run 1 simulate --plan "$plan" --costs f=1,i
err_has "i"
run 1 simulate --plan "$plan" --sweep slow-rank=1:2:1 --plot x.gif
err_has ".svg, .png or .pdf"
run 1 simulate --plan "$plan" --slow-rank 8=2
err_has "8"

# ---- a run ----
run 0 simulate --plan "$plan"
out_has "preset:gpt2 on 8 devices of h100-sxm*8: 8 ranks, 4 to a pipeline"
out_has "a step takes"
out_has "waiting for the pipeline"
out_lacks "disturbed"
run 0 simulate --plan "$plan" --json
mv "$work/out" "$work/plain"
cp "$work/plain" "$work/out"
same format "$(json 'd["format"], d["version"]')" "('penstock-simulation', 1)"
same keys "$(json 'sorted(d["simulated"])')" \
    "['bytes_inside', 'host_bytes', 'host_sec', 'is_stuck', 'links', 'messages', 'messages_inside', 'per_rank', 'spent', 'step_sec', 'steps_sec']"
same ranks "$(json 'd["ranks"], len(d["simulated"]["per_rank"])')" "(8, 8)"
same steps "$(json 'len(d["simulated"]["steps_sec"])')" 2
same predicted "$(json "abs(d['predicted_sec'] - $predicted) < 1e-6 * $predicted")" True
same "near the planner" \
    "$(json "abs(d['simulated']['step_sec'] / $predicted - 1) < 0.05")" True

# What a rank neither computes nor waits for is the same for all: what a step
# takes behind everything.
same "seconds are told once" "$(json 'max(abs(sum(d["simulated"]["steps_sec"])
    - sum(r[k] for k in ("busy_sec", "inside_sec", "pipeline_sec", "sums_sec", "all_sec"))
    - 2 * d["simulated"]["spent"]["other"]["mean_sec"])
    for r in d["simulated"]["per_rank"])
    < 0.01 * sum(d["simulated"]["steps_sec"])')" True

# ---- shared links ----
# Two pipelines' worth of sums and large messages over slow links: the report
# says which link is full, and without sharing the planner is right.
cat >"$work/slow.yaml" <<'END'
name: slow
devices:
  - {kind: h100-sxm, count: 8}
links:
  - {level: node, bandwidth: 2 GB/s, latency: 5 us}
END
crowded=(--plan "$work/crowded.json" --cluster "$work/slow.yaml")
run 0 predict --model preset:gpt2 --cluster "$work/slow.yaml" \
    --seq-length 1024 --global-batch-size 64 --micro-batch-size 2 --pp 8 -o "$work/crowded.json"
run 0 simulate "${crowded[@]}"
out_has "% full: messages wait for each other; --no-contention shows the step without that"
run 0 simulate "${crowded[@]}" --json
shared=$(json 'd["simulated"]["step_sec"] / d["predicted_sec"]')
same "a link is full" "$(json 'd["simulated"]["links"][0]["utilisation"] > 0.25')" True
run 0 simulate "${crowded[@]}" --no-contention
out_has "links levels, not shared"
out_lacks "--no-contention"
run 0 simulate "${crowded[@]}" --no-contention --json
same "told in JSON" "$(json 'd["is_uncontended"]')" True
same "sharing is what makes it longer" "$(json "abs(d['simulated']['step_sec'] / d['predicted_sec'] - 1) < 0.01
    and $shared > 1.01")" True
run 0 simulate --plan "$plan"
out_lacks "% full"

# ---- disturbed ----
run 0 simulate --plan "$plan" --slow-rank 3=2.0
out_has "with the disturbance it takes"
out_has "Rank 3 (row 3 of pipeline 0) computes 2.0 times as long"
run 0 simulate --plan "$plan" --slow-rank 3=2.0 --json
same "undisturbed as before" \
    "$(json 'd["undisturbed"]["step_sec"]')" \
    "$(cp "$work/out" "$work/slow"; cp "$work/plain" "$work/out"; json 'd["simulated"]["step_sec"]')"
cp "$work/slow" "$work/out"
same "slower, not more than twice" \
    "$(json '1.2 < d["simulated"]["step_sec"] / d["undisturbed"]["step_sec"] < 2.01')" True

# The same seed gives the same run, another one another.
seconds() { run 0 simulate --plan "$plan" --jitter 5% --seed "$1" --json; json 'd["simulated"]["steps_sec"]'; }
first=$(seconds 7)
same "the same seed" "$(seconds 7)" "$first"
[ "$(seconds 8)" != "$first" ] || fail "another seed gives the same run"
for name in one:7 two:7 other:8; do
    run 0 simulate --plan "$plan" --jitter 5% --seed "${name#*:}" --trace "$work/${name%:*}"
done
same "files of a trace" "$(find "$work/one" -type f | wc -l)" "$(find "$work/two" -type f | wc -l)"
for file in "$work"/one/*; do
    cmp "$file" "$work/two/${file##*/}" || fail "the same seed gives another ${file##*/}"
done
for file in "$work"/one/*.trace; do
    ! cmp -s "$file" "$work/other/${file##*/}" || fail "another seed gives the same ${file##*/}"
done

# Who is gone, or cannot be reached, is waited for.
run 1 simulate --plan "$plan" --fail rank-2@0.01
out_lacks "a step takes"
out_has "the simulation got stuck"
out_has "rank-2 failed at 0.01 s"
out_has "4 wait for sums with all ranks, or are done"
out_has "waits for rank 2 (row 2 of pipeline 0), which failed"
out_lacks "rank 2 (row 2 of pipeline 0) waits"
run 1 simulate --plan "$plan" --fail rank-2@0.01 --json
same "who is waited for" "$(json 'd["simulated"]["is_stuck"] and
    d["simulated"]["waiting_for"][1:4:2]')" "[2, 2]"
run 1 simulate --plan "$plan" --fail rank-2.node@0.01
out_has "the simulation got stuck"
out_has "rank-2.node failed at 0.01 s"
out_has "waits for rank 2 (row 2 of pipeline 0)"

# ---- other seconds ----
run 0 simulate --plan "$plan" --costs f=0.1,i=0.1,w=0.1 --json
same "seconds of the file" "$(json 'abs(d["simulated"]["step_sec"] / d["predicted_sec"] - 1) < 0.02
    and d["predicted_sec"] > 1')" True

# ---- sums ----
# Four replicas on two nodes: neighbours halve what goes to the other node.
cat >"$work/nodes.yaml" <<'END'
name: nodes
devices:
  - {kind: h100-sxm, count: 4}
links:
  - {level: node, size: 2, bandwidth: 450 GB/s, latency: 3 us}
  - {level: cluster, bandwidth: 50 GB/s, latency: 6 us}
END
run 0 predict --model preset:gpt2 --cluster "$work/nodes.yaml" \
    --seq-length 1024 --global-batch-size 32 -o "$work/replicas.json"
run 0 simulate --plan "$work/replicas.json" --cluster "$work/nodes.yaml" --json
same "bytes inside and outside a node" "$(json '[round(sum(l["bytes"]
    for l in d["simulated"]["links"] if l["name"] == "rank-%d.node_UP" % rank)
    / sum(l["bytes"] for l in d["simulated"]["links"]
    if l["name"] == "rank-%d.network_UP" % rank), 2) for rank in range(4)]')" \
    "[2.0, 2.0, 2.0, 2.0]"

# Operations of many minutes, with sums beside them that look after messages.
run 0 simulate --plan "$work/replicas.json" --cluster "$work/nodes.yaml" --steps 1 --costs f=1,i=600,w=600 --json
same "long operations" "$(json 'abs(d["simulated"]["step_sec"] / d["predicted_sec"] - 1) < 0.01
    and d["predicted_sec"] > 1200')" True

# A layer's gradients are 7 GB: more than one message can have. (Weights of a rank do not fit into memory, hence 1.)
run 1 predict --model preset:gpt3-175b --cluster 'preset:h100-sxm*16' --seq-length 2048 --global-batch-size 16 \
    --pp 8 --dp 2 -o "$work/large.json"
run 0 simulate --plan "$work/large.json" --steps 1 --json
same "long sums" "$(json 'd["simulated"]["step_sec"] > 0.9 * d["predicted_sec"]')" True

# ---- a trace ----
run 0 simulate --plan "$plan" --trace "$work/trace"
[ -s "$work/trace/rank-00007.trace" ] || fail "there is no trace of rank 7"
run 0 view "$work/trace"
out_has "rank"
run 0 schedule check "$work/trace/schedule.pen"

# ---- tensor groups ----
# A rank per device, which sends what a training sends: 4 L + 2 arrays of R x H
# and 3 R floats to each of log2 P partners, for every micro-batch.
cat >"$work/four.yaml" <<'END'
name: four
devices:
  - {kind: h100-sxm, count: 4}
links:
  - {level: node, bandwidth: 450 GB/s, latency: 3 us}
END
groups() { # MORE OF PREDICT...
    run 0 predict --model preset:gpt2 --cluster "$work/four.yaml" --target penstock \
        --seq-length 128 --global-batch-size 4 -o "$work/groups.json" "$@"
}
group=(--plan "$work/groups.json" --cluster "$work/four.yaml")
groups --tp 4
run 0 simulate "${group[@]}" --steps 1 --json
same "ranks of a group" "$(json 'd["ranks"], d["devices"], d["replicas"]')" "(4, 4, 1)"
same "bytes inside layers" "$(json '[l["bytes"] for l in d["simulated"]["links"]]')" \
    "[$(python3 -c 'print(", ".join([str(2.0 * 4 * ((4 * 12 + 2) * 128 * 768 * 4 + 3 * 128 * 4))] * 8))')]"
same "messages inside layers" "$(json 'd["simulated"]["messages"] - 4 * 2 * 4 * (4 * 12 + 3)')" 0
same "their seconds" "$(json 'd["simulated"]["spent"]["inside"]["mean_sec"] > 0')" True
groups --tp 2 --pp 2
run 0 simulate "${group[@]}" --slow-rank 3=2 --trace "$work/grouped"
out_has "messages inside layers"
out_has "Rank 3 computes 2.0 times as long"
same "the first rank of each group is recorded" "$(ls "$work/grouped" | grep -c '[.]trace$')" 2
run 0 view "$work/grouped"
run 0 simulate "${group[@]}" --json
same "near the planner, with groups" \
    "$(json "abs(d['simulated']['step_sec'] / d['predicted_sec'] - 1) < 0.05")" True
run 1 simulate "${group[@]}" --fail rank-1@0.01
out_has "rank 0 (row 0 of pipeline 0) waits for rank 1 (row 0 of pipeline 0), which failed"

# Rows that are cut: parts of them in 10 L + 5 rounds of a micro-batch, the loss at
# distances 1 and 2, and once per step 2 L + 1 norms with two vectors each.
groups --tp 4 --sequence-parallel
run 0 simulate "${group[@]}" --steps 1 --json
same "bytes of rows that are cut" "$(json 'd["simulated"]["bytes_inside"]')" \
    $((4 * (4 * (3 * (10 * 12 + 5) * 128 * 768 + 3 * 128 * 4 * 2) + 2 * (2 * 12 + 1) * 768 * 4 * 2)))
same "messages of rows that are cut" "$(json 'd["simulated"]["messages_inside"]')" \
    $((4 * (4 * (3 * (10 * 12 + 5) + 2) + 2 * (2 * 12 + 1) * 2)))
same "near the planner, with rows that are cut" \
    "$(json "abs(d['simulated']['step_sec'] / d['predicted_sec'] - 1) < 0.1")" True

# ---- expert groups ----
# Rows, gates and counts of running.md's formula: for each of two blocks, 4 X (E-1)
# bytes of counts for each of two micro-batches of the group and, for 3 of 4 choices,
# 4 rows of 64 floats and 8 bytes, once more with recomputation. Four ranks have the
# same dense parameters, no two the same experts.
cat >"$work/mixture.json" <<'END'
{"model_type": "mixtral", "vocab_size": 97, "max_position_embeddings": 32, "hidden_size": 64, "intermediate_size": 48,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8,
 "num_experts_per_tok": 2, "rms_norm_eps": 1e-5, "tie_word_embeddings": false}
END
run 0 predict --model "$work/mixture.json" --cluster "$work/four.yaml" --target penstock --seq-length 16 \
    --global-batch-size 8 --ep 4 --dp 4 --recompute-granularity full -o "$work/experts.json"
group=(--plan "$work/experts.json" --cluster "$work/four.yaml")
run 0 simulate "${group[@]}" --steps 1 --json
same "bytes of an all-to-all" "$(json 'd["simulated"]["bytes_inside"]')" \
    $((2 * 2 * (2 * 4 * 8 * 3 + 4 * 16 * 2 * 3 / 4 * (5 * 64 * 4 + 3 * 4))))
# To each of 3 ranks: a message in a round, two with gates; 3 rounds forward and 5 backward.
same "messages of an all-to-all" "$(json 'd["simulated"]["messages_inside"]')" $((2 * 2 * 4 * 3 * (3 + 1 + 5 + 1)))
same "sums of what four ranks have" "$(json '0 <= sum(l["bytes"] for l in d["simulated"]["links"]) / 2
    - d["simulated"]["bytes_inside"] - 2 * 3 * 4 * (97 * 64 * 2 + 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 2 * 64 + 8 * 64)) < 10000')" True
run 0 simulate "${group[@]}" --slow-rank 3=2
out_has "Rank 3 (row 0 of pipeline 3) computes 2.0 times as long"
out_has "messages inside layers"
run 0 predict --model "$work/mixture.json" --cluster "$work/four.yaml" --target penstock --seq-length 16 \
    --global-batch-size 4 --ep 2 --sharding zero3 -o "$work/experts.json"
run 1 simulate "${group[@]}"
err_has "zero3 with ep 2: simulate does not know which weights such ranks send ahead of a layer; plan with zero2"
run 0 predict --model "$work/mixture.json" --cluster "$work/four.yaml" --target penstock --seq-length 16 \
    --global-batch-size 8 --tp 2 --ep 2 -o "$work/experts.json"
run 1 simulate "${group[@]}"
err_has "tp 2 of a model with experts"

# ---- context groups ----
# 12 blocks, 4 micro-batches, 8 chunks of 16 tokens with keys and values of 768 floats:
# each of 4 ranks sends its two chunks to 3 others, and of their gradients the first
# to all and the second to those behind.
groups --cp 4
group=(--plan "$work/groups.json" --cluster "$work/four.yaml")
run 0 simulate "${group[@]}" --steps 1 --trace "$work/parts" --json
same "ranks of a context group" "$(json 'd["ranks"], d["devices"], d["replicas"]')" "(4, 4, 4)"
same "messages of a context group" "$(json 'd["simulated"]["messages_inside"]')" $((12 * 4 * (24 + 12 + 6)))
same "bytes of a context group" "$(json 'd["simulated"]["bytes_inside"]')" $((12 * 4 * (24 + 12 + 6) * 16 * 2 * 768 * 4))
same "near the planner, with parts of sequences" \
    "$(json "abs(d['simulated']['step_sec'] / d['predicted_sec'] - 1) < 0.1")" True
same "parts are recorded" "$(find "$work/parts" -name '*.trace' | wc -l)" 4
run 0 view "$work/parts"
groups --cp 2 --pp 2
run 0 simulate "${group[@]}" --slow-rank 1=2
out_has "Rank 1 (row 0 of pipeline 1) computes 2.0 times as long"

# ---- weights that come layer by layer ----
# Gradients to their owners and, by running.md's formula, all weights twice but for those
# of head and last block, which stay from forward to backward: 4 bytes to 3 ranks each.
sed -e 's/"mixtral"/"llama"/' -e '/num_local_experts/s/"num_local_experts": 8,//' -e '/experts_per_tok/d' \
    -e 's/^ "num_hidden/ "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "num_hidden/' \
    -e 's/"num_key_value_heads": 2, *$/"num_key_value_heads": 2}/' "$work/mixture.json" >"$work/dense.json"
run 0 predict --model "$work/dense.json" --cluster "$work/four.yaml" --target penstock --seq-length 16 \
    --global-batch-size 4 --dp 4 --sharding zero3 --dtype bf16 -o "$work/sharded.json"
run 0 simulate --plan "$work/sharded.json" --cluster "$work/four.yaml" --steps 1 --json
block=$((2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 48 + 2 * 64)) words=$((97 * 64))
same "bytes of gradients and weights" "$(json 'sum(l["bytes"] for l in d["simulated"]["links"]) / 2')" \
    "$((3 * 4 * (3 * (2 * words + 64 + 2 * block) - (words + 64 + block)))).0"

# Groups of two: weights travel inside each of two groups, and after the step every owner
# sends its new values to one rank of the other group.
run 0 predict --model "$work/dense.json" --cluster "$work/four.yaml" --target penstock --seq-length 16 \
    --global-batch-size 4 --dp 4 --sharding zero3 --sharding-group 2 --dtype bf16 -o "$work/hybrid.json" --json
same "version and group" "$(python3 -c 'import json, sys
plan = json.load(open(sys.argv[1]))
print(plan["version"], plan["sharding_group"])' "$work/hybrid.json")" "3 2"
hybrid=$(json 'd["memory"][0]["weights"]')
run 0 predict --model "$work/dense.json" --cluster "$work/four.yaml" --target penstock --seq-length 16 \
    --global-batch-size 4 --dp 4 --sharding zero3 --dtype bf16 --json
same "twice the weights" "$(json "abs($hybrid - 2 * d['memory'][0]['weights']) <= 16")" True
run 0 simulate --plan "$work/hybrid.json" --cluster "$work/four.yaml" --steps 1 --json
same "bytes of groups" "$(json 'sum(l["bytes"] for l in d["simulated"]["links"]) / 2')" \
    "$((4 * ((3 + 2 * 2 + 1) * (2 * words + 64 + 2 * block) - 2 * (words + 64 + block)))).0"

# ---- a sweep ----
run 0 simulate --plan "$plan" --sweep slow-rank=3@1:2:0.5 --plot "$work/sweep.svg"
out_has "rank 3, times as slow"
same "rows" "$(grep -cE '^ +[0-9.]+ ' "$work/out")" 3
grep -q "<svg" "$work/sweep.svg" || fail "sweep.svg is no SVG"
run 0 simulate --plan "$plan" --sweep slow-rank=3@1:2:0.5 --json
same "longer and longer" "$(json 'len(d["runs"]) == 3 and d["runs"][0]["step_sec"]
    < d["runs"][1]["step_sec"] < d["runs"][2]["step_sec"]')" True
finish
