#!/usr/bin/env python3
"""penstock train on two ranks beside PyTorch's pipelining and DistributedDataParallel
over gloo, taking turns: GPT-2 124M's shape with a head of its own, micro-batches of one
sequence, AdamW. One line per contender: median of the rounds in ms, and how many times
the tokens per second of PyTorch's best it gives.

  pipeline_ratio.py --penstock build/release/penstock --torch TORCH_PIPELINE.PY \\
      [--python PYTHON] [--dtype f32|bf16] [--rounds 5] [--micro 8] [--seq 256]
      [--ours single,zb-h1,dp2] [--profile PROFILE.JSON]
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

MPIRUN = "mpirun.openmpi --allow-run-as-root --bind-to core -n"
CONFIG = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
          "vocab_size": 50257, "tie_word_embeddings": False}
STEPS = 2  # of one turn; the first warms up

OURS = {  # ranks, options
    "single": (1, ""),
    "1f1b": (2, "--pipeline-model-parallel-size 2 --schedule 1f1b"),
    "zb-h1": (2, "--pipeline-model-parallel-size 2 --schedule zb-h1"),
    "interleaved": (2, "--pipeline-model-parallel-size 2 --schedule interleaved "
                       "--num-virtual-stages-per-pipeline-rank 2"),
    "zb-v": (2, "--pipeline-model-parallel-size 2 --schedule zb-v"),
    "dp2": (2, ""),
}
THEIRS = {"gpipe", "1f1b", "zbv", "ddp"}


def prepare(folder, args):
    config = dict(CONFIG, n_positions=args.seq)
    json.dump(config, open(f"{folder}/config.json", "w"))
    draw = random.Random(1)
    with open(f"{folder}/ids.txt", "w") as out:
        for _ in range(args.micro):
            print(*(draw.randrange(50257) for _ in range(args.seq + 1)), file=out)


def run_ours(folder, args, ranks, options):
    log = f"{folder}/log.jsonl"
    if os.path.exists(log):
        os.remove(log)
    line = (f"{args.penstock} train --model {folder}/config.json "
            f"--token-ids {folder}/ids.txt --micro-batch-size 1 "
            f"--global-batch-size {args.micro} --train-iters {STEPS} --lr 1e-4 "
            f"--clip-grad 0 --threads 1 --log-interval 100 --log {log} {options}")
    if args.dtype == "bf16":
        line += " --bf16"
    if args.profile and "pipeline" in options:
        line += f" --profile {args.profile}"
    line = f"{MPIRUN} {ranks} {line}"
    subprocess.run(line.split(), check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)
    steps = [json.loads(text) for text in open(log)]
    return [step["step_ms"] for step in steps if "step_ms" in step][1:]


def run_theirs(args):
    out = subprocess.run(
        [args.python, args.torch, "--dtype", args.dtype, "--micro", str(args.micro),
         "--seq", str(args.seq), "--rounds", "1", "--wait", "3",
         "--which", ",".join(sorted(THEIRS))],
        check=True, capture_output=True, text=True).stdout
    found = {}
    for name, ms in re.findall(r"^r[01] (\w+)\s+([0-9.]+) ms", out, re.M):
        found.setdefault(name, []).append(float(ms))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--micro", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--profile")
    parser.add_argument("--ours", default=",".join(OURS))
    args = parser.parse_args()
    ours = {name: [] for name in args.ours.split(",")}
    theirs = {name: [] for name in THEIRS}
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder, args)
        for turn in range(args.rounds):
            for name, found in run_theirs(args).items():
                theirs[name].append(statistics.median(found))
            for name, times in ours.items():
                times.append(statistics.median(run_ours(folder, args, *OURS[name])))
            print(f"round {turn + 1}", {k: round(v[-1]) for k, v in ours.items()},
                  {k: round(v[-1]) for k, v in theirs.items()}, file=sys.stderr, flush=True)
    pipe = min(statistics.median(v) for k, v in theirs.items() if k != "ddp" and v)
    ddp = statistics.median(theirs["ddp"])
    print("who\tname\tms\tof_best_peer")
    for name, times in theirs.items():
        print(f"torch\t{name}\t{statistics.median(times):.1f}\t")
    for name, times in ours.items():
        ms = statistics.median(times)
        peer = ddp if name == "dp2" else pipe
        print(f"penstock\t{name}\t{ms:.1f}\t{peer / ms:.3f}")


if __name__ == "__main__":
    main()
