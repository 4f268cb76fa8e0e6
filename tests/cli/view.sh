#!/usr/bin/env bash
# view draws a traced step under its prediction and says where they differ and
# why; a folder that is no trace is refused by what is wrong.
. "$(dirname "$0")/support.bash"
: "${TRACE_FILES:?the program that makes traces}"

# costs NAME REST: 2 ms per pass and 0.1 ms per message but for the rest.
costs() {
    printf '{"format":"penstock-costs","version":1,"f":2e-3,"i":2e-3,' >"$work/$1.json"
    printf '"w":2e-3,"step":1e-3,"comm":1e-4%s}' "$2" >>"$work/$1.json"
}

# trace NAME STEPS PREDICTED TRUTH...: a folder of that name.
trace() {
    local name=$1 steps=$2 predicted=$3 truth=()
    shift 3
    [ "$predicted" = none ] || predicted=$work/$predicted.json
    for one in "$@"; do truth+=("$work/$one.json"); done
    mkdir "$work/$name"
    "$TRACE_FILES" "$work/$name" "$work/1f1b.txt" "$steps" "$predicted" \
        "${truth[@]}" || fail "cannot make a trace"
}

make_file 1f1b.txt 1f1b --stages 4 --microbatches 8
costs same ""
costs rank ',"ranks":[{"count":2},{"f":3e-3,"i":3e-3,"w":3e-3},{}]'
costs link ',"links":[{"from":1,"to":2,"latency":3e-3}]'
sed 's/2e-3/3e-3/g; s/"step":1e-3/"step":1.5e-3/' "$work/same.json" >"$work/all.json"

trace same 5 same same
run 0 view "$work/same"
err_empty
out_has "step 1, the median of 5: 68.6 ms, predicted 68.6 ms: 1.000 of the prediction"
out_has "no operation is later than predicted"
out_has "all ranks together wait 53.8 ms, predicted 53.8 ms"
out_lacks "because of rank"
out_lacks "operations that differ"
out_lacks "messages that came late"
run 0 view "$work/same" --step 2
out_has "step 2: 82.32 ms"
out_has "all ranks compute slower: 1.20 of the prediction"
run 1 view "$work/same" --step 5
err_has "step 5 was not recorded completely; 5 steps from 0 to 4 were"

trace rank 5 same rank
run 0 view "$work/rank"
out_has "step 1, the median of 5: 88.8 ms, predicted 68.6 ms: 1.294 of the prediction"
out_has "+21 ms: rank 2 computes slower, backward of stage 2 1.50, forward of stage 2 1.50 of the prediction"
out_has "wait 108.6 ms, predicted 53.8 ms; 100 % of the rest because of rank 2 computing"
out_has "39.800     19.600  88.800     68.600  rank 1, 100 %   rank 2 computing, 100 %"
same "slow operations" "$(awk '/^ *2  (backward|forward)/ { print $4 }' "$work/out")" \
    "$(printf '1.500\n1.500')"
out_lacks "messages that came late"
run 0 view "$work/rank" --json
same "seconds" "$(json 'round(d["sec"], 6), round(d["predicted_sec"], 6)')" \
    "(0.0888, 0.0686)"
same "ranks" "$(json '[r["rank"] for r in d["ranks"]]')" "[0, 1, 2, 3]"
same "rank 0" "$(json '[round(d["ranks"][0][k], 6) for k in ("waiting_sec", "predicted_waiting_sec", "total_sec", "waits_most_for")]')" \
    "[0.0398, 0.0196, 0.0888, 1]"
same "slow operations" \
    "$(json 'sorted((o["rank"], o["operation"], round(o["ratio"], 3)) for o in d["slow_operations"])')" \
    "[(2, 'backward', 1.5), (2, 'forward', 1.5)]"
same "late messages" "$(json 'd["late_messages"]')" "[]"

trace link 1 same link
run 0 view "$work/link" --json
same "late messages" "$(json '[(m["from"], m["to"], m["messages"], m["count"], round(m["together_sec"], 6)) for m in d["late_messages"]]')" \
    "[(1, 2, 'activations', 6, 0.012)]"
run 0 view "$work/link"
out_has "step 0: 80 ms, predicted 68.6 ms: 1.166 of the prediction"
out_has "+11.6 ms: activations from rank 1 to rank 2 come late"
out_has "   1   2  activations           6   3.000      0.100      2.900    12.000"
out_lacks "computes slower"
out_lacks "operations that differ"

trace all 1 same all
run 0 view "$work/all"
out_has "all ranks compute slower: 1.50 of the prediction"
out_lacks "because of rank"

# Two replicas, of which one is slow; ranks 4 and 5 have row 2.
trace both 1 same same rank
run 0 view "$work/both" -o "$work/both.svg"
err_has "wrote $work/both.svg"
out_has "rank 5 computes slower"
out_has "because of rank 5 computing"

