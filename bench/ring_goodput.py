#!/usr/bin/env python3
"""ring_goodput.py BUILD [MINUTES]: which share of the steps of a calm run four islands give to their rounds while something fails each
29 s. Calm is the second half of each of these times, so that both see the same machine. Each island is one rank under `penstock supervise`, with a share of a core of its own (a control group of the kernel), so that an
island that is gone makes the others no faster; rounds need three of four. A fault kills a rank, kills all of an island, or stops it for
three seconds. Needs root, and two cores of which the islands may take 1.2. Progress goes to the error output, a line for each fault."""
import json
import os
import pathlib
import random
import signal
import sys
import time

minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 30
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "ring"))
from processes import kill_group  # noqa: E402
from trainings import Trainings  # noqa: E402

EVERY, ISLANDS, SHARE = 29.0, 4, 0.3
rng = random.Random(int(os.environ.get("PEN_SEED", "1")))


class Groups:
    """Control groups, in either version of the kernel's interface."""

    def __init__(self):
        old = pathlib.Path("/sys/fs/cgroup/cpu")
        self.is_old = old.is_dir()
        self.root = old if self.is_old else pathlib.Path("/sys/fs/cgroup")
        self.made = []

    def make(self, name, cores):
        folder = self.root / f"penstock-{os.getpid()}-{name}"
        folder.mkdir()
        self.made.append(folder)
        if self.is_old:
            (folder / "cpu.cfs_period_us").write_text("20000")
            (folder / "cpu.cfs_quota_us").write_text(str(int(cores * 20000)))
            (folder / "cpu.shares").write_text("200000")
        else:
            (folder / "cpu.max").write_text(f"{int(cores * 20000)} 20000")
            (folder / "cpu.weight").write_text("10000")
        return folder

    def end(self):
        for folder in self.made:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)


class Limited(Trainings):
    """Islands that have a share of a core each."""

    def start(self, name, *words):
        into = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.groups[name] / "cgroup.procs"] if name in self.groups else []
        super().start(name, *into, *words)


def steps_given(ring):
    return [it["cursor"] for it in ring.record()["islands"][:ISLANDS]]


def run_until(ring, moment):
    """Steps of all islands until then, and the moment."""
    while time.monotonic() < moment:
        ring.is_done()
        time.sleep(0.2)
    return sum(steps_given(ring)), time.monotonic()


groups = Groups()
Limited.groups = {f"island-{i}": groups.make(i, SHARE) for i in range(ISLANDS)}
Limited.groups["coordinator-0"] = groups.make("coordinator", 1)
ring = Limited(ISLANDS, ["decoupled-diloco"], steps=1000000, quorum=3, is_supervised=True)


def disturb():
    island = f"island-{rng.randrange(ISLANDS)}"
    draw = rng.random()
    if draw < 0.6:
        ring.kill_one(island)
        return f"a process of {island} is killed"
    if draw < 0.9:
        ring.kill(island)
        return f"all of {island} is killed"
    os.killpg(ring.running[island].pid, signal.SIGSTOP)
    time.sleep(3)
    os.killpg(ring.running[island].pid, signal.SIGCONT)
    return f"{island} is stopped for 3 s"


def percent(whole, calm):
    return 100 * (whole[0] / whole[1]) / (calm[0] / calm[1])


try:
    ring.start_all()
    ring.until("all islands", lambda record: record["round"] >= 3 and len(record["members"]) == ISLANDS)
    whole, calm, windows = [0, 0], [0, 0], []
    before = run_until(ring, time.monotonic())
    for fault in range(1, int(minutes * 60 / EVERY) + 1):
        words = disturb()
        half = run_until(ring, before[1] + EVERY / 2)
        end = run_until(ring, before[1] + EVERY)
        for total, since in ((whole, before), (calm, half)):
            total[0] += end[0] - since[0]
            total[1] += end[1] - since[1]
        windows.append(end[0] - before[0])
        before = end
        print(f"{fault * EVERY:6.0f} of {minutes * 60:.0f} s: {words}, {windows[-1]} steps; until now {percent(whole, calm):.1f} %", file=sys.stderr, flush=True)
    share = percent(whole, calm)
    print(json.dumps({"islands": ISLANDS, "faults": len(windows), "goodput_percent": share, "steps": whole[0], "calm_steps_per_sec": calm[0] / calm[1],
                      "lost_island_sec_per_fault": (1 - share / 100) * ISLANDS * EVERY, "rounds": ring.record()["round"]}))
finally:
    for process in ring.running.values():
        kill_group(process)
    ring.running = {}
    groups.end()
