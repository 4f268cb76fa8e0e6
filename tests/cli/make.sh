#!/usr/bin/env bash
# make writes a schedule that check accepts, or says what would work.
. "$(dirname "$0")/support.bash"

run 0 schedule make 1f1b --stages 2 --microbatches 2
err_empty
same text "$(cat "$work/out")" "# penstock-schedule 1
name 1f1b
ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement linear
rank 0: 0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1 0SYNC 0STEP
rank 1: 1RA0 1F0 1B0 1SG0 1RA1 1F1 1B1 1SG1 1SYNC 1STEP"
cp "$work/out" "$work/expected"
run 0 schedule make 1f1b --stages 2 --microbatches 2 -o "$work/file"
out_empty
err_has "wrote $work/file: 1f1b, 20 operations on 2 ranks"
cmp -s "$work/file" "$work/expected" || fail "-o writes something else"
run 0 schedule make 1f1b --stages 2 --microbatches 2 --output=-
cmp -s "$work/out" "$work/expected" || fail "-o - writes something else"
run 0 schedule make 1f1b --stages 2 --microbatches 2 -o /dev/null
[ -c /dev/null ] || fail "/dev/null was replaced"
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/through" &
run 0 schedule make 1f1b --stages 2 --microbatches 2 -o "$work/pipe"
wait
cmp -s "$work/through" "$work/expected" || fail "a pipe gets something else"

run 0 schedule make interleaved --stages 2 --microbatches 4 --chunks 3
out_has "stages 6"
run 0 schedule make dualpipev --stages 2 --microbatches 4 --chunks 2
run 1 schedule make 1f1b --stages 2 --microbatches 4 --chunks 2
err_has "--chunks 2: 1f1b has 1 on each rank"
run 0 schedule make seq1f1b --stages 2 --microbatches 4 --slices 4
out_has "slices 4"
run 1 schedule make 1f1b --stages 2 --microbatches 4 --slices 2
err_has "--slices 2: 1f1b has 1"
run 0 schedule make kfkb --stages 2 --microbatches 4 --group-size 4
run 1 schedule make gpipe --stages 2 --microbatches 4 --memory-limit 3
err_has "holds up to 4 activations; the limit is 3"
out_empty
run 0 schedule make gpipe --stages 2 --microbatches 4 --memory-limit 4
run 1 schedule make gpipe --stages 65535 --microbatches 4294967294
err_has "make a schedule of 5.35e+07 GB, but this machine has"
run 1 schedule make interleaved --stages 4 --microbatches 6
err_has "p to divide m"
run 1 schedule make 1f1b --stages 2 --microbatches 2 -o "$work/no/file"
err_has "cannot write $work/no/file: No such file or directory"
run 1 schedule make 1f1b --stages 2 --microbatches 2 -o /dev/full
err_has "cannot write /dev/full: No space left on device"

# Costs that do not change the order: said, and only then.
run 0 schedule make 1f1b --stages 2 --microbatches 2 --costs f=1,b=3
err_has "--costs is not used: 1f1b has one order for all costs"
cmp -s "$work/out" "$work/expected" || fail "costs change the order"
run 0 schedule make zb-auto --stages 2 --microbatches 4 --costs f=1,b=3
err_empty

# Wrong lines: the option, the value and what would work.
run 2 schedule make
err_has "expected NAME"
run 2 schedule make 1f1b
err_has "--stages P is missing"
run 2 schedule make --stages 2 --microbatches 2
err_has "expected NAME"
run 2 schedule make 1f1b --stages 2
err_has "--microbatches M is missing"
for bad in 0 -1 two 2.5 2x 65536 nan ""; do
    run 2 schedule make 1f1b --microbatches 2 --stages="$bad"
    err_has "--stages must be a whole number from 1 to 65535, not '$bad'"
done
run 2 schedule make 1f1b --stages 2 --microbatches 2 --memory-limit 0
err_has "--memory-limit must be a number from"
run 2 schedule make 1f1b --stages 2 --microbatches 2 --costs f=1,x=2
err_has "--costs f=1,x=2:"
err_has "expected one of f= b= i= w= comm="
run 2 schedule make 1f1b --stages 2 --microbatches 2 --memory f=1,i=0,w=0
err_has "--memory f=1,i=0,w=0:"
run 1 schedule make 1f1b --stages 2 --microbatches 2 --costs "$work/none.json"
err_has "--costs: cannot open $work/none.json"
run 2 schedule make 1f1b --stages 2 --microbatches 2 --group-size 2
err_has "--group-size is for kfkb only"
run 2 schedule make gpipe --stages 4 --microbatches 3 --stage-replicas 3,1
err_has "--stage-replicas is for 1f1b only"
run 2 schedule make 1f1b --microbatches 3 --stage-replicas 3,x
err_has "with commas between them, as 3,1"
run 1 schedule make 1f1b --stages 5 --microbatches 3 --stage-replicas 3,1
err_has "the replicas of the stages are 4 ranks, not 5"
run 1 schedule make 1f1b --microbatches 4 --stage-replicas 3,1
err_has "need a multiple of 3 micro-batches, not 4: 3 would work"
run 0 schedule make 1f1b --microbatches 3 --stage-replicas 3,1
out_has "ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement replicated 3,1"
run 2 schedule make 1f1b --stages 2 --microbatches 2 --vertical-sync
err_has "--vertical-sync is for pipedream only"
run 2 schedule make 1f1b --stages 2 --microbatches 2 --batches 2
err_has "--batches is for asynchronous schedules only"
run 2 schedule make 1f2b --stages 2 --microbatches 2
err_has "there is no schedule '1f2b'; did you mean 1f1b"
err_has "penstock schedule list"
run 2 schedule make inter --stages 2 --microbatches 2
err_has "did you mean interleaved"
run 2 schedule make supercalifragilisticexpialidocious-schedule --stages 2 \
    --microbatches 2
err_lacks "did you mean"
finish
