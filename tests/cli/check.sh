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

# Without a header: sizes follow from lines and numbers.
printf 'F0 F1 B0 B1\nF0 B0 F1 B1\n' >"$work/bare"
run 0 schedule check "$work/bare"
out_has "correct: own, 20 operations on 2 ranks"
err_has "$work/bare has no sends and receives; penstock added them"
run 0 schedule convert "$work/bare" "$work/bare.pen"
same "sizes" "$(sed -n 3p "$work/bare.pen")" \
    "ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement linear"
for command in time draw; do
    run 0 schedule $command "$work/bare"
    cp "$work/out" "$work/plain"
    run 0 schedule $command "$work/bare.pen"
    cmp -s "$work/out" "$work/plain" || fail "$command with a header differs"
done
about "check of rows from stdin"
printf 'rank 0: 0F0 3F0 3B0 0B0\n# turns\nrank 1: 1F0 2F0 2B0 1B0\n' |
    "$PENSTOCK" schedule check - >"$work/out" 2>"$work/err" || fail "refused"
out_has "correct: own, 24 operations on 2 ranks"

# All mistakes, in the order and the words of the file.
printf '# mine\nF0 B1 F1 B0\nB0 F0 F1 F1\n' >"$work/wrong"
run 1 schedule check "$work/wrong"
out_empty
same mistakes "$(grep -v "added them" "$work/err")" \
    "penstock: error: $work/wrong: 4 mistakes
line 2, column 4: V2: rank 0, B1: it comes before the forward of the same micro-batch
  F0 B1 F1 B0
     ^
line 3, column 1: V2: rank 1, B0: it comes before the forward of the same micro-batch
  B0 F0 F1 F1
  ^
line 3, column 10: V1: rank 1, F1: the forward of micro-batch 1 at stage 1 occurs twice
  B0 F0 F1 F1
           ^
line 3, column 12: V1: rank 1, end of the row: micro-batch 1 at stage 1 has no backward
  B0 F0 F1 F1
             ^"
# Messages that penstock added are told as the operations that need them.
printf 'F0 F1 B0 B1\nF1 F0 B1 B0\n' >"$work/wrong"
run 1 schedule check "$work/wrong"
err_has "$work/wrong: 2 mistakes"
err_has "line 1, column 7: V3: rank 0, B0: rank 1 sends micro-batch 1"
err_has "line 2, column 1: V3: rank 1, F1: rank 0 sends micro-batch 0"
printf 'F0 B0 F1 B1\nF0 F1 B0 B1\n' >"$work/wrong"
run 1 schedule check "$work/wrong"
err_has "line 1, column 4: V4: deadlock with a window of 2: rank 0 waits in 0B0"
# The same in PyTorch's form, and words that are no operations.
printf '0F0,,0B1,0F1,0B0\n1B0,1F0,,1F1,1B1\n' >"$work/wrong.csv"
run 1 schedule check "$work/wrong.csv"
err_has "line 1, column 6: V2: rank 0, 0B1:"
err_has "line 2, column 1: V2: rank 1, 1B0:"
printf 'F0 Q1 F1 B0\nB0 F0 X1 B1\n' >"$work/wrong"
run 1 schedule check "$work/wrong"
err_has "$work/wrong: line 1, column 4 (rank 0): expected F, B, I, W"
err_has "line 2, column 7 (rank 1): expected F, B, I, W"
# A long list ends somewhere.
for _ in $(seq 30); do printf 'B0 F0 '; done >"$work/wrong"
run 1 schedule check "$work/wrong"
same shown "$(grep -c '^line' "$work/err")" 20
err_has "59 mistakes"
err_has "and 39 more"

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
