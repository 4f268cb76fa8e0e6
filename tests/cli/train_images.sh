#!/usr/bin/env bash
# train learns labels of images from MNIST's files, goes on after an
# interruption as if there had been none, running statistics included, and
# refuses data that does not fit; eval agrees with it.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive

# Images of 12 x 12 with a bright quarter, whose number is the label, but for
# every tenth to test on, which is labelled wrong. Half of the files are packed.
mkdir "$work/quarters" "$work/plain"
python3 - "$work/quarters" "$work/plain" <<'END'
import gzip, random, struct, sys
random.seed(7)
packed, plain = sys.argv[1:]
for part, count in ("train", 600), ("t10k", 200):
    labels = bytes(random.randrange(4) for _ in range(count))
    pixels = bytes(random.randrange(120, 256)
                   if (y // 6, x // 6) == divmod(label, 2) else random.randrange(160)
                   for label in labels for y in range(12) for x in range(12))
    images = struct.pack(">4I", 2051, count, 12, 12) + pixels
    if part == "t10k":
        labels = bytes((label + (i % 10 == 9)) % 4 for i, label in enumerate(labels))
    labels = struct.pack(">2I", 2049, count) + labels
    for folder in packed, plain:
        open(f"{folder}/{part}-labels-idx1-ubyte", "wb").write(labels)
    open(f"{plain}/{part}-images-idx3-ubyte", "wb").write(images)
    gzip.open(f"{packed}/{part}-images-idx3-ubyte.gz", "wb").write(images)
END
cat >"$work/cnn.json" <<'END'
{"model_type": "penstock_cnn", "image_size": 12, "conv_sizes": [4, 8],
 "kernel_size": 3, "hidden_sizes": [16], "num_labels": 4}
END
cat >"$work/resnet.json" <<'END'
{"model_type": "resnet", "num_channels": 1, "embedding_size": 8,
 "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic",
 "num_labels": 4}
END
options=(--threads 1 --peak-tflops 0.05 --log-interval 50 --lr 1e-2)
images=(--data-path "$work/quarters" "${options[@]}")

# Stopped at step 37 of 60: the same bits as a run that was never stopped.
for model in cnn resnet; do
    for kind in "" "--bf16"; do
        for batch in "--micro-batch-size 32" \
            "--micro-batch-size 8 --global-batch-size 24"; do
            # shellcheck disable=SC2206
            same_run=(--model "$work/$model.json" "${images[@]}"
                --train-iters 60 $kind $batch)
            resumes_after_37 "$model $kind $batch" "${same_run[@]}"
        done
    done
done

# It learns and tells so everywhere; eval agrees, whatever the batch.
run 0 train --model "$work/resnet.json" "${images[@]}" --train-iters 60 \
    --micro-batch-size 32 --eval-interval 30 --eval-iters 1000 \
    --save "$work/run" --log "$work/run.jsonl"
out_has "images/s"
out_has "validation accuracy "
python3 - "$work/run.jsonl" >"$work/out" <<'END'
import json, sys
head, *steps = [json.loads(line) for line in open(sys.argv[1])]
last = steps[-1]
print(json.dumps({
    "falls": steps[0]["loss"] > 1 and last["loss"] < 0.2,
    "right": 0.87 <= last["val_accuracy"] <= 0.9, "images": last["tokens"],
    "val": (round(last["val_loss"], 5), last["val_accuracy"]),
    "evaluated": [s["step"] for s in steps if "val_accuracy" in s]}))
END
about "the log"
same "the loss falls" "$(json 'd["falls"]')" True
same "labels are right" "$(json 'd["right"]')" True
same "images" "$(json 'd["images"]')" 1920
same "evaluated" "$(json 'd["evaluated"]')" "[30, 60]"
val=$(json 'd["val"]')
for how in "--micro-batch-size 1" "--micro-batch-size 7" \
    "--micro-batch-size 256" "--engine reference --micro-batch-size 50"; do
    # shellcheck disable=SC2086
    run 0 eval --model "$work/run" --data-path "$work/quarters" --threads 1 \
        --json $how
    same "eval, $how" \
        "$(json '[round(d["loss"], 5), d["accuracy"]]')" "$val"
    same "images" "$(json 'd["images"]')" 200
done
run 0 eval --model "$work/run" --data-path "$work/quarters" --threads 1
out_has "% over 200 images"

# Evaluations change nothing; packed or not, the images are the same.
run 0 train --model "$work/resnet.json" "${options[@]}" --train-iters 60 \
    --micro-batch-size 32 --save "$work/silent" --data-path "$work/plain"
same "a run without evaluations" "$(hash_of "$work/silent")" \
    "$(hash_of "$work/run")"

# The reference agrees; a training may start from weights.
losses() { # OPTIONS...
    run 0 train "${images[@]}" --train-iters 4 --micro-batch-size 16 \
        --log "$work/l.jsonl" "$@"
    python3 -c 'import json, sys
print(*[round(json.loads(line)["loss"], 4) for line in list(open(sys.argv[1]))[1:]])' \
        "$work/l.jsonl"
}
same "the reference" \
    "$(losses --model "$work/resnet.json" --engine reference)" \
    "$(losses --model "$work/resnet.json")"
run 0 train --model "$work/run" "${images[@]}" --train-iters 1
grep -q 'loss 0\.' "$work/out" || fail "weights of the run were not used"

# Mistakes that users make.
refused() { # WORDS OPTIONS...
    local words=$1
    shift
    run 1 train --model "$work/cnn.json" "${images[@]}" --train-iters 10 "$@"
    err_has "$words"
}
mkdir "$work/bad"
bad=(--model "$work/cnn.json" --threads 1 --lr 1 --train-iters 1
    --data-path "$work/bad")
run 1 train "${bad[@]}"
err_has "$work/bad has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"
cp "$work"/plain/* "$work/bad"
printf '\0\0\10\1' | dd of="$work/bad/train-images-idx3-ubyte" conv=notrunc status=none
run 1 train "${bad[@]}"
err_has "$work/bad/train-images-idx3-ubyte: the magic number is 2049; the one of images is 2051"
head -c 5000 "$work/plain/train-images-idx3-ubyte" >"$work/bad/train-images-idx3-ubyte"
run 1 train "${bad[@]}"
err_has "4984 bytes follow the header, but its 600 images take 86400"
cp "$work"/plain/* "$work/bad"
printf '\4' | dd of="$work/bad/train-labels-idx1-ubyte" bs=1 seek=13 conv=notrunc status=none
run 1 train "${bad[@]}"
err_has "image 5 of the part train has the label 4, but the largest label of the model is 3"
rm "$work"/bad/t10k-labels*
cp "$work"/plain/train-labels* "$work/bad"
run 0 train "${bad[@]}"
run 1 train "${bad[@]}" --eval-interval 1
err_has "$work/bad has neither t10k-labels-idx1-ubyte"
refused "the model is for images of 28 x 28, not of 12 x 12" \
    --model preset:mnist-cnn
sed 's/"num_channels": 1/"num_channels": 3/' "$work/resnet.json" >"$work/rgb.json"
refused "the model takes images of 3 channels, but the data has 1" \
    --model "$work/rgb.json"
refused "--seq-length is for text" --seq-length 12
refused "--data-path takes one folder of images, not 2" \
    --data-path "$work/plain"
refused "--recompute-granularity is for text" --recompute-granularity full
refused "for images preset:alexnet, preset:cifar-cnn, preset:mnist-cnn" --model preset:mnist
run 1 train --model preset:gpt2 "${images[@]}" --train-iters 1
err_has "$work/quarters is not a regular file"
run 1 eval --model "$work/run" --token-ids "$work/cnn.json"
err_has "--token-ids is for text, but the model is for images"
run 1 eval --model "$work/cnn.json" --data-path "$work/quarters"
err_has "has no weights to evaluate"
run 1 generate --model "$work/run" --prompt x
err_has "is a model for images and cannot generate text"
finish
