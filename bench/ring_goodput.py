#!/usr/bin/env python3
"""ring_goodput.py BUILD [--minutes 30] [--calm-minutes 5] [--every 29] [--seed 1]: what is left of the work of four islands whose
parts are killed, one fault in `every` seconds on average. Each island is a training of one process under a supervisor; its
operations sleep as long as they would compute, so that islands do not share the processors of one machine. A fault is a
SIGKILL of a training (6 of 10), of a whole island with its supervisor, which begins again after a second (2 of 10), or of the
coordinator (2 of 10).

Goodput is the number of steps whose changes are in the committed state, per second, over the same number of a calm run. The
seconds that one fault costs are those of one island."""
import argparse
import os
import pathlib
import random
import signal
import sys
import time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests" / "ring"))
import rig  # noqa: E402
from processes import descendants, kill_group  # noqa: E402

ISLANDS = 4


class Islands(rig.Ring):
    def __init__(self, build, args):
        super().__init__(build, ISLANDS, patience=args.patience, quorum=args.quorum)
        self.args = args
        os.environ.update(OMP_NUM_THREADS="1", TMPDIR=str(self.work))
        (self.work / "model.json").write_text((root / "tests/mpi/llama.json.in").read_text().replace("LAYERS", "2"))
        (self.work / "ids.txt").write_text("".join(" ".join(str((i * 31 + j * 17) % 97) for j in range(17)) + "\n" for i in range(64)))
        self.start_coordinator()
        for i in range(ISLANDS):
            self.start_island(i)

    def clean(self):
        for process in self.running.values():
            kill_group(process)
        self.running = {}
        super().clean()

    def start_island(self, number, config=1, *more):
        words = [self.penstock, "supervise", "--max-restarts", 1000000, "--events", self.work / f"events-{number}.jsonl", "--",
                 self.penstock, "train", "--model", self.work / "model.json", "--token-ids", self.work / "ids.txt",
                 "--micro-batch-size", 1, "--global-batch-size", 2 * ISLANDS, "--train-iters", 10000000, "--lr", "1e-3",
                 "--engine", self.args.engine, "--sync", "decoupled-diloco", "--sync-interval", self.args.interval,
                 "--log-interval", 1000, "--save", self.work / f"save-{number}", "--save-interval", 100 * self.args.interval,
                 "--save-keep", 2, "--ring", self.addresses["coordinator-0"], "--island", number,
                 "--key", self.work / f"island-{number}.key", "--patience", self.patience + "s"]
        self.start(f"island-{number}", *words)

    def steps(self):
        record = self.record()
        return sum(it["cursor"] for it in record["islands"][:ISLANDS]) if record["round"] > 0 else 0

    def disturb(self, rng):
        """The name of what was done."""
        draw, island = rng.random(), f"island-{rng.randrange(ISLANDS)}"
        if draw < 0.6:
            ranks = descendants(self.running[island].pid)
            if not ranks:
                return None
            os.kill(ranks[0], signal.SIGKILL)
            return "training"
        if draw < 0.8:
            kill_group(self.running.pop(island))
            time.sleep(1)
            self.start_island(int(island[-1]))
            return "island"
        self.end("coordinator-0")
        self.start_coordinator()
        return "coordinator"


def measure(ring, seconds, every, rng):
    """Steps in a second, and the faults."""
    ring.until("all islands train", lambda record: record["round"] >= 3 and len(record["members"]) == ISLANDS)
    first, begin, faults = ring.steps(), time.monotonic(), {}
    end = begin + seconds
    following = begin + rng.expovariate(1 / every) if every else end
    told = begin
    while time.monotonic() < end:
        if time.monotonic() >= following:
            kind = ring.disturb(rng)
            if kind:
                faults[kind] = faults.get(kind, 0) + 1
            following += rng.expovariate(1 / every)
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"  {told - begin:.0f} of {seconds:.0f} s, {(ring.steps() - first) / (told - begin):.2f} steps/s, faults {faults}", flush=True)
        time.sleep(min(0.1, max(0, following - time.monotonic()), max(0, end - time.monotonic())))
    return (ring.steps() - first) / (time.monotonic() - begin), faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--calm-minutes", type=float, default=5)
    parser.add_argument("--every", type=float, default=29)
    parser.add_argument("--interval", type=int, default=20)
    parser.add_argument("--quorum", type=int, default=3)
    parser.add_argument("--patience", default="2")
    parser.add_argument("--engine", default="sleep:25ms")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    ring = Islands(args.build, args)
    calm, _ = measure(ring, 60 * args.calm_minutes, 0, rng)
    print(f"calm: {calm:.2f} steps/s", flush=True)
    rate, faults = measure(ring, 60 * args.minutes, args.every, rng)
    count = sum(faults.values())
    lost = (1 - rate / calm) * ISLANDS * 60 * args.minutes
    ring.clean()
    print(f"{count} faults {faults} in {args.minutes:g} min: {rate:.2f} steps/s, goodput {100 * rate / calm:.2f} %, "
          f"{lost / max(1, count):.2f} s of one island per fault")


main()
