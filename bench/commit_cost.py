#!/usr/bin/env python3
"""What it costs to keep every step in memory (docs/running.md): a small GPT-2 without and
with a holder, taking turns. Prints the mean seconds of a step of each round and by how
much the holder lengthens it (median), and what the training says itself: milliseconds
that a step waits for its copy, and their share of a step.

  commit_cost.py --build build/release [--rounds 5] [--steps 31] [--threads 2]
      [--hidden 256] [--layers 6] [--seq 256] [--vocab 65] [--micro-batch 16] [--f32]

Without options this is the model of README: 4.8 M parameters in bf16, 58 MB of weights
and moments.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import tempfile


def run(folder, args, holder):
    log = f"{folder}/log.jsonl"
    if os.path.exists(log):
        os.remove(log)
    line = (f"{args.build}/penstock train --model {folder}/config.json "
            f"--token-ids {folder}/ids.txt --micro-batch-size {args.micro_batch} "
            f"--train-iters {args.steps} --lr 1e-4 --threads {args.threads} "
            f"--log-interval 1000 --log {log} --peak-tflops 1")
    if not args.f32:
        line += " --bf16"
    env = dict(os.environ)
    if holder:
        env.update(PENSTOCK_HOLDER=holder, PENSTOCK_EPOCH="1")
    done = subprocess.run(line.split(), check=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, env=env)
    times = [step["elapsed_sec"] for step in map(json.loads, open(log))
             if "elapsed_sec" in step]
    told = re.search(r"waited ([0-9.]+) ms", done.stderr)
    return (times[-1] - times[0]) / (len(times) - 1), float(told[1]) if told else 0


def run_held(folder, args):
    with tempfile.TemporaryDirectory() as place:  # 0700
        socket = f"{place}/holder"
        with subprocess.Popen([f"{args.build}/tests/mpi_hold", socket], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout.readline() == "holding\n"
            result = run(folder, args, socket)
            holder.stdin.close()
        return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=65)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--f32", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        json.dump({"model_type": "gpt2", "n_embd": args.hidden, "n_layer": args.layers,
                   "n_head": 4, "n_positions": args.seq, "vocab_size": args.vocab},
                  open(f"{folder}/config.json", "w"))
        draw = random.Random(1)
        with open(f"{folder}/ids.txt", "w") as out:
            for _ in range(args.micro_batch):
                print(*(draw.randrange(args.vocab) for _ in range(args.seq + 1)), file=out)
        ratios, shares = [], []
        print("without_sec\twith_sec\tlonger\tcopy_msec\tshare")
        for _ in range(args.rounds):
            without, _ = run(folder, args, None)
            held, msec = run_held(folder, args)
            ratios.append(100 * held / without - 100)
            shares.append(0.1 * msec / held)
            print(f"{without:.4f}\t{held:.4f}\t{ratios[-1]:+.2f} %\t{msec:.1f}\t{shares[-1]:.2f} %")
        print(f"median {statistics.median(ratios):+.2f} %, of which the copies are "
              f"{statistics.median(shares):.2f} %")


if __name__ == "__main__":
    main()
