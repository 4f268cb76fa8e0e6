#!/usr/bin/env python3
"""Parle's claim on MNIST: test error and wall time of n replicas against SGD whose one
replica sees as many images as each of them, and against synchronous SGD on n. One line
per run on stderr; then one per contender: its learning rate, mean and spread (standard
deviation over the seeds) of the test error in percent and of the seconds.

  parle_mnist.py --penstock build/release/penstock --data DIR [--replicas 3]
      [--seeds 5] [--steps 1400] [--batch 128] [--model preset:mnist-cnn]
      [--rates 0.01,0.03,0.1,0.3] [--which sgd,lsgd,parle,parle-code]
      [--threads 1] [--mpirun COMMAND]

DIR has the four files of MNIST. Every contender first tries all rates with seed 0, and
takes the one with the least loss on what it trains on at the end; images to test on have
no part in that. Then it runs with seeds 1, 2, ... and the one model that its replicas
stand for is tested at the end, on all images to test on that fill batches. Replicas that
share cores take longer than they would on hosts of their own: seconds compare only what
ran on the same cores.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

NUM_TEST = 10000

SGD = "--optimizer sgd --sgd-nesterov"
CONTENDERS = {  # replicas or None for all, options
    "sgd": (1, SGD),
    "lsgd": (None, f"{SGD} --sync lsgd"),
    "local-sgd": (None, f"{SGD} --sync local-sgd"),
    "easgd": (None, f"{SGD} --sync easgd"),
    "entropy-sgd": (1, "--sync entropy-sgd"),
    "parle": (None, "--sync parle"),
    "parle-code": (None, "--sync parle-code"),
}


def replicas_of(args, name):
    return CONTENDERS[name][0] or args.replicas


def run(args, folder, name, rate, seed, extra=""):
    replicas = replicas_of(args, name)
    log = f"{folder}/{name}-{rate}-{seed}.jsonl"
    line = (f"{args.mpirun} -n {replicas} {args.penstock} train --model {args.model} "
            f"--data-path {args.data} --micro-batch-size {args.batch} "
            f"--global-batch-size {args.batch * replicas} --train-iters {args.steps} "
            f"--seed {seed} --lr {rate} --weight-decay 0 --clip-grad 0 "
            f"--threads {args.threads} --log-interval 1000000 --log {log} "
            f"{CONTENDERS[name][1]} {extra}")
    done = subprocess.run(line.split(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"{line}\n{done.stderr}")
    return [json.loads(text) for text in open(log)]


def loss_at_end(steps):
    """Of the last tenth of the training, on its own images."""
    losses = [step["loss"] for step in steps[-max(1, len(steps) // 10):]]
    if any(loss is None or not math.isfinite(loss) for loss in losses):
        return math.inf
    return statistics.mean(losses)


def choose_rate(args, folder, name):
    losses = {rate: loss_at_end(run(args, folder, name, rate, 0))
              for rate in args.rates.split(",")}
    rate = min(losses, key=losses.get)
    print(name, "takes", rate, "of", {key: round(value, 4) for key, value in losses.items()},
          file=sys.stderr, flush=True)
    return rate


def test(args, folder, name, rate, seed):
    batches = NUM_TEST // (args.batch * replicas_of(args, name))
    last = run(args, folder, name, rate, seed,
               f"--eval-interval {args.steps} --eval-iters {batches}")[-1]
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
    parser.add_argument("--rates", default="0.01,0.03,0.1,0.3")
    parser.add_argument("--which", default="sgd,lsgd,parle,parle-code")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mpirun",
                        default="mpirun.openmpi --allow-run-as-root --oversubscribe")
    args = parser.parse_args()
    args.penstock = os.path.abspath(args.penstock)
    results = {name: [] for name in args.which.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        rates = {name: choose_rate(args, folder, name) for name in results}
        for seed in range(1, args.seeds + 1):  # in turns: a busy hour hits all
            for name, rows in results.items():
                rows.append(test(args, folder, name, rates[name], seed))
                print(f"{name}\t{seed}\t{rows[-1][0]:.2f} %\t{rows[-1][1]:.1f} s",
                      file=sys.stderr, flush=True)
    print("method\treplicas\trate\terror_percent\tspread\tseconds\tspread")
    for name, rows in results.items():
        errors, seconds = zip(*rows)
        print(f"{name}\t{replicas_of(args, name)}\t{rates[name]}"
              f"\t{statistics.mean(errors):.3f}\t{spread(errors):.3f}"
              f"\t{statistics.mean(seconds):.1f}\t{spread(seconds):.1f}")


if __name__ == "__main__":
    main()
