#!/usr/bin/env bash
# train takes a text: every option that is not given is chosen and printed, and
# one that is given wins. train --load resumes a run with its own options, those
# of checkpoints of release 0.1.0, too; train names the weights that it loads.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
old=$(realpath "$(dirname "$0")/../old/0.1.0/checkpoint")
cd "$work" || exit 1
for _ in $(seq 150); do
    echo "To be, or not to be, that is the question: whether 'tis nobler."
done >play.txt

# ---- what is chosen: with one word more it is the same training
run 0 train play.txt --train-iters 4 --seq-length 16
err_has "not given; using --model play-run/text --data-path play-run/text/tokens --split 90,10 --eval-interval 1 --micro-batch-size 4 --global-batch-size 16 --lr 2e-3 --lr-decay-style cosine --lr-warmup-iters 0 --save play-run --log play-run/log.jsonl"
err_has "play-run/text: a GPT of 4 layers, width 128, context 128, for 21 characters; give --model DIR"
err_has "wrote play-run/text/tokens_text_document: 9600 tokens of 9600 bytes"
err_has "to write with it: penstock generate --model play-run --prompt"
out_has "step 4/4 | loss"
out_has "validation loss"
line=$(sed -n 's/.*not given; using //p' err)
# shellcheck disable=SC2086
run 0 train ${line//play-run --log play-run/typed --log typed} --train-iters 4 --seq-length 16
same "hash of the line as printed" "$(hash_of typed)" "$(hash_of play-run)"
run 0 generate --model play-run --prompt "To" --max-tokens 3
run 0 plot play-run
out_has "step 4"
run 0 report play-run
out_has "play-run"

# ---- options that are given win; a folder is not trained over
run 0 train play.txt --save other --train-iters 1 --lr 1e-5 \
    --global-batch-size 2 --seq-length 16
err_has "--micro-batch-size 1 --lr-decay-style"
err_lacks "--lr 2e-3"
[ -d other/step-00000001 ] || fail "no checkpoint"
before=$(sha256sum play-run/text/*)
run 1 train play.txt
err_has "play-run has checkpoints; resume them with \`penstock train --load play-run\`, or give another folder with --save"
same "its files" "$(sha256sum play-run/text/*)" "$before"
head -c 3000 play.txt >short.txt
run 0 train short.txt --train-iters 1 --seq-length 16
err_has "--split 100 --micro-batch-size"

# ---- a model with a tokenizer of its own
run 0 train short.txt --model play-run --save tuned --train-iters 1 \
    --seq-length 16
err_has "--lr 1e-4"
err_has "loaded 812 k weights from play-run/step-00000004"
err_lacks "a GPT of"
run 1 train short.txt --model preset:gpt2 --save none --train-iters 1
err_has "--model has to be a folder with a tokenizer, or leave it out"

# ---- words that are no texts
run 2 train gnu.txt
err_has "unexpected argument 'gnu.txt': there is no text of this name"
run 2 train play-run
err_has "play-run is a run; to resume it, give --load play-run"
run 2 train play-run/text
err_has "play-run/text is a model; give --model play-run/text"
run 2 train play-run/step-00000004
err_has "is a checkpoint; to resume it, give --load"
mkdir empty
run 2 train empty
err_has "empty is a folder; expected files of text"
run 2 train play.txt --load play-run
err_has "a text and --load exclude each other"
run 2 train play.txt --data-path x
err_has "a text and --data-path exclude each other"
run 2 train play.txt --check
err_has "--check writes nothing"
head -c 3000 /dev/urandom >noise.bin
run 1 train noise.bin
err_has "noise.bin"

# ---- what is remembered: as if all had been typed again
train=(train --token-ids "$old/ids.txt" --lr 1e-2 --lr-decay-iters 8 --seed 7
    --engine reference --log-interval 1)
cat >config.json <<'J'
{"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 1,
 "n_positions": 4, "vocab_size": 7}
J
run 0 "${train[@]}" --model config.json --train-iters 8 --save whole
run 0 "${train[@]}" --model config.json --train-iters 4 --save part --log part.jsonl
run 0 train --load part --train-iters 8
err_has "remembered from part/step-00000004: --save part --token-ids $old/ids.txt --seed 7 --lr 1e-2 --lr-decay-iters 8 --engine reference --log part.jsonl --log-interval 1"
err_lacks "another run"
same "hash" "$(hash_of part)" "$(hash_of whole)"
same "log" "$(wc -l <part.jsonl)" 9
run 0 train --load part
err_has "nothing to do: the checkpoint has all 8 steps"

# A remembered run remembers; what is given again wins.
run 0 train --load part --train-iters 9 --lr 1e-3
err_has "--seed 7 --lr-decay-iters 8"
err_has "lr is 0.01 in the checkpoint and 0.001 here"
run 0 train --load part --train-iters 10
err_has "--lr 1e-3"
err_lacks "another run"

# A line that says all that has to be said takes nothing of the run.
run 0 "${train[@]}" --load whole --train-iters 9
err_lacks "remembered"
[ ! -d whole/step-00000009 ] || fail "it was saved"

# A step is resumed, but its folder is not written.
run 0 train --load part/step-00000008 --train-iters 9
err_lacks "--save"

# Settings of release 0.1.0: all but the number of steps.
cp -r "$old" old
chmod -R u+w old
run 2 train --load old
err_has "missing: --train-iters;"
cd old || exit 1
run 0 train --load . --train-iters 5 --token-ids ids.txt
err_has "remembered from ./step-00000004: --save ."
[ -d step-00000005 ] || fail "no checkpoint"
cd ..
rm old/step-00000005/MANIFEST.json
run 1 train --load empty
err_has "--load: there is no checkpoint in empty; leave out --load to start a run"
mkdir -p broken/step-00000004
echo "{}" >broken/step-00000004/MANIFEST.json
run 1 train --load broken
err_has "broken has no checkpoint that is whole"
finish
