#!/usr/bin/env bash
# predict --failures: goodput of three ways to recover, on many devices.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

question=(predict llama-3.1-70b 128xh100 --tp 8 --pp 4 --seq-length 8k --global-batch-size 512)

run 0 "${question[@]}" --failures llama3 --devices 128,2048,16384,100000
err_empty
out_has "419 interruptions in 54 days on 16,384 GPUs"
out_has "seed 1"
out_has "95 % confidence interval"
cp "$work/out" "$work/first"
run 0 "${question[@]}" --failures llama3 --devices 128,2048,16384,100000
cmp -s "$work/out" "$work/first" || fail "the same seed has other figures"
for options in "llama3" "meta" "llama3 --detect-sec 60 --restart-sec 240" "meta --detect-sec 60 --restart-sec 240"; do
    run 0 "${question[@]}" --devices 128,2048,16384,100000 --failures $options
    while read -r row; do
        grep -qF -- "$row" "$(dirname "$0")/../../docs/failures.md" || fail "docs/failures.md lacks '$row'"
    done < <(sed -n '/^devices  step/,/^$/p' "$work/out")
done
run 0 "${question[@]}" --failures llama3 --devices 128,2048,16384,100000 --seed 2
cmp -s "$work/out" "$work/first" && fail "another seed has the same figures"

run 0 "${question[@]}" --failures llama3 --devices 128,2048,16384,100000 --json -o "$work/goodput.svg"
same "devices" "$(json '[row["ranks"] for row in d["failures"]["rows"]]')" "[128, 2048, 16384, 100000]"
same "mean time between failures" "$(json 'round(d["failures"]["rows"][2]["mtbf_sec"] * 419 / 86400, 3)')" 54.0
same "closed form and simulation" "$(json 'all(abs(row["restart"]["goodput"] - row["exact_goodput"]) <
    3 * row["restart"]["error"] + 1e-3 for row in d["failures"]["rows"])')" True
same "searched and closed interval" "$(json 'all(0.5 < row["restart"]["interval_sec"] / row["exact_sec"] < 2
    for row in d["failures"]["rows"] if row["exact_sec"] > 2 * row["step_sec"])')" True
same "holders beat a restart" "$(json 'all(row["restart"]["goodput"] < row["holders"]["goodput"] < 1
    for row in d["failures"]["rows"])')" True
same "a step in flight" "$(json '{row["holders"]["commit_steps"] for row in d["failures"]["rows"]}')" "{1}"
same "more devices fail more" "$(json 'd["failures"]["rows"][0]["restart"]["goodput"] >
    d["failures"]["rows"][3]["restart"]["goodput"]')" True
grep -q '<svg' "$work/goodput.svg" || fail "no picture"
grep -q 'restart from disk' "$work/goodput.svg" || fail "no legend"

# Replication and stacks of shards, as the page has them.
stacks=(predict llama-3.1-405b 2048xh100 --tp 8 --pp 16 --cp 16 --seq-length 96k --global-batch-size 128 --failures llama3
    --devices 16384,100000,600000 --detect-sec 10 --stacks 12)
for restart in 300 3600; do
    run 0 "${stacks[@]}" --restart-sec $restart
    while read -r row; do
        grep -qF -- "$row" "$(dirname "$0")/../../docs/failures.md" || fail "docs/failures.md lacks '$row'"
    done < <(sed -n '/^devices  groups/,/^$/p' "$work/out")
done
run 0 "${stacks[@]}" --restart-sec 3600 --json
same "groups" "$(json '[row["groups"] for row in d["failures"]["rows"]]')" "[8, 48, 292]"
same "stacks at scale" "$(json '(lambda row: row["restart"]["goodput"] < row["replication"]["goodput"] <
    0.8 * row["stacks"]["goodput"])(d["failures"]["rows"][2])')" True