# Without costs.json there is what was measured.
trace alone 1 none rank
run 0 view "$work/alone" -o "$work/alone.svg"
out_has "step 0: 88.8 ms; no prediction"
out_has "because of rank 2 computing"
out_lacks "later"
run 0 view "$work/alone" --json
same "what was predicted" \
    "$(json 'd["predicted_sec"], d["ranks"][0]["predicted_total_sec"]')" \
    "(None, None)"

# Of many ranks only the worst, unless all are asked for.
make_file wide.txt 1f1b --stages 40 --microbatches 8
costs far ',"ranks":[{"count":20},{"f":9e-3,"i":2e-3,"w":2e-3},{"count":19}]'
mkdir "$work/wide"
"$TRACE_FILES" "$work/wide" "$work/wide.txt" 1 "$work/same.json" "$work/far.json"
run 0 view "$work/wide"
out_has "and 8 more that are late less"
same "ranks told" "$(grep -c ' node[0-9]' "$work/out")" 32
run 0 view "$work/wide" --all-ranks
same "ranks told" "$(grep -c ' node[0-9]' "$work/out")" 40
out_has "rank 20 computes slower"

for form in svg png pdf json; do
    run 0 view "$work/rank" -o "$work/run.$form"
    err_has "wrote $work/run.$form"
    out_has "rank 2 computes slower"
done
same svg "$(head -c 5 "$work/run.svg")" "<?xml"
same pdf "$(head -c 5 "$work/run.pdf")" "%PDF-"
same png "$(head -c 4 "$work/run.png" | tail -c 3)" "PNG"
cp "$work/run.json" "$work/out"
same "processes" \
    "$(json '[e["args"]["name"] for e in d["traceEvents"] if e["name"] == "process_name"]')" \
    "['rank 0 on node0', 'rank 1 on node0', 'rank 2 on node0', 'rank 3 on node0']"
same "milliseconds of rank 2" \
    "$(json 'round(sum(e["dur"] for e in d["traceEvents"] if e["ph"] == "X" and e["pid"] == 3 and e["tid"] == 2) / 1e3, 3)')" \
    73.0

# Some ranks of many: 8 replicas of 4 rows, rank 14 is slow.
mkdir "$work/many"
same_json=$work/same.json
"$TRACE_FILES" -r "$work/many" "$work/1f1b.txt" 1 "$same_json" "$same_json" \
    "$same_json" "$same_json" "$work/rank.json" "$same_json" "$same_json" \
    "$same_json" "$same_json" || fail "cannot make a trace"
for form in svg png pdf; do
    run 0 view "$work/many" --ranks 8-23 -o "$work/wave.$form"
    err_has "wrote $work/wave.$form"
    out_has "rank 14 computes slower"
done
run 0 view "$work/many" --ranks 14 -o "$work/one.svg"
run 1 view "$work/many" --ranks 24-32 -o "$work/none.svg"
err_has "there are no ranks 24 to 32: the trace has ranks 0 to 31"
[ ! -e "$work/none.svg" ] || fail "a refused view was written"
run 1 view "$work/many" --ranks 0-7 -o "$work/wave.json"
err_has "its name should end in .svg, .png or .pdf"
for wrong in x 5-3 1- -1 1-2x 0-4294967296; do
    run 2 view "$work/many" --ranks="$wrong" -o "$work/none.svg"
    err_has "--ranks must be a range as 0-63 or a rank as 17, not '$wrong'"
done
run 2 view "$work/many" --ranks 0-7
err_has "--ranks needs a file to draw to"

run 1 view "$work/rank" -o "$work/run.doc"
err_has "its name should end in .svg, .png, .pdf or .json (Perfetto)"
run 1 view "$work/none"
err_has "cannot open $work/none/schedule.pen"
rm "$work/rank/rank-00003.trace"
run 1 view "$work/rank"
err_has "cannot open $work/rank/rank-00003.trace"
head -c 200 "$work/link/rank-00001.trace" >"$work/link/rank-00002.trace"
run 1 view "$work/link"
err_has "$work/link/rank-00002.trace: it must have"
costs wrong ',"stages":[{"count":7}]'
cp "$work/wrong.json" "$work/all/costs.json"
run 1 view "$work/all" -o "$work/wrong.svg"
err_has "$work/all/costs.json: "
[ ! -e "$work/wrong.svg" ] || fail "a refused view was written"

run 2 view
err_has "expected DIR"
run 1 view "$work/same" "$work/all"
err_has "several files must be records of one job, one of each rank; $work/same is a trace"
run 2 view "$work/same" --step last
err_has "--step must be a whole number"
run 0 help view
out_has "--step=N"
finish
