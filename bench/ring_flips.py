#!/usr/bin/env python3
"""ring_flips.py BUILD [TRIALS]: the share of flipped bits that is found where islands share nothing: in the moments of the optimizer, in
memory. (A bit of a gradient is one of the moments from the next update on.) In each trial three islands wait for a coordinator that is
stopped, so that their moments are those of their files; one bit of each changes. Then the next contribution of each is compared with
that of a run without a flip, as `penstock ring coordinate --replay` compares them, and what the islands say by themselves is counted."""
import json
import os
import pathlib
import random
import re
import signal
import struct
import sys
import time

trials = int(sys.argv[2]) if len(sys.argv) > 2 else 10
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "ring"))
from trainings import Trainings, rounds_of  # noqa: E402

rng = random.Random(int(os.environ.get("PEN_SEED", "1")))
HEAD, WINDOW, STEPS = 32, 64, 25


def moments(ring, island):
    """What the newest file of an island has, and its step."""
    found = []
    for path in (ring.work / f"save-{island}" / "island").glob("moments-0-*"):
        data = path.read_bytes()
        if len(data) > HEAD:
            found.append((struct.unpack("<Q", data[8:16])[0], data[HEAD:]))
    return max(found, default=(0, b""))


def places(pid, values):
    """Where a process has these bytes, in memory of its own."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            first, last = (int(x, 16) for x in place.split("-"))
            if rights != "rw-p" or last - first > 1 << 30:
                continue
            try:
                memory.seek(first)
                held = memory.read(last - first)
            except OSError:
                continue
            at = held.find(values)
            while at >= 0:
                found.append(first + at)
                at = held.find(values, at + 1)
    return found


def flip(pid, values):
    """Flips one bit of a number that is in memory once. Returns which bit, and the number."""
    while True:
        at = rng.randrange(WINDOW // 4, len(values) // 4 - WINDOW // 4) * 4
        window = values[at - WINDOW:at + WINDOW]
        found = places(pid, window) if any(values[at:at + 4]) else []
        if len(found) != 1:
            continue
        bit = rng.randrange(32)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(found[0] + WINDOW + bit // 8)
            byte = memory.read(1)[0]
            memory.seek(found[0] + WINDOW + bit // 8)
            memory.write(bytes([byte ^ 1 << bit % 8]))
        return bit, struct.unpack("<f", values[at:at + 4])[0]


def run(flips):
    """Hashes of all contributions; with flips: of the three, and what was said."""
    ring = Trainings(3, ["diloco"], steps=STEPS)
    ring.start_all()
    done, when = [], None
    ring.until("a round", lambda record: record["round"] >= 1)
    journal = ring.work.with_suffix(".journal")
    os.link(ring.work / "ring.journal", journal)
    if flips:
        os.kill(ring.running["coordinator-0"].pid, signal.SIGSTOP)
        when = ring.record()["round"] + 1
        limit = time.monotonic() + 60
        while any(moments(ring, i)[0] < 5 * when for i in range(3)):
            if time.monotonic() > limit:
                ring.fail("islands do not give")
            time.sleep(0.1)
        time.sleep(0.3)
        done = [flip(ring.running[f"island-{i}"].pid, moments(ring, i)[1]) for i in range(3)]
        os.kill(ring.running["coordinator-0"].pid, signal.SIGCONT)
    ended = [ring.running[f"island-{i}"].wait(timeout=100) for i in range(3)]
    said = [re.findall(r".*(?:finite|NaN|nan |damaged|another sum).*", (ring.work / f"island-{i}.err").read_text()) for i in range(3)]
    ring.clean()
    given = {number: {it["island"]: it["hash"] for it in record["contributors"]} for number, record in rounds_of(journal).items()}
    journal.unlink()
    return given, done, when, said, ended


calm = run(False)[0]
rows = []
for _ in range(trials):
    given, done, when, said, ended = run(True)
    for i, (bit, value) in enumerate(done):
        differs = given.get(when + 1, {}).get(i) != calm[when + 1][i]
        rows.append({"bit": bit, "value": value, "replay": differs, "itself": bool(said[i]) or ended[i] != 0})
        print(json.dumps(rows[-1]), flush=True)
for name, bits in (("mantissa", range(23)), ("exponent and sign", range(23, 32))):
    some = [row for row in rows if row["bit"] in bits]
    print(f"{name}: {len(some)} flips, {sum(row['replay'] for row in some)} found by a replay, {sum(row['itself'] for row in some)} by the training itself")
