#!/usr/bin/env python3
"""What durable checkpoints behind a training cost: the same training on two ranks with
one every 10 steps and with none, taking turns. Prints the mean seconds of a step of each
round, stalls included, and by how much the checkpoints lengthen it (median).

  save_stall.py --penstock build/release/penstock [--rounds 5] [--steps 31] [--bf16]
      [--micro-batches 8] [--seq 256] [--hidden 512] [--layers 6] [--vocab 8192]
"""
import argparse
import json
import random
import statistics
import subprocess
import tempfile

MPIRUN = "mpirun.openmpi --allow-run-as-root --bind-to core -n 2"


def run(folder, args, extra):
    log = f"{folder}/log.jsonl"
    subprocess.run(["rm", "-rf", log, f"{folder}/run"], check=True)
    line = (f"{MPIRUN} {args.penstock} train --model {folder}/config.json "
            f"--token-ids {folder}/ids.txt --micro-batch-size 1 "
            f"--global-batch-size {args.micro_batches} --train-iters {args.steps} "
            f"--lr 1e-4 --threads 1 --log-interval 1000 --log {log} "
            f"--pipeline-model-parallel-size 2 {extra}")
    if args.bf16:
        line += " --bf16"
    subprocess.run(line.split(), check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)
    times = [step["elapsed_sec"] for step in map(json.loads, open(log))
             if "elapsed_sec" in step]
    return (times[-1] - times[0]) / (len(times) - 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=31)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        json.dump({"model_type": "gpt2", "n_embd": args.hidden, "n_layer": args.layers,
                   "n_head": args.hidden // 64, "n_positions": args.seq,
                   "vocab_size": args.vocab}, open(f"{folder}/config.json", "w"))
        draw = random.Random(1)
        with open(f"{folder}/ids.txt", "w") as out:
            for _ in range(args.micro_batches):
                print(*(draw.randrange(args.vocab) for _ in range(args.seq + 1)), file=out)
        ratios = []
        print("calm_sec\tsaving_sec\tlonger")
        for turn in range(args.rounds):
            calm = run(folder, args, "")
            saving = run(folder, args, f"--save {folder}/run{turn} --save-interval 10")
            ratios.append(saving / calm - 1)
            print(f"{calm:.4f}\t{saving:.4f}\t{ratios[-1]:.4f}", flush=True)
        print(f"median\t\t{statistics.median(ratios):.4f}")


if __name__ == "__main__":
    main()
