#!/usr/bin/env bash
# time gives the published figures, the same for people and as JSON.
. "$(dirname "$0")/support.bash"

make_file f 1f1b --stages 4 --microbatches 8
run 0 schedule time "$work/f"
err_empty
out_has "schedule     1f1b: 4 ranks, 4 stages (linear), 8 micro-batches"
out_has "makespan     33 s"
out_has "span         33 s"
out_has "bubble       27.27 %"
out_has "activations  at most 4 A, on rank 0"
out_has "weights      1 version"
same "rank 3" "$(awk '$1 == 3' "$work/out" | tr -s ' ')" " 3 3 27 24 9 27.3 1 1"
out_has "critical path: 22 operations, 6 messages, 11 F 11 s, 11 B 22 s"
out_has "0F0 > 1F0 > 2F0 > 3F0 3B0 3F1"
out_has "> 0B7"

run 0 schedule time --json "$work/f"
err_empty
same makespan "$(json 'd["makespan"], d["span"], d["name"], d["versions"]')" \
    "(33.0, 33.0, '1f1b', 1)"
same bubble "$(json 'round(d["bubble"], 12)')" "$(json 'round(9 / 33, 12)')"
same "rank 1" "$(json 'd["ranks"][1]')" "{'rank': 1, 'start': 1.0, 'end': \
31.0, 'busy': 24.0, 'idle': 9.0, 'peak_activations': 3.0, 'versions': 1}"
same "first of the path" "$(json 'd["critical_path"][0]')" "{'op': '0F0', \
'rank': 0, 'start': 0.0, 'end': 1.0, 'after_message': False}"
same "second of the path" "$(json 'd["critical_path"][1]["op"],
    d["critical_path"][1]["rank"], d["critical_path"][1]["after_message"]')" \
    "('1F0', 1, True)"
same "the path ends with the schedule" \
    "$(json 'd["critical_path"][-1]["end"]')" "33.0"

# One micro-batch through two ranks: twice f + i + w and two hops.
make_file two 1f1b --stages 2 --microbatches 1
run 0 schedule time --json --costs f=2,i=1,w=2,comm=0.5 "$work/two"
same makespan "$(json 'd["makespan"]')" "11.0"

# One figure for a backward: the same time where it is not split, halves or the
# rest where it is.
run 0 schedule time --json --costs f=2,b=3,comm=0.5 "$work/two"
same "makespan with b" "$(json 'd["makespan"]')" "11.0"
make_file split zb-h1 --stages 2 --microbatches 4
run 0 schedule time --json --costs f=1,i=1.5,w=1.5 "$work/split"
grep -v '"costs"' "$work/out" >"$work/halves"
run 0 schedule time --json --costs f=1,b=3 "$work/split"
grep -v '"costs"' "$work/out" | cmp -s - "$work/halves" || fail "b=3 is not i=1.5,w=1.5"
run 0 schedule time --json --costs f=1,i=1,w=2 "$work/split"
grep -v '"costs"' "$work/out" >"$work/parts"
for costs in f=1,b=3,i=1 f=1,w=2,b=3; do
    run 0 schedule time --json --costs $costs "$work/split"
    grep -v '"costs"' "$work/out" | cmp -s - "$work/parts" || fail "$costs is not i=1,w=2"
done
run 2 schedule time --costs b=3,i=1,w=2 "$work/split"
err_has "b is i and w together; give b alone, b with one of them, or i and w"
run 2 schedule time --costs b=3,i=4 "$work/split"
err_has "i=4 is more than b=3"
run 2 schedule time --costs b=-1 "$work/split"
err_has "'b' needs a number from 0 to"
cat >"$work/costs.json" <<'JSON'
{"format": "penstock-costs", "version": 1, "f": 2, "i": 1, "w": 2,
 "comm": 0.5, "memory": {"f": 3, "i": -2, "w": -1}}
JSON
run 0 schedule time --json --costs "$work/costs.json" "$work/two"
same "makespan with a file" "$(json 'd["makespan"]')" "11.0"
same "memory of the file" "$(json 'd["peak_activations"]')" "3.0"
run 0 schedule time --json --memory f=1,w=-1 --costs "$work/costs.json" \
    "$work/two"
same "--memory overrides the file" "$(json 'd["peak_activations"]')" "1.0"
run 0 schedule time --costs f=2,i=1,w=2,comm=0.5 "$work/f"
out_has "costs        f=2,i=1,w=2,comm=0.5"
run 0 schedule time --json --memory f=2,i=-1,w=-1 "$work/f"
same peak "$(json 'd["ranks"][0]["peak_activations"], d["peak_activations"]')" \
    "(8.0, 8.0)"
echo '{"f": ' >"$work/bad.json"
run 1 schedule time --costs "$work/bad.json" "$work/f"
err_has "--costs: $work/bad.json: "

make_file long 1f1b --stages 64 --microbatches 64
run 0 schedule time "$work/long"
out_has "ends and extremes of 64 ranks (--all-ranks prints all)"
out_has "... "
same "ranks shown" "$(grep -cE '^ +[0-9]+ ' "$work/out")" 2
run 0 schedule time --all-ranks "$work/long"
same "ranks shown" "$(grep -cE '^ +[0-9]+ ' "$work/out")" 64

make_file deep breadth-first --stages 4 --microbatches 8
run 0 schedule time --json --send-window 8 "$work/deep"
same "wide window" "$(json 'd["makespan"]')" "28.5"
run 1 schedule time --send-window 1 "$work/deep"
err_has "V4: deadlock"
run 1 schedule time "$work/none"
out_empty
finish
