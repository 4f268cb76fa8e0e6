#!/usr/bin/env python3
"""Whether a profile predicts a training step in one process.

  bench/profile_step.py PENSTOCK [--bf16] [--model M] [--micro-batch-size N]
      [--seq-length N] [--microbatches N] [--threads N] [--turns N]
      [--recompute-granularity none|selective|full]

Profiles and trains in turns on random tokens. A line of TSV per turn: seconds
of a step as the sum of its layers says, as it was measured (median), and their
ratio; the last line has the medians.
"""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import tempfile


def predict(profile, mode, blocks, parameters, microbatches):
    counts = {"embedding": 1, "block": blocks, "head": 1}
    passes = sum(count * (profile["layers"][kind][mode]["f"] +
                          profile["layers"][kind][mode]["b"])
                 for kind, count in counts.items())
    update = profile["update"]
    return microbatches * passes + parameters * (
        update["clear"] + update["norm"] + update["adam"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("penstock")
    parser.add_argument("--model", default="preset:gpt2")
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--parameters", type=int, default=124439808)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--micro-batch-size", type=int, default=4)
    parser.add_argument("--seq-length", type=int, default=128)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--recompute-granularity", default="none")
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    shared = ["--model", args.model, "--threads", str(args.threads),
              "--micro-batch-size", str(args.micro_batch_size),
              "--seq-length", str(args.seq_length),
              "--recompute-granularity", args.recompute_granularity]
    shared += ["--bf16"] * args.bf16
    pairs = []
    print("predicted_sec\tmeasured_sec\tratio", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tokens, log = os.path.join(folder, "t.bin"), os.path.join(folder, "l")
        random.seed(1)
        with open(tokens, "wb") as file:
            file.write(b"".join(struct.pack("<H", random.randrange(args.vocab))
                                for _ in range(1 << 17)))
        for _ in range(args.turns):
            found = subprocess.run(
                [args.penstock, "profile", *shared, "--rounds",
                 str(args.rounds)], stdout=subprocess.PIPE, check=True)
            predicted = predict(json.loads(found.stdout),
                                args.recompute_granularity, args.blocks,
                                args.parameters, args.microbatches)
            subprocess.run(
                [args.penstock, "train", *shared, "--random-weights",
                 "--data-path", tokens, "--lr", "1e-5", "--log", log,
                 "--global-batch-size",
                 str(args.micro_batch_size * args.microbatches),
                 "--train-iters", str(args.steps + 1)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                check=True)
            with open(log) as file:
                steps = [json.loads(line) for line in file][2:]
            os.remove(log)
            measured = statistics.median(s["step_ms"] for s in steps) / 1e3
            pairs.append((predicted, measured))
            print(f"{predicted:.4f}\t{measured:.4f}\t"
                  f"{predicted / measured:.4f}", flush=True)
    predicted, measured = (statistics.median(column) for column in zip(*pairs))
    print(f"{predicted:.4f}\t{measured:.4f}\t{predicted / measured:.4f}")


main()
