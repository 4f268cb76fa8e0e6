#!/usr/bin/env bash
# The examples are right, and the tutorial prints what the commands print.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
tutorial=$root/docs/tutorials/your-own-schedule.md
mine=examples/schedules/split-backward.pen

# tutorial_has TEXT: a line of the tutorial has it.
tutorial_has() { grep -qF -- "$1" "$tutorial" || fail "the tutorial lacks '$1'"; }

run 0 schedule check "$mine"
tutorial_has "$(cat "$work/out")"
while IFS= read -r row; do
    grep -qxF -- "$row" "$mine" || fail "the example lacks the tutorial's '$row'"
done < <(sed -n 's/^    \(rank [0-9]: 0F0\|rank [0-9]: [12]F0\)/\1/p' "$tutorial")

sed 's/0I0 0W0/0W0 0I0/' "$mine" >"$work/swapped"
run 1 schedule check "$work/swapped"
tutorial_has "$(sed -n "s|^penstock: error: $work/swapped: ||p" "$work/err" | head -1)"

run 1 schedule check examples/schedules/deadlock.pen
message=$(sed -n 's/^penstock: error: [^ ]*: //p' "$work/err")
tutorial_has "${message%%; *};"
tutorial_has "${message#*; }"

run 0 schedule time "$mine" --costs f=1,i=1,w=1
for key in makespan span bubble activations "critical path" "  0F0 >"; do
    tutorial_has "$(grep -- "^$key" "$work/out")"
done
run 0 schedule draw "$mine"
for ending in svg png pdf json; do
    run 0 schedule draw "$mine" -o "$work/mine.$ending"
done
run 0 schedule draw 1f1b zb-h1 --stages 3 --microbatches 4
run 0 schedule compare --stages 3 --microbatches 4
run 0 schedule search --stages 3 --microbatches 4 --placement any \
    --costs f=1,i=1,w=1 --memory-limit 3 -o "$work/best.pen"
run 0 schedule check "$work/best.pen" --memory-limit 3
run 0 schedule time "$work/best.pen" --json
best=$(json 'd["span"]')
run 0 schedule time "$mine" --json
same "the search is not worse" "$(json "d['span'] >= $best")" True
run 0 schedule convert "$mine" "$work/mine.csv"

make_file four 1f1b --stages 4 --microbatches 8
for costs in examples/costs/*.json; do
    run 0 schedule time "$work/four" --costs "$costs"
    out_has makespan
done
finish
