#!/usr/bin/env python3
"""A block of Mixtral beside transformers' MixtralDecoderLayer in PyTorch: forward and backward of one
micro-batch on the same cores. The two take turns.

  experts_ratio.py --build build/release --python PYTHON [--rounds 7] [--threads 2] [--bf16]
      [--hidden 512] [--inner 1792] [--experts 8] [--sequence 512]

Prints the median milliseconds of both and their ratio. PYTHON has torch and transformers, as those of
tests/interop/setup-judges have."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 3  # of one turn, after one that warms up


def config_of(args):
    return {"model_type": "mixtral", "vocab_size": 256, "hidden_size": args.hidden, "intermediate_size": args.inner,
            "num_hidden_layers": 1, "num_attention_heads": args.hidden // 64,
            "num_key_value_heads": max(1, args.hidden // 256), "max_position_embeddings": args.sequence,
            "num_local_experts": args.experts, "num_experts_per_tok": 2}


def serve(config, sequence, threads, is_bf16):
    """Answers each line of stdin by the milliseconds of PyTorch's forward and backward."""
    import torch
    import transformers
    torch.set_num_threads(threads)
    config = transformers.MixtralConfig(**config, attn_implementation="sdpa")
    model = transformers.MixtralModel(config).train()
    layer, rotary = model.layers[0], model.rotary_emb
    dtype = torch.bfloat16 if is_bf16 else torch.float32
    x = torch.randn(1, sequence, config.hidden_size, requires_grad=True)
    positions = torch.arange(sequence)[None]
    for _ in sys.stdin:
        times = []
        for _ in range(STEPS + 1):
            layer.zero_grad()
            begin = time.perf_counter()
            with torch.autocast("cpu", dtype, enabled=is_bf16):
                y = layer(x, position_embeddings=rotary(x, positions), position_ids=positions)
            y = y[0] if isinstance(y, tuple) else y
            y.sum().backward()
            times.append(1e3 * (time.perf_counter() - begin))
        print(json.dumps(times[1:]), flush=True)


def ours_ms(args, folder):
    out = os.path.join(folder, "profile.json")
    words = [f"{args.build}/penstock", "profile", "--model", folder, "--seq-length", args.sequence, "--threads",
             args.threads, "--rounds", 5, "--recompute-granularity", "none", "--json", "-o", out]
    if args.bf16:
        words.append("--bf16")
    text = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
    block = next(row for row in json.loads(text)["layers"] if row["layer"] == "block")
    return 1e3 * (block["forward_sec"] + block["backward_sec"])


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", required=True)
    parser.add_argument("--bf16", action="store_true")
    for name, value in (("rounds", 7), ("threads", 2), ("hidden", 512), ("inner", 1792), ("experts", 8),
                        ("sequence", 512)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    config = config_of(args)
    theirs = subprocess.Popen(
        [args.python, __file__, "--serve", json.dumps([config, args.sequence, args.threads, args.bf16])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ours, torch = [], []
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        for _ in range(args.rounds):
            ours.append(ours_ms(args, folder))
            theirs.stdin.write("\n")
            theirs.stdin.flush()
            torch += json.loads(theirs.stdout.readline())
    theirs.stdin.close()
    theirs.wait()
    mine, other = statistics.median(ours), statistics.median(torch)
    print(f"{'bf16' if args.bf16 else 'f32'}, {args.sequence} tokens, {args.threads} threads: penstock {mine:.1f} ms, "
          f"PyTorch {other:.1f} ms, {other / mine:.2f} times")


if __name__ == "__main__":
    main()