same "few failures" "$(json '(lambda row: row["stacks"]["goodput"] < row["restart"]["goodput"])(d["failures"]["rows"][0])')" True
run 0 predict gpt2 4xh100 --tp 2 --pp 2 --seq-length 1k --global-batch-size 8 --mtbf 1h --stacks 4 --json
same "one group" "$(json '(lambda row: (row["groups"], row["stacks"], row["replication"]))(d["failures"]["rows"][0])')" "(1, None, None)"
run 2 "${stacks[@]}" --spares 3
err_has "give it without --spares"
run 2 "${question[@]}" --stacks 4
err_has "--stacks belongs to a run that fails"

# A figure that is given is taken; slow recoveries are where islands pay.
run 0 "${question[@]}" --failures meta --devices 100000 --detect-sec 60 --restart-sec 540 --save-sec 2 --reload-sec 30 \
    --checkpoint-interval 5min --islands 5 --sync-steps 20 --pair-share 0 --json
same "as given" "$(json '[round(d["failures"]["rows"][0]["islands"][key], 6) for key in ("detect_sec", "restart_sec", "save_sec",
    "load_sec", "islands", "sync_steps", "pair_share")]')" "[60.0, 540.0, 2.0, 30.0, 5, 20, 0.0]"
same "interval" "$(json 'abs(d["failures"]["rows"][0]["restart"]["interval_sec"] / 300 - 1) < 0.07')" True
same "islands pay" "$(json 'd["failures"]["rows"][0]["holders"]["goodput"] + 0.1 < d["failures"]["rows"][0]["islands"]["goodput"]')" True
run 0 "${question[@]}" --mtbf 3h --json
same "of the job" "$(json 'round(d["failures"]["rows"][0]["mtbf_sec"], 6)')" 10800.0
run 0 "${question[@]}" --failures 0.001 --json
same "of a device" "$(json 'round(d["failures"]["rows"][0]["mtbf_sec"] * 128 / 86400, 6)')" 1000.0
run 0 "${question[@]}" --failures 1h --spares 0 --repair 2h --json
none=$(json 'd["failures"]["rows"][0]["restart"]["goodput"]')
run 0 "${question[@]}" --failures 1h --spares 9 --repair 2h --json
same "spares help" "$(json "$none + 0.2 < d['failures']['rows'][0]['restart']['goodput']")" True

# A plan is written beside the figures, as without them.
run 0 "${question[@]}" --failures llama3 --json -o "$work/plan.json"
run 0 plan check "$work/plan.json"

# plan orders by speed times goodput, and finds spares.
search=(plan llama-3.1-70b 1024xh100 --seq-length 8k --global-batch-size 512)
run 0 "${search[@]}" --json
fastest=$(json 'd["plans"][0]["step_sec"]')
run 0 "${search[@]}" --mtbf 30min --detect-sec 20 --restart-sec 60
out_has "spare nodes in addition to 128"
run 0 "${search[@]}" --mtbf 30min --detect-sec 20 --restart-sec 60 --json
same "order" "$(json '(lambda kept: kept == sorted(kept, reverse=True))([plan["tokens_per_sec"] * row["restart"]["goodput"]
    for plan, row in zip(d["plans"], d["failures"]["rows"])])')" True
same "not the fastest" "$(json "d['plans'][0]['step_sec'] > $fastest")" True
same "rows" "$(json '[row["step_sec"] for row in d["failures"]["rows"]] == [plan["step_sec"] for plan in d["plans"]]')" True
same "spares" "$(json 'd["failures"]["recovery"], 30 < d["failures"]["best_spares"] < 60')" "('restart', True)"
run 2 "${search[@]}" --mtbf 3h --why tp=8
err_has "--failures belongs to the ranking of plans"

run 1 "${question[@]}" --failures often
err_has "expected llama3, meta, failures per device and day"
run 1 "${question[@]}" --failures llama3 --devices 16
err_has "fewer than one replica"
run 1 "${question[@]}" --failures llama3 --devices 128,,256
err_has "expected up to 16 numbers of devices"
run 1 "${question[@]}" --failures llama3 --checkpoint-interval soon
err_has "--checkpoint-interval soon: expected a number with a unit"
run 2 "${question[@]}" --devices 128
err_has "--devices belongs to a run that fails; give --failures as well"
run 2 "${question[@]}" --failures llama3 --mtbf 3h
err_has "give only one of them"
finish
