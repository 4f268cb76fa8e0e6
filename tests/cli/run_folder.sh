#!/usr/bin/env bash
# A folder of --save belongs to one run and one job: what would mix it with
# another is refused before the first step, with the way out.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "training is not built; skipped"
    exit 77
fi
old=$(realpath "$(dirname "$0")/../old/0.1.0/checkpoint")
cat >"$work/config.json" <<'J'
{"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 1,
 "n_positions": 4, "vocab_size": 7}
J
train=(train --token-ids "$old/ids.txt" --lr 1e-2 --lr-decay-iters 100
    --engine reference --log-interval 1)
start=("${train[@]}" --model "$work/config.json")
id_of() { # STEP-FOLDER
    python3 -c 'import json, sys
print(json.load(open(sys.argv[1] + "/MANIFEST.json"))["run"])' "$1"
}

# A new run does not write among the steps of another.
run 0 "${start[@]}" --train-iters 4 --save "$work/run" --save-interval 2
first=$(id_of "$work/run/step-00000002")
same "id of all steps" "$(id_of "$work/run/step-00000004")" "$first"
before=$(cd "$work/run" && sha256sum step-*/*)
run 1 "${start[@]}" --train-iters 2 --save "$work/run"
err_has "$work/run holds steps of another run (id $first, newest step 4): resume it with --load $work/run, or give --save another folder"
out_empty
same "the other run" "$(cd "$work/run" && sha256sum step-*/*)" "$before"
run 1 "${start[@]}" --train-iters 2 --save "$work/run" --model "$work/run"
err_has "holds steps of another run"

# Only the owner reads what is saved.
same "modes" "$(find "$work/run" -printf '%m %y\n' | sort -u | paste -sd,)" \
    "600 f,700 d"

# Resuming keeps the id; a fork into another folder gets one of its own.
run 0 "${train[@]}" --train-iters 6 --load "$work/run" --save "$work/run"
same "id after resuming" "$(id_of "$work/run/step-00000006")" "$first"
run 0 "${train[@]}" --train-iters 7 --load "$work/run" --save "$work/fork"
fork=$(id_of "$work/fork/step-00000007")
[ "$fork" != "$first" ] || fail "the fork has the id of the run"
run 1 "${train[@]}" --train-iters 9 --load "$work/run" --save "$work/fork"
err_has "$work/fork holds steps of another run (id $fork, newest step 7) than $work/run/step-00000006 (id $first): give --save another folder, or move those steps elsewhere"
run 1 "${train[@]}" --train-iters 9 --load "$work/run/step-00000004" \
    --save "$work/run"
err_has "$work/run holds newer steps of this run (newest step 6) than $work/run/step-00000004, which --load gives"

# Steps of two runs in one folder: neither is taken for the other's.
cp -r "$work/run" "$work/mixed"
cp -r "$work/fork/step-00000007" "$work/mixed"
run 1 "${train[@]}" --train-iters 9 --load "$work/mixed" --save "$work/mixed"
err_has "$work/mixed holds steps of 2 runs (id $fork, newest step 7; id $first, newest step 6): name the step to use, such as $work/mixed/step-00000007, or move the steps of all but one run elsewhere"

# A damaged newest step is named, and so is the one that is used instead.
cp -r "$work/run" "$work/damaged"
printf x | dd of="$work/damaged/step-00000006/model.safetensors" bs=1 seek=2000 \
    conv=notrunc status=none
for model in "" "--model $work/config.json"; do
    rm -rf "$work/mended"
    cp -r "$work/damaged" "$work/mended"
    # shellcheck disable=SC2086 # no word, or two
    run 0 "${train[@]}" $model --train-iters 5 --load "$work/mended" \
        --save "$work/mended"
    err_has "newer steps are damaged and were skipped; $work/mended/step-00000004 is used instead"
    err_has "$work/mended/step-00000006/model.safetensors is damaged: its SHA-256 is"
    err_has "resuming after step 4"
done

# 0.1.0 wrote no id; its run goes on.
cp -r "$old" "$work/old"
run 1 "${start[@]}" --train-iters 6 --save "$work/old"
err_has "$work/old holds steps of another run (id 0000000000000000, newest step 4)"
cd "$old" || exit 1 # its settings have ids.txt without a folder
run 0 train --token-ids ids.txt --lr 1e-2 --lr-decay-iters 4 \
    --engine reference --train-iters 6 --load "$work/old" --save "$work/old"
cd - >/dev/null || exit 1
err_has "resuming after step 4"
err_lacks "another run"
run 0 "${train[@]}" --train-iters 8 --load "$work/old" --save "$work/old"
err_has "resuming after step 6"
run 0 checkpoint verify "$work/old"

# The newest verified steps are kept, and the one that was loaded.
run 0 "${start[@]}" --train-iters 5 --save "$work/few" --save-interval 1 \
    --save-keep 2
same "steps" "$(ls "$work/few" | paste -sd' ')" "step-00000004 step-00000005"
run 0 "${train[@]}" --train-iters 9 --load "$work/few" --save "$work/few" \
    --save-interval 1 --save-keep 1
same "steps" "$(ls "$work/few" | paste -sd' ')" "step-00000005 step-00000009"
run 2 "${start[@]}" --train-iters 5 --save-keep 2
err_has "--save-keep needs --save"
run 2 "${start[@]}" --train-iters 5 --save "$work/x" --save-keep 0
err_has "--save-keep must be"

# While a job trains, a second one is refused and the first goes on.
"$PENSTOCK" "${start[@]}" --train-iters 1000000 --save "$work/busy" \
    --save-interval 50 >"$work/first" 2>&1 &
job=$!
trap 'kill -KILL "$job" 2>/dev/null; rm -rf "$work"' EXIT
for ((i = 0; i < 6000; i++)); do
    [ ! -d "$work/busy/step-00000050" ] || break
    sleep 0.1
done
for load in "" "--load $work/busy"; do
    # shellcheck disable=SC2086 # no word, or two
    run 1 "${start[@]}" --train-iters 2000000 --save "$work/busy" $load
    busy=$(id_of "$work/busy/step-00000050")
    err_has "$work/busy is in use by another job (run $busy, process $job on $(uname -n)): wait until it has ended, or give --save another folder"
    out_empty
done
kill -0 "$job" || fail "the first job has ended: $(tail -3 "$work/first")"
kill -KILL "$job"
wait "$job" 2>/dev/null
run 0 "${start[@]}" --train-iters 50 --load "$work/busy" --save "$work/busy"
err_has "nothing to do"

# A folder that cannot be written: known before the first step.
touch "$work/file"
run 1 "${start[@]}" --train-iters 5 --save "$work/file"
err_has "cannot"
out_empty
run 1 "${start[@]}" --train-iters 5 --save "$work/none/run"
err_has "cannot make $work/none/run: No such file or directory"
out_empty
if [ "$(id -u)" = 0 ] && mkdir "$work/full" &&
    mount -t tmpfs -o size=4k,nr_inodes=64 tmpfs "$work/full" 2>/dev/null; then
    head -c 4096 /dev/zero >"$work/full/filler"
    run 1 "${start[@]}" --train-iters 5 --save "$work/full"
    umount "$work/full"
    err_has "no checkpoint can be saved: cannot write $work/full/.tmp-probe"
    out_empty
fi
finish
