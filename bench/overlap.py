#!/usr/bin/env python3
"""How much of what replicas send hides behind their computing, on test hosts (tests/net).

  overlap.py [--penstock build/release/penstock] [--rounds 5] [--share 0.5]

Replicas first train without ever synchronising: a step takes T0. Then links get the rate at
which what a method sends takes them `share` of T0 per step, and the method trains on those and
on links without a limit in turn: what it costs processors to encode, to send and to receive is
in both, only the link is not. With T and T' the seconds of a step on the one and on the other,

  hidden = 1 - (T - T') / (bytes of a step / rate)

A line of TSV per method: rate, T0, T', T, seconds that the link needs, and what is hidden; medians
of the rounds. Needs root; see tests/net/hosts.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

from slow_link import CONFIG, HOSTS, ROOT, TEXT

REPLICAS = 2
MICRO = 2  # sequences computed at once: messages are looked after between layers
ALONE = ["--sync", "diloco", "--sync-interval", "1000000"]
METHODS = {  # options, sequences of a replica, steps, steps that are not counted
    "dc-s3gd": (["--sync", "dc-s3gd"], 24, 16, 4),
    "streaming-diloco": (["--sync", "streaming-diloco", "--sync-interval", "20",
                          "--sync-option", "fragments=4", "delay=4"], 4, 60, 20),
}


def prepare(folder, penstock):
    for words in (["--train-chars", TEXT, "-o", f"{folder}/model"],
                  [TEXT, "--tokenizer", f"{folder}/model", "-o", f"{folder}/text"]):
        subprocess.run([penstock, "tokenize", *words], check=True, stderr=subprocess.DEVNULL)
    with open(f"{folder}/model/config.json", "w") as out:
        json.dump(CONFIG, out)


def train(folder, penstock, hosts, options, batch, num_steps, first):
    """Seconds of a step, mean over whole intervals, and bytes that a replica sends in it."""
    log = f"{folder}/log.jsonl"
    if os.path.exists(log):
        os.remove(log)
    words = [HOSTS, "run", hosts, penstock, "train", *options,
             "--model", f"{folder}/model", "--data-path", f"{folder}/text_text_document",
             "--split", "90,10", "--seq-length", str(CONFIG["n_positions"]),
             "--micro-batch-size", str(min(batch, MICRO)), "--global-batch-size",
             str(batch * REPLICAS),
             "--threads", "1", "--train-iters", str(num_steps), "--lr", "5e-4", "--bf16",
             "--log", log, "--log-interval", str(num_steps)]
    done = subprocess.run(words, check=True, capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive"))
    sent = re.search(r"([0-9]+) bytes a step", done.stderr)
    with open(log) as lines:
        steps = [step for step in map(json.loads, lines) if "step_ms" in step]
    # The first steps also connect, and find their pace.
    seconds = (steps[-1]["elapsed_sec"] - steps[first - 1]["elapsed_sec"]) / (num_steps - first)
    return seconds, int(sent.group(1))


class Links:
    """Hosts whose links have a rate, in bytes per second; 0: no limit."""

    def __init__(self, rate):
        limit = [] if rate == 0 else ["--rate", f"{int(rate * 8 / 1000)}kbit"]
        self.name = subprocess.run(
            [HOSTS, "up", str(REPLICAS), *limit, "--owner", str(os.getpid())], check=True,
            stdout=subprocess.PIPE, text=True).stdout.strip()

    def __enter__(self):
        return self.name

    def __exit__(self, *_):
        subprocess.run([HOSTS, "down", self.name], check=True)


def measure(folder, args, options, *shape):
    def run(hosts, words):
        return train(folder, args.penstock, hosts, words, *shape)

    with Links(0) as free:
        alone, _ = run(free, ALONE)
        _, sent = run(free, options)
        rate = sent / (args.share * alone)
        with Links(rate) as slow:
            pairs = [(run(free, options)[0], run(slow, options)[0])
                     for _ in range(args.rounds)]
    needed = sent / rate
    hidden = statistics.median(1 - (own - base) / needed for base, own in pairs)
    base = statistics.median(pair[0] for pair in pairs)
    own = statistics.median(pair[1] for pair in pairs)
    return (f"{rate * 8e-6:.1f}", f"{alone:.4f}", f"{base:.4f}", f"{own:.4f}",
            f"{needed:.4f}", f"{hidden:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", default=f"{ROOT}/build/release/penstock")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.5)
    args = parser.parse_args()
    args.penstock = os.path.abspath(args.penstock)
    os.environ.setdefault("BUILD", os.path.dirname(args.penstock))
    print("method\trate_Mbit/s\talone_sec\tfree_sec\tstep_sec\tlink_sec\thidden")
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder, args.penstock)
        for name, (options, *shape) in METHODS.items():
            print(name, *measure(folder, args, options, *shape), sep="\t", flush=True)


if __name__ == "__main__":
    main()
