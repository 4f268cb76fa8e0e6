#!/usr/bin/env python3
"""What do trainings that are known from papers take, and what is predicted?

    bench/public_facts.py [--check FILE]

Prints a table in Markdown: published and predicted figure, and memory of a
device; below it the commands. It reads nothing but files of this repository.
--check fails when FILE lacks a command, or a prediction is off by more than a
factor of 2. PENSTOCK is the program, build/release/penstock when not set.
Nothing is fitted to these rows.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TITAN = "bench/torchtitan-h100.yaml"
LLAMA = "llama-3.1-405b {}xh100 --target torchtitan --sharding zero2 --tp 8 --pp 16 --vpp 8"
DEEPSEEK = ("deepseek-v3 2048xh800 --pp 16 --vpp 2 --ep 64 --seq-length 4096 --global-batch-size 16384 --dtype fp8 "
            "--dispatcher deepep --overlap-moe-expert-parallel-comm --recompute-granularity selective "
            "--recompute-modules mla_up_proj,layernorm --moment-bytes 4 --tokens 1T")
SMALL = f"llama-3.1-8b {TITAN} --target torchtitan --sharding zero3 --seq-length 8192 --recompute-granularity selective"
LARGE = f"llama-3.1-405b {TITAN} --target torchtitan --sharding zero3 --tp 8 --pp 8 --dp 8 --recompute-granularity full --dtype fp8"

# What is compared: the words for it, and how it is found in the answer.
TFLOPS = ("Tflop/s/device", lambda d: d["flops_per_sec_per_device"] / 1e12)
TOKENS = ("tokens/s/device", lambda d: d["tokens_per_sec_per_device"])
HOURS = ("device-hours for 1 T tokens", lambda d: d["run"]["device_hours"])

# Name, kind of figure, published figure, published GiB (or the device's, which
# it fitted into), command.
ROWS = [
    ("Llama 3 405B, 8,192 H100", TFLOPS, 430, "fits 79.6",
     LLAMA.format(8192) + " --seq-length 8192 --global-batch-size 2048"),
    ("Llama 3 405B, 16,384 H100", TFLOPS, 400, "fits 79.6",
     LLAMA.format(16384) + " --seq-length 8192 --global-batch-size 2048"),
    ("Llama 3 405B, 131,072 tokens", TFLOPS, 380, "fits 79.6",
     LLAMA.format(16384) + " --cp 16 --seq-length 131072 --global-batch-size 128"),
    ("DeepSeek V3, 2,048 H800", HOURS, 180000, "fits 79.6", DEEPSEEK),
    ("torchtitan 8B, 8 H100, bf16", TOKENS, 6667, "77.0",
     SMALL + " --dp 8 --micro-batch-size 2 --global-batch-size 16"),
    ("torchtitan 8B, 8 H100, fp8", TOKENS, 8532, "76.8",
     SMALL + " --dp 8 --micro-batch-size 2 --global-batch-size 16 --dtype fp8"),
    ("torchtitan 8B, 128 H100, bf16", TOKENS, 6514, "62.0",
     SMALL + " --dp 128 --micro-batch-size 2 --global-batch-size 256"),
    ("torchtitan 8B, 128 H100, fp8", TOKENS, 8380, "61.8",
     SMALL + " --dp 128 --micro-batch-size 2 --global-batch-size 256 --dtype fp8"),
    ("torchtitan 405B, 512 H100, 1F1B", TOKENS, 100, "82.5",
     LARGE + " --seq-length 8192 --micro-batch-size 4 --global-batch-size 256"),
    ("torchtitan 405B, 512 H100, interleaved", TOKENS, 128, "72.7",
     LARGE + " --vpp 2 --seq-length 8192 --micro-batch-size 4 --global-batch-size 256"),
    ("torchtitan 405B, 512 H100, 32,768 tokens", TOKENS, 76, "75.3",
     LARGE + " --seq-length 32768 --micro-batch-size 1 --global-batch-size 64"),
]


def predict(command):
    program = os.environ.get("PENSTOCK", os.path.join(ROOT, "build/release/penstock"))
    words = [program, "predict", *shlex.split(command), "--json"]
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if not answer.stdout:  # what does not fit has an answer, and exit status 1
        sys.exit(f"public_facts: penstock predict {command}: {answer.stderr.strip()}")
    return json.loads(answer.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="FILE")
    args = parser.parse_args()
    text = open(args.check).read() if args.check else None
    print("| run | published | predicted | | GiB of a device | predicted |")
    print("|---|---|---|---|---|---|")
    failures = []
    for name, (words, find), published, memory, command in ROWS:
        answer = predict(command)
        found = find(answer)
        difference = 100 * (found / published - 1)
        print(f"| {name} | {published:,} {words} | {found:,.0f} | {difference:+.0f} % | {memory} | "
              f"{answer['peak_bytes'] / 2**30:.1f} |")
        if not 0.5 < found / published < 2:
            failures.append(f"{name}: {found:,.0f} {words}, published are {published:,}")
        if text is not None and f"penstock predict {command}" not in text:
            failures.append(f"{args.check} lacks: penstock predict {command}")
    print()
    for row in ROWS:
        print(f"    penstock predict {row[-1]}")
    for failure in failures if args.check else []:
        print(failure, file=sys.stderr)
    sys.exit(bool(args.check and failures))


main()
