#!/usr/bin/env bash
# check says in one line what was proved, or which rule is broken and where.
. "$(dirname "$0")/support.bash"

make_file good 1f1b --stages 4 --microbatches 8
run 0 schedule check "$work/good"
same proof "$(cat "$work/out")" "correct: 1f1b, 168 operations on 4 ranks, no \
deadlock with a send window of 2, peak 4 A on rank 0, 1 weight version"
err_empty
run 0 schedule check --send-window 1 --memory-limit 4 "$work/good"
out_has "send window of 1"
out_has "peak 4 A on rank 0 (limit 4 A)"
run 1 schedule check --memory-limit 3.5 "$work/good"
out_empty
err_has "V5: rank 0"
run 0 schedule check --memory f=2,i=-1,w=-1 "$work/good"
out_has "peak 8 A"

about "check from stdin"
"$PENSTOCK" schedule check - <"$work/good" >"$work/out" 2>"$work/err"
same "exit code" $? 0
out_has "correct: 1f1b"

# Without sends and receives, as written by hand.
cat >"$work/hand" <<'TEXT'
# penstock-schedule 1
name hand
ranks 2 stages 2 microbatches 1 slices 1 copies 1 placement linear
rank 0: 0F0 0B0
rank 1: 1F0 1B0
TEXT
run 0 schedule check "$work/hand"
out_has "correct: hand, 12 operations on 2 ranks"
err_has "$work/hand has no sends and receives; penstock added them"
sed 's/1F0 1B0/1B0 1F0/' "$work/hand" >"$work/bad"
run 1 schedule check "$work/bad"
out_empty
err_has "V2: rank 1"
err_has "^"
make_file one 1f1b --stages 1 --microbatches 2
run 0 schedule check "$work/one"
err_empty

# With SYNC and STEP, but no messages: neither by hand nor complete. train.sh
# has the same words.
sed -E 's/ [0-9]+[SR][AG][0-9]+//g' "$work/good" >"$work/mute.txt"
run 1 schedule check "$work/mute.txt"
out_empty
refusal="$work/mute.txt: the schedule has SYNC, but no sends and receives; \
leave out SYNC and STEP to have all of them added"
same refusal "$(cat "$work/err")" "penstock: error: $refusal"
sed -E 's/ [0-9]+(SYNC|STEP)//g' "$work/mute.txt" >"$work/compute.txt"
run 0 schedule check "$work/compute.txt"
err_has "penstock added them"

make_file deep breadth-first --stages 4 --microbatches 8
run 1 schedule check --send-window 1 "$work/deep"
err_has "V4: deadlock with a window of 1: rank 0 waits in"

# Bad files: path, line, column.
run 1 schedule check "$work/none"
err_has "cannot open $work/none: No such file or directory"
sed 's/0F0/0Q0/' "$work/hand" >"$work/bad"
run 1 schedule check "$work/bad"
err_has "$work/bad: "
err_has "line 4"
: >"$work/nothing"
run 1 schedule check "$work/nothing"
err_has "a schedule must begin with '# penstock-schedule 1'"
run 1 schedule check "$work"
err_has "$work"
run 2 schedule check "$work/good" "$work/good"
err_has "unexpected argument '$work/good'"
finish
