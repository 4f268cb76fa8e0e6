#!/usr/bin/env bash
# plan and predict answer for image networks: replicas of every number, fewer
# devices, energy, pipelines; what is for text is refused.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

v100=(--cluster preset:v100-32\*8)
for model in alexnet vgg-16 resnet-50 mnist-cnn cifar-cnn; do
    run 0 plan --model "preset:$model" "${v100[@]}" --global-batch-size 840 --json
    same "$model, target" "$(json 'd["target"]')" deepspeed
    same "$model, numbers" "$(json 'd["dtype"]')" f32
done

# The share of a replica divides the batch: eight numbers of devices, all timed.
run 0 plan --model preset:alexnet "${v100[@]}" --global-batch-size 840 \
    --objective energy --json
same "devices" "$(json 'sorted(p["devices"] for p in d["by_devices"])')" \
    "[1, 2, 3, 4, 5, 6, 7, 8]"
same "least energy" "$(json 'd["plans"][0]["devices"]')" 1
run 0 plan --model preset:alexnet "${v100[@]}" --global-batch-size 840 --within 100% --json
fewest=$(json 'd["plans"][0]["devices"]')
[ "$fewest" -lt 8 ] || fail "within 100 % of the best are fewer than 8 devices, not $fewest"
run 0 plan --model preset:vgg-16 "${v100[@]}" --global-batch-size 256
out_has "a batch of 256 images"
out_has "samples/s"
grep -q "tokens" "$work/out" && fail "an image has no tokens"
run 0 plan --model preset:vgg-16 "${v100[@]}" --global-batch-size 256 --html "$work/page.html"
grep -q "tokens" "$work/page.html" && fail "an image has no tokens"

# One layout, and a pipeline.
one=(--model preset:vgg-16 --global-batch-size 64 --micro-batch-size 8)
run 0 predict "${one[@]}" "${v100[@]}" --dp 2 --pp 4 --schedule 1f1b --json
same "layers of the stages" "$(json 'sum(d["layers"])')" 16
run 0 predict "${one[@]}" "${v100[@]}" --dp 8 --json
dp=$(json 'd["step_sec"]')
run 0 predict "${one[@]}" --cluster preset:v100-32\*1 --json
same "eight devices are faster" "$(json "d[\"step_sec\"] > 5 * $dp")" True

# A plan carries its network.
run 0 plan --model preset:resnet-50 "${v100[@]}" --global-batch-size 256 -o "$work/plan.json"
run 0 plan check "$work/plan.json" --json
same "images" "$(json 'd["micro_batch"] * d["num_microbatches"] * d["degrees"]["dp"]')" 256

# Mistakes that users make.
run 1 predict "${one[@]}" "${v100[@]}" --seq-length 224
err_has "--seq-length is for text, but the model is for images"
run 1 predict "${one[@]}" "${v100[@]}" --tp 2
err_has "tp 2: networks for images are cut by dp and pp only"
run 1 predict "${one[@]}" "${v100[@]}" --recompute-granularity full
err_has "recomputation is for text"
run 1 predict "${one[@]}" "${v100[@]}" --target megatron
err_has "megatron does not train networks for images; use --target penstock or deepspeed"
run 1 plan --model preset:vgg "${v100[@]}" --global-batch-size 1 --seq-length 1
err_has "for images preset:alexnet"
run 2 plan --model preset:resnet-50 "${v100[@]}"
err_has "--global-batch-size is required"
echo '{"model_type": "penstock_mlp", "hidden_sizes": []}' >"$work/head.json"
run 1 plan --model "$work/head.json" "${v100[@]}" --global-batch-size 8
err_has "the network has 1 layers; plan, predict and profile support 2 to 64"
run 1 export "$work/plan.json" -o "$work/out.d"
err_has "is for an image network; export writes layouts of text models only"
finish
