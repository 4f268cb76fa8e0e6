"""Trainings on ranks of this host, and profiles of their models: what
run_planned, run_simulated and run_proposed share.
"""
import json
import multiprocessing
import os
import shutil
import struct
import subprocess
import sys
import time

QUIET_SHARE = 0.97  # of a core that a busy process must get

CLUSTER = """name: this host
devices:
  - kind: core
    count: {ranks}
    flops: {{f32: 1 TFLOP/s}}
    memory: 64 GiB
    bandwidth: 10 GB/s
links:
  - {{level: node, bandwidth: 10 GB/s, latency: 1 us}}
"""


def seeds_that_failed(name):
    """Those of this test in tests/support/seeds.txt."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "seeds.txt")
    with open(path) as file:
        words = [line.split() for line in file]
    return [int(line[1]) for line in words if line[:1] == [name]]


def spin(seconds):
    begin, used = time.monotonic(), time.process_time()
    while time.monotonic() - begin < seconds:
        pass
    return (time.process_time() - used) / (time.monotonic() - begin)


def is_quiet():
    count = os.cpu_count()
    with multiprocessing.Pool(count) as pool:
        return min(pool.map(spin, [0.5] * count)) >= QUIET_SHARE


def first_in_line():
    """Lets a program that sleeps wake up in time: words ahead of its own, or none."""
    for words in ["chrt", "--rr", "1"], ["nice", "-n", "-20"]:
        done = subprocess.run([*words, "true"], capture_output=True) if shutil.which(words[0]) else None
        if done is not None and done.returncode == 0 and not done.stderr:
            return words
    return []


class Trainings:
    """Files of a folder, and the programs of a build that read them."""

    def __init__(self, build, folder):
        self.folder, self.build = folder, os.path.abspath(build)
        self.penstock = os.path.join(self.build, "penstock")
        self.mpirun = os.environ.get(
            "PEN_MPIRUN", "mpirun.openmpi --allow-run-as-root --oversubscribe "
            "--bind-to none").split()
        os.environ["OMP_NUM_THREADS"] = "1"
        os.environ["TMPDIR"] = folder
        os.environ["OMPI_MCA_btl_vader_backing_directory"] = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, ranks, *words, before=()):
        done = subprocess.run(
            [*before, *self.mpirun, "-n", str(ranks), self.penstock, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=600 * float(os.environ.get("PEN_SLOWNESS", "1")))
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{done.stderr}")
        return done.stdout + done.stderr

    def write_model(self, chance, model):
        """And tokens for it."""
        with open(self.path("config.json"), "w") as file:
            json.dump(model, file)
        with open(self.path("tokens.bin"), "wb") as file:
            file.write(b"".join(
                struct.pack("<H", chance.randrange(model["vocab_size"]))
                for _ in range(1 << 16)))

    def write_cluster(self, ranks):
        with open(self.path("cluster.yaml"), "w") as file:
            file.write(CLUSTER.format(ranks=ranks))

    def profile(self, ranks, sequence, sizes, rounds):
        self.run(ranks, "profile", "--model", self.path("config.json"),
                 "--seq-length", str(sequence), "--micro-batch-size", sizes,
                 "--threads", "1", "--rounds", str(rounds), "-o",
                 self.path("profile.json"))

    def slow_down(self, block_sec):
        """A block takes so long, everything else in proportion."""
        with open(self.path("profile.json")) as file:
            profile = json.load(file)
        scale = block_sec / profile["layers"]["block"]["none"]["f"]
        for size in [profile, *profile.get("more", [])]:
            for layer in size["layers"].values():
                for mode in ("none", "selective", "full"):
                    for key in "fiwb":
                        layer[mode][key] *= scale
        with open(self.path("profile.json"), "w") as file:
            json.dump(profile, file)

    def train(self, ranks, sequence, plan, steps, *options, before=()):
        """Seconds of the steps but for the first two, and what it said."""
        log = self.path("log.jsonl")
        text = self.run(
            ranks, "train", "--model", self.path("config.json"),
            "--random-weights", "--plan", plan, "--seq-length", str(sequence),
            "--data-path", self.path("tokens.bin"), "--lr", "1e-5",
            "--threads", "1", "--log", log, "--train-iters", str(steps),
            *options, before=before)
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        os.remove(log)
        return [line["step_ms"] / 1e3 for line in lines
                if "step_ms" in line][2:], text

    def sleeping(self):
        """Options of a training whose operations wait as the profile says."""
        return ("--engine", "sleep:profile", "--profile",
                self.path("profile.json"))
