#!/usr/bin/env bash
# ring draw draws a simulated run of islands: the same bytes for the same seed,
# with its commits, epochs and faults; and says what it does not take.
. "$(dirname "$0")/support.bash"

run 0 ring draw 7 -o "$work/one.svg"
err_has "wrote"
run 0 ring draw 7 -o "$work/two.svg"
same "the same seed" "$(cmp "$work/one.svg" "$work/two.svg" && echo same)" same
run 0 ring draw 8 -o "$work/two.svg"
cmp -s "$work/one.svg" "$work/two.svg" && fail "another seed gives the same run"
for words in "seed 7: " "island 0" "coordinator 1" "epoch 1" "evicted" "healed"; do
    grep -q "$words" "$work/one.svg" || fail "the picture lacks: $words"
done
grep -q "broken" "$work/one.svg" && fail "an invariant is broken"
run 0 ring draw 7 --begin 8 --end 14 -o "$work/part.svg"
grep -q "healed" "$work/part.svg" && fail "a part of the run has its end"

run 1 ring draw 7 --begin 1000 -o "$work/none.svg"
err_has "--begin 1000 is not before the end"
run 2 ring draw x -o "$work/none.svg"
err_has "x is not a seed"
run 2 ring draw -3 -o "$work/none.svg"
run 2 ring draw 7
err_has "--output"
run 2 ring draw -o "$work/none.svg"
run 1 ring draw 7 -o "$work/none.txt"
[ -e "$work/none.svg" ] && fail "a picture was written all the same"
finish
