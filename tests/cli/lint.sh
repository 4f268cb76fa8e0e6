#!/usr/bin/env bash
# penstock lint: every file of tests/lint/good is clean, every one of
# tests/lint/bad breaks the rule that its name begins with and no other.
. "$(dirname "$0")/support.bash"
corpus=$(cd "$(dirname "$0")/../lint" && pwd)

good=0
for file in "$corpus"/good/*; do
    run 0 lint "$file" --json
    same "findings of $file" "$(json '[f["rule"] for f in d["files"][0]["findings"]]')" "[]"
    same "a training in $file" "$(json 'len(d["files"][0]["trainings"]) > 0')" True
    good=$((good + 1))
done
bad=0
for file in "$corpus"/bad/*; do
    rule=$(basename "$file")
    rule=${rule%%--*}
    run 1 lint "$file" --json
    same "findings of $file" "$(json '[f["rule"] for f in d["files"][0]["findings"]]')" "['$rule']"
    same "a place in $file" "$(json 'all(f["line"] >= 1 and f["column"] >= 1 for f in d["files"][0]["findings"])')" True
    bad=$((bad + 1))
done
echo "$good good files, $bad bad files"
same "at least 12 good and 30 bad" "$((good >= 12 && bad >= 30))" 1

# Places are those of the value, also where a variable holds it.
run 1 lint "$corpus/bad/heads--variables.sh"
out_has "heads--variables.sh:4:10: error: tensor parallelism of 8 does not divide 20 attention heads [heads]"
out_has "  TP=\${TP:-8}"
out_has "why: Every tensor-parallel rank"
out_has "do:  Use 5, a divisor of 20."
out_has "1 file, 1 training, 1 error, 0 warnings, 0 notes"
run 1 lint "$corpus/bad/virtual-stages--pr4604.sh"
out_has "6 layers of a pipeline rank do not divide into 4 virtual stages [virtual-stages]"
out_has "Use 3 virtual stages."

# Ranks of the command line count where a file says none.
run 0 lint "$corpus/good/megatron_ends.args"
run 1 lint "$corpus/good/megatron_ends.args" --world-size 12
out_has "12 ranks do not divide by 8"

# Fixes: a diff, and a file that is clean.
cp "$corpus/bad/unknown-option--spelling.sh" "$work/run.sh"
run 0 lint --fix "$work/run.sh"
out_has "-    --mirco-batch-size 1"
out_has "+    --micro-batch-size 1"
run 0 lint "$work/run.sh"
run 1 lint --fix "$corpus/bad/heads--tensor.sh"
out_lacks "@@"

# SARIF: what the standard requires of a log, its rules and results.
run 1 lint --sarif "$corpus/bad/unknown-option--spelling.sh" "$corpus/bad/heads--width.sh"
same "a log" "$(json '(d["version"], len(d["runs"]))')" "('2.1.0', 1)"
same "rules" "$(json 'len({r["id"] for r in d["runs"][0]["tool"]["driver"]["rules"]}) == len(d["runs"][0]["tool"]["driver"]["rules"]) > 20')" True
same "results" "$(json '[r["ruleId"] for r in d["runs"][0]["results"]]')" "['unknown-option', 'heads']"
same "their rules" "$(json 'all(d["runs"][0]["tool"]["driver"]["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in d["runs"][0]["results"])')" True
same "a fix" "$(json 'd["runs"][0]["results"][0]["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"]')" "--micro-batch-size"

# Files that are none of ours, or not there.
echo 'echo hello' >"$work/hello.sh"
run 0 lint "$work/hello.sh"
err_has "no training of a known program"
run 2 lint "$work/none.sh"
err_has "none.sh"
printf 'a\0b' >"$work/binary.sh"
run 2 lint "$work/binary.sh"
run 2 lint
err_has "expected FILE"
run 2 lint --world-size 0 "$work/hello.sh"
run 0 lint --rules
out_has "virtual-stages"
finish
