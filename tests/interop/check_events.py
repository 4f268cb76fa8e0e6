"""TensorBoard shows of a resumed training what its run log says, each step once.

Usage: check_events.py EVENTS_DIR RUN_LOG
"""

import json
import math
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

TAGS = {
    "train/loss": "loss",
    "train/grad_norm": "grad_norm",
    "train/learning_rate": "lr",
    "speed/tokens_per_sec": "tokens_per_sec",
    "speed/share_of_peak": "share_of_peak",
    "speed/step_ms": "step_ms",
    "memory/bytes": "memory_bytes",
    "validation/loss": "val_loss",
    "validation/accuracy": "val_accuracy",
}


def shown(directory):
    """{tag: [(step, value)]} as the charts have it."""
    events = EventAccumulator(directory, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    found = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    for tag in events.Tags()["tensors"]:
        found[tag] = [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in events.Tensors(tag)]
    return found


def is_same(value, logged):
    if logged is None:
        return not math.isfinite(value)
    return value == struct.unpack("f", struct.pack("f", logged))[0]


def main():
    directory, log = sys.argv[1:]
    with open(log) as file:
        head, *steps = map(json.loads, file)
    assert head["format"] == "penstock-run", head
    found = shown(directory)
    assert set(found) == set(TAGS), f"tags {sorted(found)}"
    count = 0
    for tag, key in TAGS.items():
        logged = [(step["step"], step[key]) for step in steps if key in step]
        assert len(found[tag]) == len(logged), f"{tag}: {len(found[tag])} points, the log has {len(logged)}"
        for (step, value), (logged_step, number) in zip(found[tag], logged):
            assert step == logged_step, f"{tag}: step {step}, the log has {logged_step}"
            assert is_same(value, number), f"{tag}, step {step}: {value}, the log has {number}"
            count += 1
    print(f"{count} points of {len(found)} tags are those of the log")


main()
