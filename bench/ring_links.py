#!/usr/bin/env python3
"""ring_links.py BUILD [--rates 10,100,200] [--delays 20,100,300] [--rounds 6] [--weights 131072] [--ms 1000]: how long rounds
of four islands stall on slow, long links. Each island has a host of its own (tests/net/hosts); the rate is that of its
link in each direction in Mbit/s, the delay that of a round trip in milliseconds. Prints a table: what a round takes beyond
its training, what the bytes alone take (three copies of a contribution over the link of an island), and the training per
round with which the stall is 5 % of the time. Needs root."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests" / "ring"))
from rig import Ring  # noqa: E402

ISLANDS = 4


def measure(build, rate, delay, args):
    """The median stall of a round in seconds."""
    hosts = [str(root / "tests" / "net" / "hosts")]
    environment = {**os.environ, "BUILD": build}
    made = subprocess.run([*hosts, "up", str(ISLANDS + 1), "--rate", f"{rate}mbit", "--delay", f"{delay / 2}ms", "--owner", str(os.getpid())],
                          env=environment, check=True, capture_output=True, text=True).stdout.strip()
    names = [f"island-{i}" for i in range(ISLANDS)] + ["coordinator-0"]

    def inside(name):
        return [*hosts, "exec", made, str(names.index(name))] if name in names else []

    ring = Ring(build, ISLANDS, quorum=ISLANDS, patience="30", address=lambda name: f"10.213.0.{names.index(name) + 1}:7070", inside=inside)
    try:
        ring.start_coordinator()
        for i in range(ISLANDS):
            ring.start_island(i, 1, args.weights, 0, args.ms)
        ends = []
        newest = 0
        limit = time.monotonic() + 60 + 60 * args.rounds
        while len(ends) < args.rounds + 2:
            found = ring.lineage()[1].get("island-0", 0)
            if found > newest and len(ring.lineage()[1]) == ISLANDS:
                ends.append((time.monotonic(), found))
                newest = found
            if time.monotonic() > limit:
                ring.fail("too few rounds")
            time.sleep(0.01)
        lengths = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(ends[1:], ends[2:])]
        return statistics.median(lengths) - args.ms / 1000
    finally:
        ring.clean()
        subprocess.run([*hosts, "down", made], env=environment, capture_output=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--rates", default="10,100,200")
    parser.add_argument("--delays", default="20,100,300")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--weights", type=int, default=131072)
    parser.add_argument("--ms", type=int, default=1000)
    args = parser.parse_args()
    length = args.weights * 8
    print(f"contribution {length / 1e6:.2f} MB, {ISLANDS} islands\n")
    print("| Mbit/s | round trip | stall of a round | bytes alone | 5 % when a round trains |\n|---|---|---|---|---|")
    for rate in map(float, args.rates.split(",")):
        for delay in map(float, args.delays.split(",")):
            stall = measure(os.path.abspath(args.build), rate, delay, args)
            alone = (ISLANDS - 1) * length * 8 / (rate * 1e6)
            print(f"| {rate:g} | {delay:g} ms | {stall:.2f} s | {alone:.2f} s | {stall * 19:.0f} s |", flush=True)


main()
