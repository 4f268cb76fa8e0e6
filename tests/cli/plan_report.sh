#!/usr/bin/env bash
# plan --html writes one file that stands alone, parses as XML and says what
# the command says on the terminal.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

plan() { # CODE ARGS...
    local code=$1
    shift
    run "$code" plan --seq-length 2048 --global-batch-size 64 \
        --html "$work/report.html" "$@"
}

plan 0 --model preset:llama-3.2-1b --cluster 'preset:a100-40*4' --top 4 \
    --target megatron --memory-limit 30GiB -o "$work/plan.json" --json
same sections "$(html '" | ".join(sections)')" "Request | The best plan | \
Plans, best first | Parts of a step | Memory of a device | \
One step | Time against memory | With fewer devices | \
Limits and remedies | Neighbouring plans | How to run it"

# The same plans and figures as in the JSON.
same "number of plans" "$(html 'len(rows("Plans, best first"))')" 4
same "steps" "$(html '[r[1] for r in rows("Plans, best first")]')" \
    "$(json '["%.4g" % p["step_sec"] for p in d["plans"]]')"
same "memory" "$(html '[r[5] for r in rows("Plans, best first")]')" \
    "$(json '["%.1f" % (p["peak_bytes"] / 2**30) for p in d["plans"]]')"
same "schedule" "$(html 'rows("Plans, best first")[0][13]')" \
    "$(json '"-" if d["plans"][0]["degrees"]["pp"] == 1 else
        d["plans"][0]["schedule"]')"
same "classes of memory" "$(html 'sum(int(r[1]) for r in
    rows("Memory of a device"))')" 4
same "a reason for each neighbour" "$(html 'all(r[4] for r in
    rows("Neighbouring plans"))')" True
same "the limit" "$(html '"limit 30 GiB" in words')" True
same "commands" "$(html '"penstock export" in words and
    "plan.json" in words')" True

html_stands_alone

# Names are those of users.
mkdir "$work/a <b> & \"c\""
cat >"$work/a <b> & \"c\"/config.json" <<'JSON'
{"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 4,
 "n_positions": 2048, "vocab_size": 1000}
JSON
plan 0 --model "$work/a <b> & \"c\"" --cluster 'preset:a100-40*2'
same "strange name" "$(html '"a <b> & \"c\" on" in t.find(".//h1").text')" True

# A pipeline of many ranks, and a batch too long to be drawn.
# One bubble on the page: the note of the picture has that of the figures.
plan 0 --model preset:gpt3-175b --cluster 'preset:a100-80*64' --seconds 1 --json
bubble=$(json '"%.1f %%" % (100 * d["plans"][0]["bubble"])')
same "bubble" "$(html "'bubble $bubble of the step: the busiest rank waits' in words or
    '$bubble bubble of the step: the busiest rank waits' in words")" True
same "bubble of the note" "$(html "'bubble looks larger than the $bubble of the step' in words")" True
same "utilisation" "$(html '"model-flops utilisation (MFU)" in words and "of 312 bf16 Tflop/s a device" in words')" True
plan 0 --model preset:gpt3-175b --cluster 'preset:a100-80*512' --seconds 1
html 'len(source)' >"$work/size"
[ "$(cat "$work/size")" -lt 8000000 ] || fail "$(cat "$work/size") bytes"

line="a folder that is not there"
run 1 plan --model preset:gpt2 --cluster 'preset:a100-40*2' --seq-length 1024 \
    --global-batch-size 16 --html "$work/none/report.html"
err_has "none/report.html"
finish
