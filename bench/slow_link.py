#!/usr/bin/env python3
"""Time to loss on a slow link: replicas that keep together by one method after the other
train a GPT of 10.7 M parameters on letters, each on a test host of its own (tests/net).

  slow_link.py [--penstock build/release/penstock] [--rate 100mbit] [--delay 20ms]
      [--jitter 1ms] [--hosts 4] [--sync-steps 50] [--steps 600] [--minutes 30]
      [--folder DIR] [METHOD ...]

A METHOD is options of penstock train, such as "--sync diloco --sync-interval 50", with a
name before a colon if it is to have one: "rare: --sync ...". Options that differ from the
common ones may be among them (--lr, --train-iters). Synchronous training comes first, for
--sync-steps steps: the validation loss at its end is what the others are to reach within
--steps steps, or --minutes.

First a line per method, as TSV: steps, MB that a host sends in a step, as the link counts
them (headers and evaluations included) and as penstock does, seconds that the link needs
for those at least, mean and median seconds of a step, seconds of all steps, last
validation loss, seconds and tokens until the loss that is to be reached (the first
evaluation at or below), and how many times faster than synchronous training that is.
Then validation losses over seconds. Time of evaluations does not count, nor does the first
step, which also connects; it is taken to be as long as the median.

With --folder logs and results stay there, and methods that have a result are not run
again. Needs root; see tests/net/hosts.
"""
import argparse
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOSTS = f"{ROOT}/tests/net/hosts"
TEXT = f"{ROOT}/examples/shakespeare/input.txt"
CONFIG = {"model_type": "gpt2", "vocab_size": 65, "n_positions": 128, "n_embd": 384,
          "n_layer": 6, "n_head": 6}
SYNCHRONOUS = "synchronous"
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def bytes_per_sec(rate):
    number, unit = re.fullmatch(r"([0-9.]+)([a-z]+)", rate).groups()
    return float(number) * UNITS[unit] / 8


def prepare(folder, args):
    """Letters as tokens, and the model."""
    if os.path.exists(f"{folder}/model/config.json"):
        return
    for words in (["--train-chars", TEXT, "-o", f"{folder}/model"],
                  [TEXT, "--tokenizer", f"{folder}/model", "-o", f"{folder}/text"]):
        subprocess.run([args.penstock, "tokenize", *words], check=True,
                       stderr=subprocess.DEVNULL)
    with open(f"{folder}/model/config.json", "w") as out:
        json.dump(CONFIG, out)


def command_of(folder, args, log, options, steps):
    common = {
        "--model": f"{folder}/model", "--data-path": f"{folder}/text_text_document",
        "--split": "90,10", "--seq-length": CONFIG["n_positions"],
        "--micro-batch-size": args.micro_batch_size,
        "--global-batch-size": args.micro_batch_size * args.hosts,
        "--threads": 1, "--train-iters": steps, "--lr": args.lr,
        "--lr-decay-style": "constant", "--lr-warmup-iters": args.warmup,
        "--adam-beta2": 0.95,
        "--eval-interval": args.eval_interval, "--eval-iters": args.eval_iters,
        "--log-interval": args.eval_interval, "--log": log, "--hang-timeout": 600,
        "--exit-duration-in-mins": args.minutes}
    words = [args.penstock, "train", *options]
    for name, value in common.items():
        if name not in options:
            words += [name, str(value)]
    return words + ([] if args.f32 else ["--bf16"])


