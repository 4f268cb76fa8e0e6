#!/usr/bin/env bash
# checkpoint lists, verifies and hashes. The files are written here by Python
# from docs/formats.md, and the hash is computed a second time, so that both
# say the same of the format.
. "$(dirname "$0")/support.bash"

cat >"$work/write.py" <<'END'
import hashlib, json, os, struct, sys

CONFIG = {"model_type": "gpt2", "n_embd": 2, "n_layer": 1, "n_head": 1,
          "n_positions": 3, "vocab_size": 5, "torch_dtype": "float32"}
h = "transformer.h.0."
SHAPES = {"transformer.wte.weight": [5, 2], "transformer.wpe.weight": [3, 2],
          h + "ln_1.weight": [2], h + "ln_1.bias": [2],
          h + "attn.c_attn.weight": [2, 6], h + "attn.c_attn.bias": [6],
          h + "attn.c_proj.weight": [2, 2], h + "attn.c_proj.bias": [2],
          h + "ln_2.weight": [2], h + "ln_2.bias": [2],
          h + "mlp.c_fc.weight": [2, 8], h + "mlp.c_fc.bias": [8],
          h + "mlp.c_proj.weight": [8, 2], h + "mlp.c_proj.bias": [2],
          "transformer.ln_f.weight": [2], "transformer.ln_f.bias": [2]}

def size(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)

def values(step, part, name):
    n = sum(map(ord, name)) + 1000 * step + 100000 * part
    return [n / 8 + i for i in range(size(SHAPES[name]))]

def f32(numbers):
    return struct.pack("<%df" % len(numbers), *numbers)

def bf16(numbers):
    return b"".join(struct.pack("<f", x)[2:] for x in numbers)

def write_tensors(path, tensors, dtype="F32"):
    header, data = {}, b""
    for name, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)

def write_plain(path, step, shards=1, dtype="F32", prefix=""):
    os.makedirs(path)
    with open(path + "/config.json", "w") as f:
        json.dump(CONFIG, f)
    raw = bf16 if dtype == "BF16" else f32
    tensors = [(n.removeprefix(prefix), s, raw(values(step, 0, n)))
               for n, s in SHAPES.items()]
    if shards == 1:
        write_tensors(path + "/model.safetensors", tensors, dtype)
        return
    places = {}
    for i in range(shards):
        file = "model-%05d-of-%05d.safetensors" % (i + 1, shards)
        write_tensors(path + "/" + file, tensors[i::shards], dtype)
        places.update({t[0]: file for t in tensors[i::shards]})
    with open(path + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": places}, f)

def write_step(run, step, moments=2, shards=1, run_id="00000000000000a1"):
    path = "%s/step-%08d" % (run, step)
    write_plain(path, step, shards)
    if moments:
        write_tensors(path + "/optimizer.safetensors",
                      [("%s.moment%d" % (n, m), s, f32(values(step, m, n)))
                       for m in range(1, moments + 1)
                       for n, s in SHAPES.items()])
    files = []
    for name in sorted(os.listdir(path)):
        data = open(path + "/" + name, "rb").read()
        files.append({"name": name, "bytes": len(data),
                      "sha256": hashlib.sha256(data).hexdigest()})
    settings = {"lr": 0.5, "bf16": False, "seed": 7, "style": "cosine"}
    compact = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    text = json.dumps(
        {"format": "penstock-checkpoint", "version": 2, "run": run_id,
         "step": step, "sample": 32 * step, "dtype": "F32",
         "optimizer": {"name": "adamw", "moments": moments},
         "random": {"dropout": "00000000000004d2"}, "configuration": settings,
         "configuration_sha256": hashlib.sha256(compact.encode()).hexdigest(),
         "files": files, "previous": None}, indent=2)[:-2]
    seal = hashlib.sha256(text.encode()).hexdigest()
    with open(path + "/MANIFEST.json", "w") as f:
        f.write(text + ',\n  "sha256": "%s"\n}\n' % seal)

def widened(numbers):
    raw = bf16(numbers)
    return b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))

def rounded(numbers):
    out = b""
    for x in numbers:
        bits = struct.unpack("<I", struct.pack("<f", x))[0]
        bits += 0x7fff + (bits >> 16 & 1)
        out += struct.pack("<I", bits & 0xffff0000)
    return out

def state_hash(step, moments, raw=f32):
    h = hashlib.sha256()
    for name, shape in SHAPES.items():
        for part, word in enumerate(["weight", "moment1", "moment2"]):
            if part > moments:
                break
            h.update(("%s %s F32 [%s]\n" % (
                name, word, ",".join(map(str, shape)))).encode())
            h.update(raw(values(step, part, name)))
    return h.hexdigest()

work = sys.argv[1]
write_step(work + "/run", 9)
write_step(work + "/run", 10)
write_step(work + "/one", 10, moments=1, shards=3)
write_step(work + "/sgd", 10, moments=0)
write_step(work + "/mixed", 9)
write_step(work + "/mixed", 10, run_id="00000000000000b2")
write_plain(work + "/plain", 10, shards=2)
write_plain(work + "/bare", 10, prefix="transformer.")
write_plain(work + "/half", 10, dtype="BF16")
for moments in range(3):
    print(state_hash(10, moments))
