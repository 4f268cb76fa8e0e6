#!/usr/bin/env python3
"""flip_bit.py RANK MODEL TENSOR ELEMENT BIT: flips a bit of a weight of a running rank.

Waits until a process whose Open MPI rank is RANK and whose command line names
MODEL holds the values of TENSOR (a float tensor of MODEL/model.safetensors,
long enough to be unique) in its own writable memory, then flips the bit there.
Needs a training that does not change its weights (--lr 0). Exit code 77: the
system does not allow it.
"""
import json
import os
import struct
import sys
import time

rank, model, tensor, element, bit = sys.argv[1:]
element, bit = int(element), int(bit)
with open(model + "/model.safetensors", "rb") as f:
    length = struct.unpack("<Q", f.read(8))[0]
    begin, end = json.loads(f.read(length))[tensor]["data_offsets"]
    f.seek(8 + length + begin)
    values = f.read(end - begin)


def processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
            settings = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
        except OSError:
            continue
        if (model.encode() in words and b"train" in words
                and f"OMPI_COMM_WORLD_RANK={rank}".encode() in settings):
            yield int(pid)


def flip(pid):
    count = 0
    with open(f"/proc/{pid}/maps") as maps, \
            open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            first, last = (int(x, 16) for x in place.split("-"))
            if rights != "rw-p" or last - first > 1 << 30:
                continue
            try:
                memory.seek(first)
                found = memory.read(last - first).find(values)
            except OSError:
                continue
            if found < 0:
                continue
            at = first + found + 4 * element + bit // 8
            memory.seek(at)
            byte = memory.read(1)[0]
            memory.seek(at)
            memory.write(bytes([byte ^ 1 << bit % 8]))
            count += 1
    return count


deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    for pid in processes():
        try:
            if flip(pid):
                sys.exit(0)
        except PermissionError:
            print("memory of processes cannot be written here", file=sys.stderr)
            sys.exit(77)
        except OSError:
            pass
    time.sleep(0.1)
print("no rank held the tensor", file=sys.stderr)
sys.exit(1)
