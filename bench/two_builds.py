#!/usr/bin/env python3
"""Steps of penstock train of two builds, that take turns: is the newer one as fast?

  two_builds.py OLD NEW [--pairs 21] [--steps 8] [--folder DIR] [CASE...]

OLD and NEW are programs. A CASE is one of those that --help lists; all when not given. A
turn trains a GPT of 4 layers and width 384 for --steps steps, each build first in every
other pair, and counts the median of all steps but the first two. A line per case, as TSV:
pairs, seconds of a step of both, median of OLD's seconds over NEW's (above 1: NEW is
faster) and the interval that holds 95 % of what other pairs would give (bootstrap).
Progress goes to stderr; with --folder turns that were measured are not measured again.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEXT = f"{ROOT}/examples/shakespeare/input.txt"
CONFIG = {"model_type": "gpt2", "vocab_size": 65, "n_positions": 1024, "n_embd": 384,
          "n_layer": 4, "n_head": 6}
# Name: ranks, and options of penstock train.
CASES = {
    "f32-4x256": (1, "--seq-length 256 --micro-batch-size 4 --global-batch-size 4"),
    "bf16-4x256": (1, "--seq-length 256 --micro-batch-size 4 --global-batch-size 4 --bf16"),
    "f32-1x1024": (1, "--seq-length 1024 --micro-batch-size 1 --global-batch-size 1"),
    "bf16-1x1024": (1, "--seq-length 1024 --micro-batch-size 1 --global-batch-size 1 --bf16"),
    "pipeline-2": (2, "--seq-length 256 --micro-batch-size 1 --global-batch-size 4 "
                      "--pipeline-model-parallel-size 2"),
    "replicas-2": (2, "--seq-length 256 --micro-batch-size 2 --global-batch-size 4"),
}


def prepare(folder, program):
    if os.path.exists(f"{folder}/model/config.json"):
        return
    for words in (["--train-chars", TEXT, "-o", f"{folder}/model"],
                  [TEXT, "--tokenizer", f"{folder}/model", "-o", f"{folder}/text"]):
        subprocess.run([program, "tokenize", *words], check=True, stderr=subprocess.DEVNULL)
    with open(f"{folder}/model/config.json", "w") as out:
        json.dump(CONFIG, out)


def step_sec(program, case, steps, folder):
    ranks, options = CASES[case]
    log = f"{folder}/turn.jsonl"
    if os.path.exists(log):
        os.remove(log)
    launch = [] if ranks == 1 else ["mpirun", "--oversubscribe", "--bind-to", "none",
                                    "-n", str(ranks)]
    words = [*launch, program, "train", "--model", f"{folder}/model", "--data-path",
             f"{folder}/text_text_document", "--train-iters", str(steps), "--lr", "1e-3",
             "--log", log, *options.split()]
    done = subprocess.run(words, capture_output=True, text=True, env=dict(
        os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    with open(log) as lines:
        ends = [row["elapsed_sec"] for row in map(json.loads, lines) if "elapsed_sec" in row]
    return statistics.median(b - a for a, b in zip(ends[1:], ends[2:]))


def interval(ratios):
    """Of the median, by drawing pairs again."""
    draws = random.Random(1)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios)))
                     for _ in range(4000))
    return medians[100], medians[-101]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="cases: " + ", ".join(CASES))
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--folder")
    parser.add_argument("case", nargs="*")
    args = parser.parse_intermixed_args()
    unknown = [case for case in args.case if case not in CASES]
    if unknown:
        parser.error(f"no case '{unknown[0]}': {', '.join(CASES)}")
    if args.steps < 4 or args.pairs < 1:
        parser.error("at least 4 steps and 1 pair")
    programs = [os.path.abspath(args.old), os.path.abspath(args.new)]
    cases = args.case or list(CASES)
    with tempfile.TemporaryDirectory() as passing:
        folder = os.path.abspath(args.folder or passing)
        os.makedirs(folder, exist_ok=True)
        prepare(folder, programs[1])
        kept = f"{folder}/turns.json"
        turns = json.load(open(kept)) if os.path.exists(kept) else {}
        begin, num_made = time.monotonic(), 0
        for number in range(args.pairs):
            for case in cases:
                pairs = turns.setdefault(case, [])
                if len(pairs) > number:
                    continue
                pair = [0.0, 0.0]
                for which in ((0, 1), (1, 0))[number % 2]:
                    pair[which] = step_sec(programs[which], case, args.steps, folder)
                pairs.append(pair)
                with open(kept, "w") as out:
                    json.dump(turns, out)
                num_made += 1
                left = sum(args.pairs - len(turns.get(c, [])) for c in cases)
                each = (time.monotonic() - begin) / num_made
                print(f"{case}: pair {number + 1} of {args.pairs}, {each:.1f} s each, "
                      f"{left * each / 60:.0f} minutes left", file=sys.stderr)
    print("case\tpairs\told_sec\tnew_sec\tratio\tlow\thigh")
    for case in cases:
        ratios = [old / new for old, new in turns[case]]
        low, high = interval(ratios)
        print(f"{case}\t{len(ratios)}\t{statistics.median(p[0] for p in turns[case]):.4f}\t"
              f"{statistics.median(p[1] for p in turns[case]):.4f}\t"
              f"{statistics.median(ratios):.3f}\t{low:.3f}\t{high:.3f}")


if __name__ == "__main__":
    main()
