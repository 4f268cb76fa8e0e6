#!/usr/bin/env python3
"""Parle's claim on MNIST: test error and wall time of n replicas against SGD whose one
replica sees as many images as each of them, and against SGD on all n. One line per run
on stderr; then one per contender: mean and spread (standard deviation over the seeds)
of the test error in percent and of the seconds.

  parle_mnist.py --penstock build/release/penstock --data DIR [--replicas 3]
      [--seeds 5] [--steps 1400] [--batch 128] [--model preset:mnist-cnn]
      [--which sgd,allreduce,parle,parle-code] [--threads 1] [--mpirun COMMAND]

DIR has the four files of MNIST. Every contender evaluates the one model that its replicas
stand for, on all images to test on, at the end. Replicas that share cores take longer than
they would on hosts of their own: seconds compare only what ran on the same cores.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

NUM_TEST = 10000

CONTENDERS = {  # replicas or None for all, options
    "sgd": (1, "--optimizer sgd --sgd-nesterov --lr 0.1"),
    "allreduce": (None, "--optimizer sgd --sgd-nesterov --lr 0.1"),
    "local-sgd": (None, "--optimizer sgd --sgd-nesterov --lr 0.1 --sync local-sgd"),
    "entropy-sgd": (1, "--sync entropy-sgd --lr 1"),
    "parle": (None, "--sync parle --lr 0.5"),
    "parle-code": (None, "--sync parle-code --lr 0.1"),
}


def run(args, folder, name, seed):
    replicas, options = CONTENDERS[name]
    replicas = replicas or args.replicas
    log = f"{folder}/{name}-{seed}.jsonl"
    batch = args.batch * replicas
    line = (f"{args.mpirun} -n {replicas} {args.penstock} train --model {args.model} "
            f"--data-path {args.data} --micro-batch-size {args.batch} "
            f"--global-batch-size {batch} --train-iters {args.steps} --seed {seed} "
            f"--weight-decay 0 --clip-grad 0 --eval-interval {args.steps} "
            f"--eval-iters {NUM_TEST // batch} --threads {args.threads} "
            f"--log-interval 1000000 --log {log} {options}")
    done = subprocess.run(line.split(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"{line}\n{done.stderr}")
    last = [json.loads(text) for text in open(log)][-1]
    return 100 * (1 - last["val_accuracy"]), last["elapsed_sec"]


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--model", default="preset:mnist-cnn")
    parser.add_argument("--which", default="sgd,allreduce,parle,parle-code")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mpirun",
                        default="mpirun.openmpi --allow-run-as-root --oversubscribe")
    args = parser.parse_args()
    args.penstock = os.path.abspath(args.penstock)
    results = {name: [] for name in args.which.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, args.seeds + 1):  # in turns: a busy hour hits all
            for name, rows in results.items():
                rows.append(run(args, folder, name, seed))
                print(f"{name}\t{seed}\t{rows[-1][0]:.2f} %\t{rows[-1][1]:.1f} s",
                      file=sys.stderr, flush=True)
    print("method\treplicas\terror_percent\tspread\tseconds\tspread")
    for name, rows in results.items():
        errors, seconds = zip(*rows)
        print(f"{name}\t{CONTENDERS[name][0] or args.replicas}"
              f"\t{statistics.mean(errors):.3f}\t{spread(errors):.3f}"
              f"\t{statistics.mean(seconds):.1f}\t{spread(seconds):.1f}")


if __name__ == "__main__":
    main()
