#!/usr/bin/env python3
"""What options of `penstock train` cost: the same training on two ranks without and with
them, taking turns. Prints the mean seconds of a step of each round, stalls included, and
by how much the options lengthen it (median).

  option_cost.py --penstock build/release/penstock --options="--verify-interval 100"
      [--pp 1|2] [--rounds 5] [--steps 31] [--bf16] [--micro-batches 8] [--seq 256]
      [--hidden 512] [--layers 6] [--vocab 8192]

--pp 1: two replicas, which --verify-interval needs. {} in the options is a new folder of
each round, as in "--save {} --save-interval 10".
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
    subprocess.run(["rm", "-rf", log], check=True)
    line = (f"{MPIRUN} {args.penstock} train --model {folder}/config.json "
            f"--token-ids {folder}/ids.txt --micro-batch-size 1 "
            f"--global-batch-size {args.micro_batches} --train-iters {args.steps} "
            f"--lr 1e-4 --threads 1 --log-interval 1000 --log {log} "
            f"--pipeline-model-parallel-size {args.pp} {extra}")
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
    parser.add_argument("--options", required=True)
    parser.add_argument("--pp", type=int, default=2)
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
        print("without_sec\twith_sec\tlonger")
        for turn in range(args.rounds):
            without = run(folder, args, "")
            options = args.options.replace("{}", f"{folder}/run{turn}")
            given = run(folder, args, options)
            ratios.append(given / without)
            print(f"{without:.4f}\t{given:.4f}\t{100 * ratios[-1] - 100:+.2f} %")
        print(f"median {100 * statistics.median(ratios) - 100:+.2f} %")


if __name__ == "__main__":
    main()
