#!/usr/bin/env bash
# view names the fault of a hang and the rank that the others waited for, in
# records of other programs, and refuses bad ones by what is wrong.
. "$(dirname "$0")/support.bash"
traces=$(cd "$(dirname "$0")/../traces" && pwd)

# ---- faults of real runs; rank 2 is at fault in step 1
run 0 view "$traces"/real/slow/*
out_has "4 of 4 ranks, 64 calls, 16 collectives"
out_has "no fault: all ranks made the same calls"
out_has "slow: the others waited for rank 2"
run 0 view "$traces"/real/skip/*
out_has "fault: rank 2 skipped #8 of group 0, all_reduce of 2000 Float. Its next call, all_reduce of 3000 Float"
run 0 view "$traces"/real/shape/*
out_has "fault: rank 2 called #8 of group 0 with another shape: all_reduce of 2001 Float, where"
run 0 view "$traces"/real/dead/*
out_has "fault: rank 2 left no record: it died, or its file was not given"
run 0 view "$traces"/real/stopped/*
out_has "fault: rank 2 never called #8 of group 0, all_reduce of 2000 Float, in which 3 others wait; the record of rank 2 ends with #7"
run 0 view "$traces"/real/pickle/*
out_has "no fault"
run 0 view "$traces"/real/profile/*
out_has "3 of 3 ranks, 30 calls, 10 collectives"
out_has "slow: the others waited for rank 1"
run 0 view "$traces"/real/skip/* --json
same "fault" "$(json '[(f["kind"], f["ranks"], f["number"], f["called"]["elements"], f["expected"]["elements"]) for f in d["faults"]]')" \
    "[('skipped', [2], 8, 3000, 2000)]"

# ---- sends, receives and clocks, by hand
run 0 view "$traces"/hand/unsent/*
out_has "fault: rank 1 never sent message 4 to rank 2, which waits in recv of 8192 BFloat16"
run 0 view "$traces"/hand/slow_link/*
out_has "slow: the link from rank 1 to rank 2 takes 40 ms per message, in the mean of 8"
run 0 view "$traces"/hand/hosts/*
err_has "the clock of rank 1 differs by -3.000 s from that of rank 0; its times are moved"
out_has "slow: the others waited for rank 2: 420 ms of 420 ms"
run 0 view "$traces"/hand/slow_link/* --json
same "link" "$(json '[d["slow_link"][k] for k in ("from", "to", "messages")], len(d["links"])')" "([1, 2, 8], 3)"

# ---- pictures
for form in svg png pdf; do
    run 0 view "$traces"/real/skip/* -o "$work/skip.$form"
    err_has "wrote $work/skip.$form"
done
same svg "$(head -c 5 "$work/skip.svg")" "<?xml"
grep -q 'fault: rank 2 skipped #8' "$work/skip.svg" || fail "the fault is not in the picture"
run 0 view "$traces"/hand/unsent/* -o "$work/unsent.svg"
grep -q 'message 4 from rank 1 to rank 2' "$work/unsent.svg" || fail "the message is not in the picture"
run 0 view "$traces"/real/dead/* -o "$work/dead.svg"
grep -q 'no record' "$work/dead.svg" || fail "the rank without a record is not in the picture"
run 1 view "$traces"/real/skip/* -o "$work/skip.doc"
err_has "skip.doc"

# ---- what is refused
refused() { # WORDS PATH...
    local words=$1
    shift
    run 1 view "$@"
    err_has "$words"
}
one=$traces/real/slow/flight-1.json
cp "$one" "$work/rank_1.json"
refused "are both of rank 1; give one file per rank" "$one" "$work/rank_1.json"
cp "$one" "$work/calls.json"
refused "which rank it is of; give it a name as rank_0.json" "$work/calls.json"
head -c 3000 "$one" >"$work/cut_3.json"
refused "cut_3.json: line 1, column 34: the file ends before this is closed" "$work/cut_3.json"
printf '\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.' >"$work/evil_0"
refused "the pickle wants to import or call something (opcode GLOBAL)" "$work/evil_0"
printf '\x1f\x8b\x08\x00' >"$work/packed_0.gz"
refused "packed by gzip; unpack it first" "$work/packed_0.gz"
refused "is not a regular file but a directory" "$one" "$traces"
printf '{"format":"penstock-plan"}' >"$work/plan.json"
refused "several files must be records of one job, one of each rank; $work/plan.json is a plan" "$one" "$work/plan.json"
printf '{"traceEvents":[]}' >"$work/none_0.json"
refused "there is no collective, send or receive in it" "$work/none_0.json"
run 1 view "$one" --step 3
err_has "--step is for traces of penstock train; leave it out"
finish
