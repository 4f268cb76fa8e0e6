"""Trainings as islands of a ring (rig.py), for run_train, run_methods and run_replay: each is a group of processes with a small model.

Their patience grows with PEN_SLOWNESS: an island that gets no core for a quarter of it cannot greet anybody, one that gets none for all of
it is dropped, and on a host with 30 programs per core islands with a patience of a second spend their time with joining."""
import hashlib
import json
import math
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import rig
from processes import descendants, kill_group

build = pathlib.Path(sys.argv[1]).absolute()
penstock = build / "penstock"
here = pathlib.Path(__file__).parent
mpirun = os.environ.get("PEN_MPIRUN", "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none").split()
if not (build / "penstock-train").exists() or shutil.which(mpirun[0]) is None:
    print(f"penstock-train or {mpirun[0]} is not there; skipped")
    sys.exit(77)
is_long = bool(os.environ.get("PEN_LONG"))
rng = random.Random(int(os.environ.get("PEN_SEED", "38")))
LAST = 40
PATIENCE = math.ceil(rig.SLOWNESS)


def rounds_of(path):
    """The record of each round, as a journal has them."""
    with open(path) as file:
        records = [json.loads(line[9:]) for line in file]
    return {record["round"]: record for record in records if record["round"] > 0}


class Trainings(rig.Ring):
    """Islands that train; each is a group of processes."""

    def __init__(self, islands, sync, ranks=1, options=(), steps=LAST, is_supervised=False, quorum=None, interval=5, common=(), replay=None):
        """`options` are those of islands, `common` also of one job; rounds have five steps, also where `interval` has several."""
        super().__init__(build, islands, patience=str(PATIENCE), quorum=quorum or islands, replay=replay)
        os.environ.update(OMP_NUM_THREADS="1")
        self.interval, self.common = interval, common
        self.sync, self.ranks, self.options, self.steps, self.is_supervised = sync, ranks, options, steps, is_supervised
        (self.work / "model.json").write_text((here.parent / "mpi" / "llama.json.in").read_text().replace("LAYERS", "2"))
        x, lines = 0, []
        for _ in range(64):
            line = []
            for _ in range(17):
                x = (x * 1103 + 12347) % 65536
                line.append(str(x // 64 % 97))
            lines.append(" ".join(line))
        (self.work / "ids.txt").write_text("\n".join(lines) + "\n")

    def clean(self):
        for process in self.running.values():
            kill_group(process)
        self.running = {}
        shutil.rmtree(self.work, ignore_errors=True)

    def start(self, name, *words):
        """Two launchers that begin at the same moment in one temporary folder stand in each other's way."""
        self.starts[name] += 1
        folder = self.work / f"tmp-{name}"
        folder.mkdir(exist_ok=True)
        places = dict(TMPDIR=str(folder), OMPI_MCA_btl_vader_backing_directory=str(folder))
        with open(self.work / f"{name}.out", "a") as out, open(self.work / f"{name}.err", "a") as err:
            self.running[name] = subprocess.Popen([*map(str, words)], stdout=out, stderr=err, start_new_session=True, env={**os.environ, **places})

    def command(self, ranks, save, *more):
        launcher = [*mpirun, "-n", ranks] if ranks > 1 else []
        option = ["--sync-option", *self.sync[1:]] if self.sync[1:] else []
        return [*launcher, penstock, "train", "--model", self.work / "model.json", "--token-ids", self.work / "ids.txt",
                "--micro-batch-size", 1, "--global-batch-size", 12, "--train-iters", self.steps, "--lr", "1e-2", "--threads", 1,
                "--peak-tflops", "0.05", "--sync", self.sync[0], "--sync-interval", self.interval, *option, *self.common, "--save", save, "--log", f"{save}.jsonl", *more]

    def job(self, ranks, *options):
        """The weights of one job whose replicas are what islands are elsewhere."""
        self.start("job", *self.command(ranks, self.work / "job", *options))
        if self.running.pop("job").wait(timeout=(300 + self.steps / 20) * rig.SLOWNESS) != 0:
            self.fail("one job ends with an error")
        return self.weights("job")

    def weights(self, folder):
        """A hash of all weights of the last step, whichever files they are in."""
        tensors = {}
        for path in (self.work / folder / f"step-{self.steps:08d}").glob("model*.safetensors"):
            data = path.read_bytes()
            begin = 8 + int.from_bytes(data[:8], "little")
            for name, facts in json.loads(data[8:begin]).items():
                if name != "__metadata__":
                    tensors[name] = data[begin + facts["data_offsets"][0]:begin + facts["data_offsets"][1]]
        if len(tensors) != 21:
            self.fail(f"{folder} has {len(tensors)} tensors in its last step")
        return hashlib.sha256(b"".join(name.encode() + tensors[name] for name in sorted(tensors))).hexdigest()

    def start_island(self, number):
        folder = self.work / f"save-{number}"
        load = ["--load", folder] if any(folder.glob("step-*")) and not self.is_supervised else []
        keep = ["--save-interval", 5, "--save-keep", 2] if self.is_supervised else []
        supervise = [penstock, "supervise", "--max-restarts", 1000000, "--events", self.work / f"events-{number}.jsonl", "--"]
        self.start(f"island-{number}", *(supervise if self.is_supervised else []),
                   *self.command(self.ranks, folder, *self.options, *load, *keep, "--ring", self.addresses["coordinator-0"], "--island", number,
                                 "--key", self.work / f"island-{number}.key", "--patience", self.patience + "s"))

    def start_all(self):
        self.start_coordinator()
        for i in range(self.islands):
            self.start_island(i)

    def kill(self, name):
        """All of an island, or the coordinator; it starts again."""
        kill_group(self.running.pop(name))
        self.start_coordinator() if name.startswith("coordinator") else self.start_island(int(name[-1]))

    def kill_one(self, name):
        """A rank or the launcher of an island, which its supervisor starts again."""
        found = descendants(self.running[name].pid)
        if not found:
            return False
        try:
            os.kill(rng.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def is_done(self):
        """Whether all islands have ended; none may with an error."""
        names = [f"island-{i}" for i in range(self.islands)]
        for name in names:
            if self.running[name].poll() not in (None, 0):
                self.fail(f"{name} ends with exit code {self.running[name].returncode}")
        return all(self.running[name].poll() == 0 for name in names)

    def wait(self, name):
        if self.running[name].wait(timeout=300 * rig.SLOWNESS) != 0:
            self.fail(f"{name} ends with exit code {self.running[name].returncode}")

    def finish(self, words, expected, seconds=300):
        limit = time.monotonic() + seconds * rig.SLOWNESS
        while not self.is_done():
            if time.monotonic() > limit:
                self.fail(f"{words}: islands do not end; {self.record()}")
            time.sleep(0.05)
        for i in range(self.islands):
            found = self.weights(f"save-{i}")
            expected = expected or found
            if found != expected:
                self.fail(f"{words}: island {i} has other weights: {found}, expected {expected}")
        record = self.record()
        self.check_report(record)
        self.clean()
        now = time.monotonic()
        print(f"{words}: {now - self.began:.1f} s", flush=True)
        return record

    def check_report(self, record):
        """Logs say which rounds were committed, each step once; the report shows them."""
        logs = [self.work / f"save-{i}.jsonl" for i in range(self.islands)]
        for path in logs:
            lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
            steps = [line["step"] for line in lines]
            rounds = [line for line in lines if "round" in line]
            if steps != sorted(set(steps)) or not rounds or rounds[-1]["round"] > record["round"]:
                self.fail(f"{path}: rounds {[line['round'] for line in rounds]} of steps {steps}")
            if any(not self.quorum <= line["round_islands"] <= self.islands or line["step"] % 5 for line in rounds):
                self.fail(f"{path}: {rounds}")
        told = subprocess.run([penstock, "report", *logs], capture_output=True, text=True)
        subprocess.run([penstock, "report", *logs, "-o", self.work / "report.html"], capture_output=True)
        if "rounds between islands" not in told.stdout or "Rounds between islands" not in (self.work / "report.html").read_text():
            self.fail(f"the report does not show rounds: {told.stdout} {told.stderr}")

    began = time.monotonic()