print(state_hash(9, 2))
print(state_hash(10, 0, widened))
print(state_hash(10, 0, rounded))
END
mapfile -t expected < <(python3 "$work/write.py" "$work")

# The hash of a state is that of the documented bytes, whatever the files.
hash_of() { # ARGS...
    run 0 checkpoint hash "$@"
    cut -d' ' -f1 "$work/out"
}
same "run" "$(hash_of "$work/run")" "${expected[2]}"
err_empty
out_has "  $work/run/step-00000010"
same "step" "$(hash_of "$work/run/step-00000009")" "${expected[3]}"
same "one moment, shards" "$(hash_of "$work/one")" "${expected[1]}"
same "no moments" "$(hash_of "$work/sgd")" "${expected[0]}"
same "weights of a step" "$(hash_of --weights "$work/run")" "${expected[0]}"
same "plain" "$(hash_of "$work/plain")" "${expected[0]}"
err_has "$work/plain has no manifest: only its weights are hashed"
same "plain weights" "$(hash_of --weights "$work/plain")" "${expected[0]}"
err_empty
same "names without prefix" "$(hash_of "$work/bare")" "${expected[0]}"
run 0 checkpoint hash "$work/run" "$work/one"
same "two hashes" "$(cut -d' ' -f1 "$work/out" | paste -sd' ')" \
    "${expected[2]} ${expected[1]}"
same "bfloat16 is widened" "$(hash_of "$work/half")" "${expected[4]}"

run 0 checkpoint ls "$work/run"
out_has "whole"
run 0 checkpoint ls "$work/run" --json
same "steps" "$(json '[e["step"] for e in d["checkpoints"]]')" "[9, 10]"
same "whole" "$(json 'all(e["whole"] and e["reason"] is None for e in d["checkpoints"])')" True
same "bytes" "$(json 'd["checkpoints"][1]["bytes"]')" \
    "$(cat "$work"/run/step-00000010/[a-z]* | wc -c)"
same "age" "$(json 'abs(d["checkpoints"][1]["written"] - __import__("time").time()) < 600')" \
    True
same "path" "$(json 'd["checkpoints"][0]["path"]')" "$work/run/step-00000009"
run 0 checkpoint verify "$work/run" "$work/one/step-00000010"
same "verified" "$(grep -c ': whole$' "$work/out")" 3

# Other shards: the same hash, and all that a run needs to go on.
run 0 checkpoint reshard "$work/run" -o "$work/small" --max-shard-size 200B
out_has "$work/small/step-00000010"
err_empty
small=$work/small/step-00000010
about "resharded"
[ -f "$small/model.safetensors.index.json" ] || fail "there is no index"
[ -f "$small/optimizer-00002-of-00005.safetensors" ] || fail "$(ls "$small")"
same "hash" "$(hash_of "$work/small")" "${expected[2]}"
run 0 checkpoint verify "$work/small"
cat >"$work/compare.py" <<'END'
import json, sys
a, b = (json.load(open(path + "/MANIFEST.json")) for path in sys.argv[1:])
drop = ("files", "sha256", "previous", "logical_replicas")
print({k: v for k, v in a.items() if k not in drop} ==
      {k: v for k, v in b.items() if k not in drop}, b["logical_replicas"])
END
same "manifests" "$(python3 "$work/compare.py" "$work/run/step-00000010" \
    "$small")" "True 1"
run 0 checkpoint reshard "$small" -o "$work/small" --max-shard-size 0
about "resharded in its place"
[ ! -e "$small/model.safetensors.index.json" ] || fail "the index is still there"
same "hash" "$(hash_of "$work/small")" "${expected[2]}"
cmp "$small/config.json" "$work/run/step-00000010/config.json" ||
    fail "another configuration"

# The id of the run goes with a step; steps of several runs are not mixed.
run 0 checkpoint ls "$work/small" --json
same "run" "$(json 'd["checkpoints"][0]["run"]')" 00000000000000a1
run 0 checkpoint ls "$work/mixed"
out_has 00000000000000b2
both="(id 00000000000000b2, newest step 10; id 00000000000000a1, newest step 9)"
run 1 checkpoint hash "$work/mixed"
err_has "$work/mixed holds steps of 2 runs $both: name the step to use, such as $work/mixed/step-00000010, or move the steps of all but one run elsewhere"
run 0 checkpoint hash "$work/mixed/step-00000010"
run 1 checkpoint reshard "$work/mixed/step-00000010" -o "$work/small"
err_has "$work/small holds steps of another run than this one (id 00000000000000b2); write to another folder"
same "hash" "$(hash_of "$work/small")" "${expected[2]}"
same "modes" "$(stat -c %a "$work/small" "$small" "$small/MANIFEST.json" \
    "$small/model.safetensors" "$small/config.json" | paste -sd' ')" \
    "700 700 600 600 600"

