#!/usr/bin/env bash
# With --json, stdout is one object: an answer with format, version and the
# notes of stderr, or an error with a code; exit codes are those without it.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes
where=(--model preset:gpt2 --cluster 8xa100-40 --seq-length 1024
    --global-batch-size 64)

run 0 plan "${where[@]}" --explain --json
same "kind" "$(json '(d["format"], d["version"], d["notes"])')" \
    "('penstock-answer-plan', 1, [])"
same "fit" "$(json 'all(p["tight_bytes"] * (1 + p["memory_margin"]) <= p["offered_bytes"]
    for p in d["plans"] if p["fits"])')" True
same "neighbours have figures" "$(json 'all(abs(n["slower_sec"] - n["step_sec"] +
    d["plans"][0]["step_sec"]) < 1e-9 for n in d["explanation"]["neighbours"]
    if "step_sec" in n)')" True
same "gains" "$(json 'all(abs(h["tokens_per_sec"] / d["plans"][0]["tokens_per_sec"]
    - 1 - h["gain"]) < 1e-9 for h in d["explanation"]["helps"])')" True
limit=$(json 'd["explanation"]["limit_text"]')
first=$(json 'd["explanation"]["neighbours"][0]["layout_text"]')
run 0 plan "${where[@]}" --explain
out_has "$limit"
out_has "$first"

run 0 plan gpt2 8xa100-40 --json
same "what was assumed" "$(json 'd["notes"]')" \
    "[{'level': 'info', 'text': 'not all given; using --seq-length 1024 --global-batch-size 4096'}]"
err_has "not all given; using --seq-length 1024"

run 0 plan "${where[@]}" --why tp=4 --json
same "why" "$(json '(d["verdict"], d["longer"] > 0, len(d["parts"]) > 5)')" \
    "('slower', True, True)"
words=$(json 'd["text"]')
run 0 plan "${where[@]}" --why tp=4
out_has "$words"
run 0 plan "${where[@]}" --why tp=3 --json
same "refused" "$(json 'd["verdict"], d["other"]')" "('refused', None)"
same "says why" "$(json 'len(d["reason"]) > 10')" True

# ---- schedules ----

printf 'F0 F1 B1 B0\nF0 B0 B1 F1\n' >"$work/wrong"
run 1 schedule check "$work/wrong" --json
same "mistakes" "$(json '[(m["line"], m["column"], m["rule"], m["rank"], m["op"])
    for m in d["mistakes"]]')" "[(2, 7, 2, 1, 'B1')]"
same "message" "$(json 'd["mistakes"][0]["message"]')" \
    "it comes before the forward of the same micro-batch"
err_has "line 2, column 7: V2: rank 1, B1: it comes before"
printf 'F0 F1 X1 B0\nF0 B0 B1 F1\n' >"$work/unread"
run 1 schedule check "$work/unread" --json
same "place" "$(json '[(m["line"], m["column"], m["message"][:8]) for m in d["mistakes"]]')" \
    "[(1, 7, 'expected')]"
printf 'F0 F1 B0 B1\nF0 F1 B0 B1\n' >"$work/right"
run 0 schedule check "$work/right" --json
same "proof" "$(json '(d["correct"], d["completed"], d["mistakes"], d["num_ranks"])')" \
    "(True, True, [], 2)"
run 0 schedule search --stages 2 --microbatches 4 --json
same "search" "$(json '(d["span"] >= d["lower_bound"], d["schedule"][:19])')" \
    "(True, '# penstock-schedule')"
run 0 schedule search --stages 2 --microbatches 4 --json -o "$work/found"
same "file" "$(json '("schedule" in d, d["output"])')" "(False, '$work/found')"
run 0 schedule check "$work/found"
run 0 schedule list --json
same "options" "$(json '[s["options"] for s in d["schedules"] if s["name"] == "kfkb"]')" \
    "[['group-size']]"

# ---- errors ----

code() { json '(d["format"], d["error"]["code"])'; }
error() { echo "('penstock-answer-error', '$1')"; }
run 2 plan --no-such-option --json
same code "$(code)" "$(error usage)"
same message "$(json 'd["error"]["message"]')" "unrecognized option '--no-such-option'"
err_has "penstock plan: unrecognized option '--no-such-option'"
run 2 plan gpt2 --json
same code "$(code)" "$(error usage)"
run 2 pln --json
same code "$(code)" "$(error usage)"
run 2 schedule chek --json
same code "$(code)" "$(error usage)"
run 1 plan gpt2 8xh99 --json
same code "$(code)" "$(error invalid)"
run 1 plan llama-3.1-70b 8xa100-40 --json
same code "$(code)" "$(error unfit)"
same "shortage" "$(json 'd["error"]["shortage"]["tight_bytes"] > d["error"]["shortage"]["offered_bytes"],
    d["error"]["shortage"]["enough_devices"] > 8')" "(True, True)"
run 1 schedule check "$work/none" --json
same code "$(code)" "$(error file)"
echo '{"a": 1,' >"$work/bad.json"
run 1 plan check "$work/bad.json" --json
same code "$(code)" "$(error invalid)"
same "place" "$(json '(d["error"]["file"], d["error"]["line"])')" "('$work/bad.json', 2)"
run 0 plan --help --json
out_has "Usage: penstock plan"
finish
