#!/usr/bin/env bash
# plan --why says why some settings are not those of the best plan,
# --compare-targets has the best plan of each program, -o plan.svg a picture.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

xl=(--model gpt2-xl --seq-length 1024 --cluster 'a100-40*16' --global-batch-size 64)

# The parts of both steps, and their difference.
run 0 plan "${xl[@]}" --top 1 --json
best=$(json 'd["plans"][0]["step_sec"]')
tp=$(json 'd["plans"][0]["degrees"]["tp"]')
run 0 plan "${xl[@]}" --why pp=8
out_has "pp=8 is not the best: its fastest plan takes"
out_has "longer; the largest difference is"
out_has "longer by"
run 0 plan "${xl[@]}" --why pp=8,micro-batch=2 --json
same "settings" "$(json 'd["other"]["degrees"]["pp"], d["other"]["micro_batch"]')" "(8, 2)"
same "the best" "$(json 'd["best"]["step_sec"]')" "$best"
same "it takes longer" "$(json 'd["other"]["step_sec"] > d["best"]["step_sec"]')" True
run 0 plan "${xl[@]}" --why pp=4,vpp=1,schedule=1f1b,recompute=full,sharding=none --json
same "words" "$(json '[d["other"][k] for k in ("schedule", "recompute", "sharding")]')" "['1f1b', 'full', 'none']"
run 0 plan "${xl[@]}" --why "tp=$tp"
out_has "tp=$tp: this is the best plan"

# Options that its answer would not show are refused.
for option in "--tokens 1T" --explain --allow-local "--html $work/page.html"; do
    # shellcheck disable=SC2086 # an option and its value
    run 2 plan "${xl[@]}" --why pp=8 $option
    err_has "${option%% *} belongs to the ranking of plans, which --why does not print"
done
run 2 plan "${xl[@]}" --why pp=8 --compare-targets
err_has "are different questions; give only one of them"

# Memory, and what it would give with more; a rule.
run 0 plan "${xl[@]}" --memory-limit 12GiB --why tp=1,pp=1,recompute=none
out_has "tp=1,pp=1,recompute=none: no layout fits"
out_has "GiB"
out_has "with enough memory its fastest plan: "
run 0 plan "${xl[@]}" --why tp=8
out_has "tp=8 is refused: tp 8 does not divide 25 attention heads"
run 0 plan "${xl[@]}" --why schedule=zb-v,pp=4
out_has "is refused: megatron does not run zb-v"
run 0 plan "${xl[@]}" --why tp=8 --json
same "no plan" "$(json 'd["other"], d["reason"]')" "(None, 'tp 8 does not divide 25 attention heads')"
for wrong in tp tp= tp=x tp=0 tp=-1 tp=99999999999999999999 speed=9 ,tp=2 tp=2, schedule=none recompute=9 "" \
    tp=22222222222222222222222222222222222222222222222222222222222; do
    run 1 plan "${xl[@]}" --why "$wrong"
    err_has "is not a setting"
    out_empty
done

# One row for each program, in this order.
run 0 plan "${xl[@]}" --compare-targets
same "rows" "$(grep -oE '^(megatron|torchtitan|deepspeed|penstock)  ' "$work/out" | tr -d ' \n')" \
    megatrontorchtitandeepspeed
out_has "penstock: trains on processors only, not on a100-40"
run 0 plan gpt2 'preset:xeon-amx*4' --seq-length 512 --global-batch-size 8 --compare-targets --seconds 0.05 --json
same "on processors" "$(json 'd["targets"][3]["plan"]["step_sec"] > 0')" True
run 0 plan "${xl[@]}" --compare-targets --json -o "$work/fastest.json"
same "targets" "$(json '[row["target"] for row in d["targets"]]')" "['megatron', 'torchtitan', 'deepspeed', 'penstock']"
same "as plan finds it" "$(json 'd["targets"][0]["plan"]["step_sec"]')" "$best"
least=$(json 'min(row["plan"]["step_sec"] for row in d["targets"] if row["plan"])')
run 0 plan check "$work/fastest.json" --json
same "the fastest is written" "$(json 'd["step_sec"]')" "$least"
run 0 plan gpt2-xl 'a100-40*16' --compare-targets --seconds 0.05
same "defaults are told once" "$(grep -c 'using --seq-length' "$work/err")" 1
run 1 plan llama-3.1-70b 1xa100-40 --seq-length 4096 --global-batch-size 128 --compare-targets
err_has "no layout fits"

# A picture of the best plan's step.
for form in svg png pdf; do
    run 0 plan "${xl[@]}" --why tp=1 -o "$work/plan.$form"
    [ -s "$work/plan.$form" ] || fail "plan.$form is empty"
done
run 0 plan "${xl[@]}" --top 1 -o "$work/plan.svg"
same "an image" "$(python3 -c 'import sys, xml.etree.ElementTree as tree
print(tree.parse(sys.argv[1]).getroot().tag.split("}")[-1])' "$work/plan.svg")" svg
[ "$(head -c 4 "$work/plan.png")" = "$(printf '\211PNG')" ] || fail "plan.png is no PNG"
run 1 plan "${xl[@]}" --top 1 -o "$work/no/plan.svg"
err_has "cannot write $work/no/plan.svg"
finish