# What 0.1.0 wrote has no id; all of it counts as one run.
old=$(dirname "$0")/../old/0.1.0/checkpoint
same "0.1.0" "$(hash_of "$old")" \
    b9bb7d5f678aff0ed4c946ae911880331b94fb3366e3ee571aefdf31cd6015af
run 0 checkpoint verify "$old"
same "verified" "$(grep -c ': whole$' "$work/out")" 2
run 0 checkpoint ls "$old" --json
same "runs" "$(json '{e["run"] for e in d["checkpoints"]}')" "{'0000000000000000'}"

# Weights for others, in either type.
run 0 checkpoint export "$work/one" -o "$work/float/"
same "exported" "$(ls "$work/float" | paste -sd' ')" \
    "config.json model.safetensors"
same "hash of export" "$(hash_of "$work/float")" "${expected[0]}"
run 0 checkpoint export "$work/one" -o "$work/f32" --dtype f32
same "hash of f32" "$(hash_of "$work/f32")" "${expected[0]}"
run 0 checkpoint export "$work/one" -o "$work/bf16" --dtype bf16 \
    --max-shard-size 100B
same "hash of bf16" "$(hash_of "$work/bf16")" "${expected[5]}"
same "type" "$(grep -o 'bfloat16' "$work/bf16/config.json")" bfloat16
[ -f "$work/bf16/model.safetensors.index.json" ] || fail "there is no index"
run 1 checkpoint export "$work/one" -o "$work/bf16"
err_has "$work/bf16 already exists"
mkdir "$work/new.part"
run 1 checkpoint export "$work/one" -o "$work/new"
err_has "cannot make $work/new.part: File exists; remove it unless another process"
run 1 checkpoint export "$work/plain" -o "$work/new2"
err_has "is not a checkpoint"

# One wrong bit: verify names the file, hash takes the step before it.
file=$work/run/step-00000010/optimizer.safetensors
printf 'x' | dd of="$file" bs=1 seek=2000 conv=notrunc status=none
run 1 checkpoint verify "$work/run"
err_has "$file is damaged: its SHA-256 is $(sha256sum "$file" | cut -d' ' -f1), but the manifest has"
out_has "$work/run/step-00000009: whole"
same "hash passes over" "$(hash_of "$work/run")" "${expected[3]}"
err_has "$file is damaged"
run 1 checkpoint hash "$work/run/step-00000010"
run 0 checkpoint ls "$work/run" --json
same "sizes are right" "$(json 'd["checkpoints"][1]["whole"]')" True
truncate -s -3 "$file"
run 1 checkpoint verify "$work/run/step-00000010"
err_has "$file has $(stat -c %s "$file") bytes, must have $(($(stat -c %s "$file") + 3))"
run 0 checkpoint ls "$work/run"
out_has "$file has"
run 0 checkpoint ls "$work/run" --json
same "not whole" "$(json 'd["checkpoints"][1]["whole"], "has" in d["checkpoints"][1]["reason"]')" \
    "(False, True)"

# A manifest that points outside, sealed as it should be.
python3 - "$work/sgd/step-00000010/MANIFEST.json" <<'END'
import hashlib, sys
text = open(sys.argv[1]).read().split(',\n  "sha256": "')
head = ',\n  "sha256": "'.join(text[:-1]).replace('"config.json"', '"../x"')
seal = hashlib.sha256(head.encode()).hexdigest()
open(sys.argv[1], "w").write(head + ',\n  "sha256": "%s"\n}\n' % seal)
END
run 1 checkpoint verify "$work/sgd"
err_has "files[0].name must be the name of a file in the manifest's folder"
run 1 checkpoint hash "$work/sgd"
err_has "$work/sgd has no complete checkpoint"

mkdir "$work/empty"
run 1 checkpoint ls "$work/empty"
err_has "$work/empty is not a run: it has no folder step-NNNNNNNN"
run 1 checkpoint verify "$work/empty"
err_has "MANIFEST.json: No such file or directory"
run 1 checkpoint hash "$work/empty"
run 1 checkpoint ls "$work/none"
err_has "cannot open $work/none"

run 2 checkpoint
err_has "Usage: penstock checkpoint"
run 2 checkpoint verfy
err_has "did you mean checkpoint verify"
run 2 checkpoint hash
err_has "expected DIR"
run 2 checkpoint ls a b
err_has "unexpected argument 'b'"
run 2 checkpoint verify --json
run 2 checkpoint reshard "$work/run"
err_has "expected -o"
run 2 checkpoint export "$work/run" -o "$work/x" --dtype fp8
err_has "--dtype must be f32 or bf16, not 'fp8'"
for size in x -1 1.5GB 12XB 9999999999; do
    run 2 checkpoint reshard "$work/run" -o "$work/x" --max-shard-size=$size
    err_has "--max-shard-size must be a size as 200MB or 2GiB, not '$size'"
done
for verb in ls verify hash reshard export; do
    run 0 checkpoint $verb --help
    out_has "Usage: penstock checkpoint $verb"
    run 0 help checkpoint $verb
    out_has "Usage: penstock checkpoint $verb"
done
run 0 help checkpoint
out_has "--weights"
run 0 checkpoint --help
out_has "Usage: penstock checkpoint"
finish
