#!/usr/bin/env bash
# A loss or a gradient that is not finite ends train and eval with a sentence
# that names where it appeared first: the weights that were loaded, a layer's
# output, or a gradient. --lr is not blamed for what the weights held.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_WAIT_POLICY=passive
poke=$(cd "$(dirname "$0")/../support" && pwd)/poke_tensor.py
mkdir "$work/tiny"
cat >"$work/tiny/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 64,
 "n_layer": 2, "n_head": 4, "activation_function": "gelu_new",
 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END
awk 'BEGIN {
    for (i = 0; i < 64; i++)
        for (j = 0; j <= 16; j++) {
            x = (x * 1103 + 12347) % 65536
            printf "%d%s", int(x / 64) % 32, j < 16 ? " " : "\n"
        }
}' >"$work/ids.txt"
same=(--token-ids "$work/ids.txt" --threads 1)
run 0 train --model "$work/tiny" "${same[@]}" --train-iters 3 --lr 1e-3 \
    --save "$work/run"

# with TENSOR ELEMENT VALUE: makes $work/bad, the weights with bad elements.
with() {
    rm -rf "$work/bad" && mkdir "$work/bad"
    cp "$work"/run/step-00000003/{config.json,model.safetensors} "$work/bad"
    python3 "$poke" "$work/bad/model.safetensors" "$1" "$2" "$3"
}

tensor=transformer.h.1.mlp.c_fc.weight
for value in nan inf; do
    with $tensor 77 $value
    for command in "train --lr 1e-3 --train-iters 3" eval; do
        # shellcheck disable=SC2086
        run 1 $command --model "$work/bad" "${same[@]}"
        err_has "the weights that were loaded are damaged: $tensor is $value at element 77 of 16384"
        err_lacks "--lr"
        out_empty
    done
done

# Finite weights whose product is not: the layer is named, and no update was
# made that --lr could be blamed for.
with transformer.h.1.ln_2.weight all 3e38
for kind in "" --bf16 "--engine reference"; do
    # shellcheck disable=SC2086
    run 1 train --model "$work/bad" "${same[@]}" --lr 1e-3 --train-iters 3 $kind
    err_has "step 1 has the loss nan"
    err_has "the output of layer 2 (with transformer.h.1.ln_1.weight) on rank 0 is not, in the forward pass of samples 0 to 0"
    err_has "--lr is not the cause"
    # shellcheck disable=SC2086
    run 1 eval --model "$work/bad" "${same[@]}" $kind
    err_has "the loss of the evaluation is nan"
    err_has "the output of layer 2 (with transformer.h.1.ln_1.weight)"
    out_empty
done

# A rate that is too high is to blame, and the first gradient is named.
run 1 train --model "$work/tiny" "${same[@]}" --optimizer adam \
    --lr 1e4 --clip-grad 0 --train-iters 20
err_has "the gradient of transformer."
err_has "on rank 0 is not: the training has diverged; a lower --lr"

# A damaged moment is found when the run is resumed. The hash is made anew, so
# that the file itself is sound.
python3 - "$work/run/step-00000003" "$poke" <<'END'
import hashlib, json, os, struct, subprocess, sys
folder, poke = sys.argv[1:]
path = folder + "/optimizer.safetensors"
with open(path, "rb") as f:
    names = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
name = sorted(n for n in names if "c_fc.weight" in n)[0]
old = hashlib.sha256(open(path, "rb").read()).hexdigest()
subprocess.run(["python3", poke, path, name, "5", "nan"], check=True)
new = hashlib.sha256(open(path, "rb").read()).hexdigest()
manifest = folder + "/MANIFEST.json"
text = open(manifest).read()
assert old in text, "the manifest has another hash"
text = text.replace(old, new)
text = text[:text.rindex(',\n  "sha256"')]
whole = hashlib.sha256(text.encode()).hexdigest()
open(manifest, "w").write(text + f',\n  "sha256": "{whole}"\n}}\n')
END
run 1 train --load "$work/run" "${same[@]}" --train-iters 6 --lr 1e-3
err_has "the weights that were loaded are damaged: "
err_has "is nan at element 5 of "

finish
