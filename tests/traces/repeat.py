#!/usr/bin/env python3
"""Runs gloo with random faults and wants `penstock view` to name each of them.

    build/judges/bin/python tests/traces/repeat.py build/release/penstock [--times 20] [--seed 1] [--faults slow,skip]

Each run has 2 to 4 ranks, a random rank at fault, a random step, call, size and delay, and a random form of record. Prints
a line for each run that is named wrongly and how many of each fault were right; fails unless all are.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import gloo_run

FAULTS = ["slow", "skip", "shape", "dead", "stopped"]


def draw(fault, chance, out):
    """The settings of one run. A call that is left out is never the last of the job, which nobody would miss."""
    args = gloo_run.options().parse_args([str(out)])
    args.fault = fault
    args.ranks = chance.randint(3 if fault in ("skip", "shape") else 2, 4)
    args.rank = chance.randrange(args.ranks)
    args.steps = chance.randint(3, 6)
    args.step = chance.randint(1, args.steps - 2)
    args.call = chance.randrange(gloo_run.CALLS)
    args.size = chance.randint(10, 5000)
    args.delay = chance.uniform(0.3, 0.8)
    args.form = chance.choice(["json", "pickle"] + (["profile"] if fault == "slow" else []))
    return args


def number(args):
    """Of the call at fault: the barrier is the first, and a step has five."""
    return 2 + args.step * gloo_run.CALLS + args.call


def is_named(args, answer):
    """Whether the answer names this fault, its rank and its call."""
    if args.fault == "slow":
        return answer["waited_for"] == args.rank and not answer["faults"]
    if not answer["faults"]:
        return False
    first = answer["faults"][0]
    kinds = {"skip": "skipped", "shape": "mismatched", "dead": "absent", "stopped": "stopped"}
    # A rank that is dead has no call; the others wait in that one.
    return (first["kind"], first["ranks"], first["number"]) == (kinds[args.fault], [args.rank], number(args))


def judge(penstock, args):
    files = sorted(map(str, args.out.iterdir()))
    done = subprocess.run([penstock, "view", "--json", *files], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return done.returncode == 0 and is_named(args, answer), answer


def is_right(options, fault, name):
    with tempfile.TemporaryDirectory() as folder:
        args = draw(fault, random.Random(f"{options.seed} {fault} {name}"), pathlib.Path(folder) / "run")
        gloo_run.run(args)
        is_named, answer = judge(options.penstock, args)
        if not is_named:
            told = [fault["words"] for fault in answer.get("faults", [])] or answer.get("waited_for", answer)
            print(f"wrong: {fault} {name}: {vars(args)}: {told}", flush=True)
            if options.keep:
                shutil.copytree(args.out, options.keep / f"{fault}-{name}", dirs_exist_ok=True)
    return is_named


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("penstock")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PEN_SEED", "1")))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--tries", type=int, default=1, help="runs until one is named rightly: a busy machine spoils some")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the records of runs that are named wrongly")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    wrong = 0
    for fault in options.faults.split(","):
        right = 0
        for i in range(options.times):
            right += any(is_right(options, fault, f"{i}.{k}" if k else str(i)) for k in range(options.tries))
        print(f"{fault}: {right} of {options.times} named rightly", flush=True)
        wrong += options.times - right
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
