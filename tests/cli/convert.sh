#!/usr/bin/env bash
# convert goes to PyTorch's CSV and back without losing anything.
. "$(dirname "$0")/support.bash"

make_file f 1f1b --stages 2 --microbatches 2
run 0 schedule convert "$work/f" "$work/f.csv"
out_empty
err_has "wrote $work/f.csv: 1f1b, compute only"
err_has "torchtitan needs the schedule name PipelineScheduleMulti with it"
same csv "$(tr -d '\r' <"$work/f.csv")" "0F0,0F1,0B0,0B1
1F0,1B0,1F1,1B1"
run 0 schedule convert "$work/f.csv" -
err_has "$work/f.csv has no sends and receives; penstock added them"
same "rows come back" "$(grep '^rank ' "$work/out")" "$(grep '^rank ' "$work/f")"
run 0 schedule convert "$work/f" -
cmp -s "$work/f" "$work/out" || fail "text to text changes it"
make_file d dualpipe --stages 4 --microbatches 8
run 1 schedule convert "$work/d" "$work/d.csv"
[ ! -e "$work/d.csv" ] || fail "a refused file was written"
printf '0F0,0X0\n' >"$work/bad.csv"
run 1 schedule convert "$work/bad.csv" -
err_has "$work/bad.csv: "
out_empty
# A deadlock is not passed on, unless it is forced.
dead=$(dirname "$0")/../../examples/schedules/deadlock.pen
run 1 schedule convert "$dead" "$work/dead.csv"
err_has "deadlock"
err_has "$work/dead.csv was not written; --force writes it all the same"
[ ! -e "$work/dead.csv" ] || fail "a schedule that deadlocks was written"
run 0 schedule convert --force "$dead" "$work/dead.csv"
err_has "deadlock"
[ -s "$work/dead.csv" ] || fail "--force wrote nothing"
run 2 schedule convert "$work/f"
err_has "expected IN OUT"
finish
