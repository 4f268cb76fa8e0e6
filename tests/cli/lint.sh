#!/usr/bin/env bash
# penstock lint: every file of tests/lint/good is clean, every one of
# tests/lint/bad breaks the rule that its name begins with and no other.
. "$(dirname "$0")/support.bash"
corpus=$(cd "$(dirname "$0")/../lint" && pwd)

here=$(cd "$(dirname "$0")" && pwd)
about "lint_corpus.py"
python3 "$here/lint_corpus.py" "$PENSTOCK" "$corpus" || fail "see above"

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

# Predictions: as plan --from-megatron has them, for files without errors.
cat >"$work/xl.sh" <<'END'
torchrun --nproc_per_node 8 --nnodes=2 pretrain_gpt.py --num-layers 48 --hidden-size 1600 \
    --num-attention-heads 25 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 \
    --micro-batch-size 1 --global-batch-size 64 --pipeline-model-parallel-size 8 --bf16 \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
END
run 0 lint "$work/xl.sh" --cluster 'a100-40*16'
out_has "times as fast [slower-than-best]"
out_has "--pipeline-model-parallel-size 8 -> "
out_has "9 of 10: "
run 0 lint "$work/xl.sh" --cluster 'a100-40*16' --json
hints=$(json '[f["severity"] for f in d["files"][0]["findings"]]')
same "a note, which is no failure" "$hints" "['note']"
sed -e 's/--recompute.*//; s/--pipeline-model-parallel-size 8/--micro-batch-size 4/; s/--micro-batch-size 1 //' \
    "$work/xl.sh" >"$work/big.sh"
run 1 lint "$work/big.sh" --cluster 'a100-40*16'
out_has "the training does not fit: "
out_has "[does-not-fit]"
out_has "--use-distributed-optimizer off -> on"
run 0 lint "$work/xl.sh" --cluster 'a100-40*8'
err_has "it starts 16 ranks, but the cluster has 8 devices"
run 0 lint "$corpus/good/deepspeed_zero1.json" --cluster 'a100-40*4'
err_has "only options of Megatron-LM are predicted"
run 0 lint "$corpus/good/megatron_unknown_values.sh" --cluster 'a100-40*8'
err_has "some of its values are unknown"
run 2 lint "$work/xl.sh" --cluster nothing
err_has "there is no preset 'nothing'"

# The hook and the action run what they say.
about "lint_hooks.py"
python3 "$here/lint_hooks.py" "$PENSTOCK" "$here/../.." "$work" || fail "see above"

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

printf '# \303\251\npython pretrain_gpt.py --num-layers 4 --data-path \303\251 --sede 1\n' >"$work/a b.sh"
run 1 lint --sarif "$work/a b.sh"
same "a column of letters" "$(json 'd["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startColumn"]')" 53
same "an encoded path" "$(json 'd["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b.sh")')" True

# Files that are none of ours, or not there.
echo 'echo hello' >"$work/hello.sh"
run 0 lint "$work/hello.sh"
err_has "no training of a known program"
run 2 lint "$work/none.sh"
err_has "none.sh"
printf 'a\0b' >"$work/binary.sh"
run 2 lint "$work/binary.sh"
# A YAML file that nobody here reads, and one with words that are not supported.
printf 'a: 1\n' >"$work/other.yaml"
printf 'train_batch_size: &x 3\nb: *x\n' >"$work/anchor.yaml"
run 0 lint "$work/other.yaml" "$work/anchor.yaml"
err_has "anchor.yaml: no training of a known program"

# What export writes is clean.
run 0 plan gpt2 8xa100-40 -o "$work/plan.json"
run 0 export "$work/plan.json" --to all -o "$work/all"
run 0 lint $(find "$work/all" -name '*.args' -o -name '*.json' -o -name '*.toml' -o -name '*.yaml')
err_empty

run 2 lint
err_has "expected FILE"
run 2 lint --world-size 0 "$work/hello.sh"
run 0 lint --rules
out_has "virtual-stages"
finish
