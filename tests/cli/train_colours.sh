#!/usr/bin/env bash
# train learns from CIFAR-10's files with small networks of the shapes of
# AlexNet, VGG and ResNet-50.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive

# The label is which of the three colours is bright, in two files of training.
mkdir "$work/cifar"
python3 - "$work/cifar" <<'END'
import random, sys
random.seed(7)
def records(count):
    out = bytearray()
    for _ in range(count):
        label = random.randrange(3)
        out.append(label)
        for colour in range(3):
            low = 110 if colour == label else 0
            out += bytes(random.randrange(low, low + 146) for _ in range(1024))
    return bytes(out)
for name, count in ("data_batch_1", 96), ("data_batch_2", 32), ("test_batch", 32):
    open(f"{sys.argv[1]}/{name}.bin", "wb").write(records(count))
END
head='"model_type": "penstock_cnn", "num_channels": 3, "image_size": 32, "num_labels": 3'
cat >"$work/alexnet.json" <<END
{$head, "layers": [
 {"conv": 8, "kernel": 11, "stride": 2, "padding": 2, "pool": 3, "pool_stride": 2},
 {"conv": 12, "kernel": 5}, {"conv": 12, "pool": 3, "pool_stride": 2},
 {"dense": 16, "repeat": 2}]}
END
cat >"$work/vgg.json" <<END
{$head, "layers": [{"conv": 4, "repeat": 2, "pool": 2}, {"conv": 8, "repeat": 2, "pool": 2},
 {"conv": 8, "repeat": 3, "pool": 2}, {"dense": 16, "repeat": 2}]}
END
cat >"$work/resnet.json" <<END
{$head, "layers": [
 {"conv": 8, "kernel": 7, "stride": 2, "norm": true, "pool": 3, "pool_stride": 2, "pool_padding": 1},
 {"residual": 16, "inner": 4, "repeat": 2}, {"residual": 32, "inner": 8, "stride": 2, "repeat": 2}],
 "global_average": true}
END
for model in alexnet vgg resnet; do
    run 0 train --model "$work/$model.json" --data-path "$work/cifar" \
        --threads 1 --lr 1e-2 --train-iters 30 --micro-batch-size 32 \
        --log-interval 50 --eval-interval 30 --eval-iters 1 \
        --save "$work/$model" --log "$work/$model.jsonl"
    python3 -c 'import json, sys
steps = [json.loads(line) for line in list(open(sys.argv[1]))[1:]]
print(steps[0]["loss"] > 2 * steps[-1]["loss"] and steps[-1]["val_accuracy"] > 0.6)' \
        "$work/$model.jsonl" >"$work/learnt"
    same "$model learns" "$(cat "$work/learnt")" True
done

# Colours are no grey, and a network has its size.
run 1 train --model preset:mnist-cnn --data-path "$work/cifar" --train-iters 1 --threads 1 --lr 1
err_has "the model takes images of 1 channels, but the data has 3"
run 1 train --model preset:vgg-16 --data-path "$work/cifar" --train-iters 1 --threads 1 --lr 1
err_has "the model is for images of 224 x 224, not of 32 x 32"
run 0 train --model preset:cifar-cnn --data-path "$work/cifar" --train-iters 1 --threads 1 --lr 1

# A profile of an image network has the seconds of its layers; those between the
# first and the last are one mean, so it answers for replicas and not for a
# pipeline.
run 0 profile --model "$work/resnet.json" --micro-batch-size 2,4 --threads 1 \
    --rounds 5 -o "$work/profile.json"
same "what was measured" "$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(d["model"]["family"], d["sequence"], "full" in d["layers"]["block"])' \
    "$work/profile.json")" "penstock_cnn 1 False"
ask=(--model "$work/resnet.json" --cluster preset:xeon-amx-core\*2
    --profile "$work/profile.json" --global-batch-size 4 --micro-batch-size 4)
run 0 predict "${ask[@]}" --dp 1 --json
same "parameters" "$(json 'd["step_sec"] > 0 and d["peak_bytes"] > 0')" True
run 1 predict "${ask[@]}" --pp 2
err_has "pp 2: a profile has only the mean of the layers"
run 0 plan "${ask[@]:0:7}" 4 --json
same "a plan" "$(json 'd["plans"][0]["degrees"]["pp"]')" 1
run 1 profile --model "$work/resnet.json" --seq-length 8
err_has "--seq-length is for text, but the model is for images"
run 1 profile --model "$work/resnet.json" --recompute-granularity full
err_has "--recompute-granularity is for text, but the model is for images"
finish