def sent(hosts):
    lines = subprocess.run([HOSTS, "bytes", hosts], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [int(line.split()[1]) for line in lines]


def run(folder, args, hosts, name, options, steps):
    """Trains; what is known of it afterwards, without what the log has."""
    log = f"{folder}/{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')}.jsonl"
    if os.path.exists(log):
        os.remove(log)
    before = sent(hosts)
    done = subprocess.run(
        [HOSTS, "run", hosts, *command_of(folder, args, log, options, steps)],
        capture_output=True, text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive"))
    if done.returncode != 0:
        print(f"{name}: {done.stderr[-2000:]}", file=sys.stderr)
        return None
    counted = re.search(r"([0-9]+) bytes a step", done.stderr)
    wire = [after - first for after, first in zip(sent(hosts), before)]
    return {"name": name, "log": log, "wire_bytes": statistics.mean(wire),
            "counted_bytes": int(counted.group(1)) if counted else None}


def seconds_of(steps):
    """Of every step, with what is between steps; an evaluation is behind its step."""
    seconds = [None]
    for before, step in zip(steps, steps[1:]):
        whole = step["elapsed_sec"] - before["elapsed_sec"]
        seconds.append(step["step_ms"] / 1e3 if "val_loss" in step else whole)
    seconds[0] = statistics.median(seconds[1:])
    return seconds


def read(result):
    """Adds the steps, their seconds, and the curve: (step, tokens, seconds, loss)."""
    with open(result["log"]) as lines:
        steps = [step for step in map(json.loads, lines) if "step_ms" in step]
    result["seconds"] = seconds_of(steps)
    result["curve"] = []
    total = 0
    for step, seconds in zip(steps, result["seconds"]):
        total += seconds
        if "val_loss" in step:
            result["curve"].append((step["step"], step["tokens"], total, step["val_loss"]))
    return result


def reach(result, loss):
    """Seconds and tokens at the first evaluation with such a loss, or None."""
    for _, tokens, seconds, found in result["curve"]:
        if found <= loss:
            return seconds, tokens
    return None


def print_table(results, args):
    base = results[0]
    goal = base["curve"][-1][3]
    whole = base["curve"][-1][2]
    print(f"# {args.hosts} hosts, {args.rate}, {args.delay} +- {args.jitter} one way; "
          f"{base['curve'][-1][1]} tokens of synchronous training give loss {goal:.4f}")
    print("method\tsteps\twire_MB\tcounted_MB\tlink_sec\tmean_sec\tmedian_sec\ttotal_sec\t"
          "last_loss\tsec_to_loss\ttokens_to_loss\ttimes_faster")
    for result in results:
        seconds = result["seconds"]
        wire = result["wire_bytes"] / len(seconds)
        counted = result["counted_bytes"]
        found = reach(result, goal)
        cells = [result["name"], len(seconds), f"{wire / 1e6:.3f}",
                 "" if counted is None else f"{counted / 1e6:.3f}",
                 f"{wire / bytes_per_sec(args.rate):.3f}",
                 f"{statistics.mean(seconds):.3f}", f"{statistics.median(seconds):.3f}",
                 f"{sum(seconds):.1f}", f"{result['curve'][-1][3]:.4f}" if result["curve"] else ""]
        cells += ["", "", ""] if found is None else [
            f"{found[0]:.1f}", found[1], f"{whole / found[0]:.1f}"]
        print(*cells, sep="\t")
    print("\nmethod\tstep\ttokens\tsec\tval_loss")
    for result in results:
        for step, tokens, seconds, loss in result["curve"]:
            print(f"{result['name']}\t{step}\t{tokens}\t{seconds:.1f}\t{loss:.4f}")


def parse_method(text):
    name, colon, options = text.rpartition(": ")
    return (name if colon else text), shlex.split(options)


def measure(folder, args):
    prepare(folder, args)
    file = f"{folder}/results.json"
    known = {}
    if os.path.exists(file):
        with open(file) as found:
            known = json.load(found)
    wanted = [(SYNCHRONOUS, [], args.sync_steps)]
    wanted += [(*parse_method(text), args.steps) for text in args.method]
    hosts = subprocess.run(
        [HOSTS, "up", str(args.hosts), "--rate", args.rate, "--delay", args.delay,
         "--jitter", args.jitter, "--owner", str(os.getpid())],
        check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    try:
        for name, options, steps in wanted:
            if name in known:
                continue
            result = run(folder, args, hosts, name, options, steps)
            if result is None:
                continue
            known[name] = result
            with open(file, "w") as out:
                json.dump(known, out, indent=1)
            print(f"{name}: done", file=sys.stderr, flush=True)
    finally:
        subprocess.run([HOSTS, "down", hosts], check=True)
    return [read(known[name]) for name, _, _ in wanted if name in known]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", default=f"{ROOT}/build/release/penstock")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--delay", default="20ms")
    parser.add_argument("--jitter", default="1ms")
    parser.add_argument("--sync-steps", type=int, default=50)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--eval-interval", type=int, default=25)
    parser.add_argument("--eval-iters", type=int, default=25)
    parser.add_argument("--f32", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("method", nargs="*")
    args = parser.parse_args()
    args.penstock = os.path.abspath(args.penstock)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without clearing up
    os.environ.setdefault("BUILD", os.path.dirname(args.penstock))
    with tempfile.TemporaryDirectory() as passing:
        folder = os.path.abspath(args.folder or passing)
        os.makedirs(folder, exist_ok=True)
        results = measure(folder, args)
        if not results or results[0]["name"] != SYNCHRONOUS:
            sys.exit("there is no result of synchronous training to compare with")
        print_table(results, args)


if __name__ == "__main__":
    main()
