#!/usr/bin/env bash
# probe diff names the first layer and pass that differ, draws the differences,
# says by its exit code whether there are any, and refuses what is no probe.
. "$(dirname "$0")/support.bash"

# write FILE FACTOR: a step of four layers; from backward of layer 1 on its
# figures are multiplied.
write() {
    python3 - "$1" "$2" <<'END'
import json, sys
path, factor = sys.argv[1], float(sys.argv[2])
lines = [{"format": "penstock-probe", "version": 1}]
order = [("weights", range(4)), ("forward", range(3)), ("loss", [3]), ("backward", range(2, -1, -1)),
         ("gradients", range(3, -1, -1)), ("updated", range(4))]
scale = 1
for step in 1, 2:
    for kind, layers in order:
        for layer in layers:
            if (kind, layer) == ("backward", 1):
                scale = factor
            name = {"loss": "loss", "forward": "output", "backward": "output"}.get(kind, f"h.{layer}.weight")
            norm = (2 + layer) * scale
            lines.append({"step": step, "pass": kind, "layer": layer, "name": name, "count": 100, "norm": norm, "sum": norm / 2,
                          "max": norm / 3, "hash": f"{hash((norm, kind)) & (2**64 - 1) if scale != 1 else layer + 1:016x}", "sketch": [norm * j for j in range(8)]})
open(path, "w").write("".join(json.dumps(line) + "\n" for line in lines))
END
}
write "$work/a" 1
write "$work/b" 1.5
write "$work/near" 1.000001

run 0 probe diff "$work/a" "$work/a"
out_has "bit-identical: all 38 records"
run 1 probe diff "$work/a" "$work/b"
out_has "first difference: step 1, backward, layer 1, output: relative difference"
out_has "the last equal record before it: step 1, backward, layer 2, output"
run 1 probe diff "$work/b" "$work/a"
out_has "first difference: step 1, backward, layer 1, output: relative difference"
run 0 probe diff "$work/a" "$work/near"
out_has "equal; the largest difference is in "
run 1 probe diff --tolerance 0 "$work/a" "$work/near"
out_has "first difference: step 1, backward, layer 1, output"
run 1 probe diff --json "$work/a" "$work/b"
same "the first record" "$(jq -r '.first | [.step, .pass, .layer, .name] | @csv' <"$work/out")" '1,"backward",1,"output"'
same "all records" "$(jq '.records | length' <"$work/out")" 38

run 1 probe diff "$work/a" "$work/b" -o "$work/diff.svg"
err_has "wrote"
for words in "First difference: step 1, backward, layer 1, output" forward backward gradients tolerance; do
    grep -q "$words" "$work/diff.svg" || fail "the picture lacks: $words"
done
run 0 probe diff "$work/a" "$work/near" -o "$work/none.svg"
grep -q "No difference in step 1" "$work/none.svg" || fail "the picture of equal probes has no title"
run 2 probe diff "$work/a" "$work/b" -o "$work/diff.txt"

head -1 "$work/a" >"$work/empty"
run 2 probe diff "$work/a" "$work/empty"
err_has "it has no records"
run 2 probe diff "$work/a" /nowhere
err_has "/nowhere"
sed 's/"step": 1/"step": 7/; s/"step": 2/"step": 8/' "$work/a" >"$work/other"
run 2 probe diff "$work/a" "$work/other"
err_has "no record in common"
{ cat "$work/a" && tail -1 "$work/a"; } >"$work/twice"
run 2 probe diff "$work/a" "$work/twice"
err_has "the second file has two records of step 2, updated, layer 3"
sed 's/"count": 100/"count": 101/' "$work/a" >"$work/shape"
run 1 probe diff "$work/a" "$work/shape"
out_has "it has 100 numbers in A and 101 in B"
run 2 probe diff "$work/a"
run 2 probe nothing
finish
