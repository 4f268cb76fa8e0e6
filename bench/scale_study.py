#!/usr/bin/env python3
"""Makes the tables and pictures of docs/scale.

  scale_study.py [STUDY ...] [--build build/release] [--runs ../shared/validation]
                 [--cache FOLDER] [--quick [--tables docs/scale]]

Studies: published, weak, strong, placement, slow-rank, jitter, wave; all of them when none is
named. Each writes its tables (.tsv) and pictures into docs/scale and its table into the README
there, between the marks of its name. The largest runs take some minutes each; with --cache what
was simulated is kept in a folder, and not simulated again when the script is.

--quick runs the smallest rows of the tables again and fails unless the very same line comes out:
simulations are deterministic.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "docs/scale")

# Set and row of every published run, and what it is.
PUBLISHED = [
    *(("sc21_table1", row, f"Megatron-LM, {size}") for row, size in enumerate(
        ["1.7 B", "3.6 B", "7.5 B", "18 B", "39 B", "76 B", "145 B", "310 B", "530 B", "1 T"])),
    *(("sc21_table2", row, f"Megatron-LM, {size}") for row, size in enumerate(
        ["175 B", "175 B", "175 B", "530 B", "530 B", "530 B"], start=6)),
    ("bloom", 127, "BLOOM, 176 B"),
    ("llama3", 0, "Llama 3, 405 B"),
    ("llama3", 1, "Llama 3, 405 B"),
    ("llama3", 2, "Llama 3, 405 B, 131,072 tokens"),
]


class Run:
    """A published run whose replicas are varied."""

    def __init__(self, name, title, devices, published, weak, strong):
        self.name = name
        self.title = title
        self.devices = devices  # of a replica
        self.published = published  # replicas and micro-batches of each: set and row
        self.weak = weak  # replicas, as the next
        self.strong = strong
        self.replicas, self.microbatches = next(iter(published))
        self.row = published[self.replicas, self.microbatches]

    def rows(self, is_weak):
        """Replicas and micro-batches of each point of a curve."""
        batch = self.replicas * self.microbatches
        for count in self.weak if is_weak else self.strong:
            yield count, self.microbatches if is_weak else batch // count


RUNS = [
    Run("bloom", "BLOOM 176 B, A100, tensor 4 and pipeline 12", 48, {(8, 128): ("bloom", 127)},
        [1, 4, 8, 16, 32, 64, 128], [1, 4, 8, 16, 32, 64, 128, 256]),
    Run("megatron-1t", "Megatron-LM 1 T, A100, tensor 8 and pipeline 64", 512,
        {(6, 512): ("sc21_table1", 9)}, [1, 6, 12, 32], [6, 12, 32]),
    Run("llama-3-405b", "Llama 3 405 B, H100, tensor 8 and pipeline 16", 128,
        {(128, 16): ("llama3", 1), (64, 32): ("llama3", 0)},
        [1, 8, 32, 128], [32, 64, 128]),
]

# Small enough to be run again by every test: of the table, the lines that begin so.
QUICK = {
    "published": ["sc21_table1\t0\t", "sc21_table1\t4\t", "bloom\t127\t"],
    "weak": ["bloom\t48\t", "bloom\t384\t"],
    "strong": ["bloom\t768\t"],
    "placement": ["bloom\ttp-cp-pp-dp\t"],
}

# Options of `penstock predict`; the model and the cluster come first.
LAYOUTS = {
    "bloom": ["--model", "docs/scale/bloom.json", "--cluster", "docs/scale/jean-zay.yaml",
              "--seq-length", "2048", "--global-batch-size", "2048", "--micro-batch-size", "2",
              "--tp", "4", "--pp", "12", "--target", "deepspeed", "--dtype", "bf16",
              "--recompute-granularity", "full", "--sharding", "zero1"],
    "llama-3-405b": ["--model", "preset:llama-3.1-405b", "--cluster", "docs/scale/pods.yaml",
                     "--seq-length", "8192", "--global-batch-size", "2048", "--tp", "8", "--pp",
                     "16", "--vpp", "8", "--stages", ",".join(["0", *["1"] * 126, "0"]),
                     "--target", "torchtitan", "--sharding", "zero2"],
    "wave": ["--model", "preset:gpt3-175b", "--cluster", "preset:a100-80*8192", "--seq-length",
             "2048", "--global-batch-size", "1024", "--tp", "8", "--pp", "32", "--target",
             "torchtitan", "--sharding", "zero2"],
}
MAPPINGS = ["tp-cp-dp-pp", "tp-cp-pp-dp", "random"]


class Study:
    def __init__(self, build, runs, cache):
        self.build = os.path.abspath(build)
        self.runs = os.path.abspath(runs)
        self.cache = cache
        self.work = tempfile.TemporaryDirectory()

    def call(self, program, *words):
        done = subprocess.run([f"{self.build}/{program}", *map(str, words)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=ROOT)
        # 1 of predict: the plan does not fit, but is written
        if done.returncode != 0 and not (words[0] == "predict" and done.returncode == 1):
            sys.exit(f"{program} {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def simulate(self, key, program, *words):
        """What a simulation prints, or printed when it was run with this key."""
        path = f"{self.cache}/{key}.json"
        if self.cache is not None and os.path.exists(path):
            with open(path) as kept:
                return json.load(kept)
        text = self.call(program, *words)
        if self.cache is not None:
            with open(path, "w") as kept:
                kept.write(text)
        return json.loads(text)

    def simulate_row(self, row, *words):
        return self.simulate("_".join(map(str, [*row, *words])).replace("--", ""),
                             "bench/simulate_published", self.runs, *row, *words)

    def plan(self, name):
        """The words that name a plan and its cluster."""
        path = f"{self.work.name}/{name}.json"
        if not os.path.exists(path):
            self.call("penstock", "predict", *LAYOUTS[name], "-o", path)
        return ["--plan", path, *LAYOUTS[name][2:4]]

    def simulate_plan(self, name, *words):
        key = "_".join(map(str, [name, *words])).replace("--", "").replace("/", "-")
        return self.simulate(key, "penstock", "simulate", *self.plan(name), "--json", "--steps",
                             1, *words)

    def draw(self, name, table, title, *words):
        path = f"{self.work.name}/{name}.tsv"
        with open(path, "w") as out:
            out.writelines("\t".join(map(str, line)) + "\n" for line in table)
        self.call("bench/draw_chart", path, "-o", f"{OUT}/{name}.svg", "--title", title, *words)


def seconds(value):
    return f"{value:.3f}"


def error(value, published):
    return f"{100 * (value / published - 1):+.1f} %"


def keep(name, head, lines):
    with open(f"{OUT}/{name}.tsv", "w") as out:
        out.writelines("\t".join(line) + "\n" for line in [head, *lines])


def load(name, folder=OUT):
    with open(f"{folder}/{name}.tsv") as table:
        lines = [line.rstrip("\n").split("\t") for line in table]
    return lines[0], lines[1:]


def place(name, lines):
    """Writes a table (a head and its lines) into the README, between the marks of the name."""
    path = f"{OUT}/README.md"
    text = "\n".join(["| " + " | ".join(lines[0]) + " |", "|---" * len(lines[0]) + "|",
                      *("| " + " | ".join(line) + " |" for line in lines[1:])])
    with open(path) as page:
        old = page.read()
    new, count = re.subn(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)",
                         lambda match: match.group(1) + text + match.group(2), old, flags=re.S)
    if count != 1:
        sys.exit(f"{path}: no marks of {name}")
    with open(path, "w") as page:
        page.write(new)


# ---- published runs ----

PUBLISHED_HEAD = ["set", "row", "what", "devices", "ranks", "published s", "planner s", "error",
                  "simulated s", "error"]


def published_line(study, row, number, what):
    found = study.simulate_row((row, number))
    published = found["published_sec"]
    return [row, str(number), what, str(found["devices"]), str(found["ranks"]),
            seconds(published), seconds(found["planner_sec"]),
            error(found["planner_sec"], published), seconds(found["simulated_sec"]),
            error(found["simulated_sec"], published)]


def published(study, only=None):
    for row, number, what in PUBLISHED:
        if only is None or any(f"{row}\t{number}\t".startswith(key) for key in only):
            yield published_line(study, row, number, what)


def mean_error(lines, column):
    errors = [abs(float(line[column].split()[0])) for line in lines]
    return f"{sum(errors) / len(errors):.2f} %"


def place_published(lines):
    mean = ["", "", "**mean of the errors**", "", "", "", "", mean_error(lines, 7), "",
            mean_error(lines, 9)]
    place("published", [PUBLISHED_HEAD, *lines, mean])


# ---- weak and strong scaling ----

CURVE_HEAD = ["run", "devices", "ranks", "batch", "published s", "planner s", "simulated s",
              "to the planner", "waiting for the pipeline s", "for sums s"]


def curve_line(study, run, count, microbatches):
    row, words = run.row, ["--replicas", count, "--microbatches", microbatches]
    if (count, microbatches) in run.published:
        row, words = run.published[count, microbatches], []
    found = study.simulate_row(row, *words)
    known = found["published_sec"]
    return [run.name, str(found["devices"]), str(found["ranks"]), str(found["batch"]),
            "" if known is None else seconds(known), seconds(found["planner_sec"]),
            seconds(found["simulated_sec"]),
            error(found["simulated_sec"], found["planner_sec"]), seconds(found["pipeline_sec"]),
            seconds(found["sums_sec"])]


def curve(study, is_weak, only=None):
    for run in RUNS:
        for count, microbatches in run.rows(is_weak):
            key = f"{run.name}\t{count * run.devices}\t"
            if only is None or key in only:
                yield curve_line(study, run, count, microbatches)


def draw_curves(study, name, lines):
    for run in RUNS:
        points = [line for line in lines if line[0] == run.name]
        table = [["devices", "planner", "simulated", "published"],
                 *([line[1], line[5], line[6], line[4]] for line in points)]
        words = ["--log-x", *(["--log-y"] if name == "strong" else [])]
        study.draw(f"{name}-{run.name}", table, f"{run.title}: {name} scaling", *words)


# ---- placement ----

PLACEMENT_HEAD = ["run", "mapping", "devices", "ranks", "planner s", "simulated s",
                  "waiting for the pipeline s", "for sums s", "fullest link", "full"]
PLACED = ["bloom", "llama-3-405b"]


def placement_line(study, name, mapping):
    found = study.simulate_plan(name, "--mapping", mapping)
    result = found["simulated"]
    link = result["links"][0]
    return [name, mapping, str(found["devices"]), str(found["ranks"]),
            seconds(found["predicted_sec"]), seconds(result["step_sec"]),
            seconds(result["spent"]["pipeline"]["mean_sec"]),
            seconds(result["spent"]["sums"]["mean_sec"]), link["name"],
            f"{100 * link['utilisation']:.1f} %"]


def placement(study, only=None):
    for name in PLACED:
        for mapping in MAPPINGS:
            if only is None or f"{name}\t{mapping}\t" in only:
                yield placement_line(study, name, mapping)


# ---- sweeps, and the wave ----

SWEEPS = {"slow-rank": "slow-rank=5@1:3:0.25", "jitter": "jitter=0:0.2:0.025"}


def sweep(study, name):
    found = json.loads(study.call("penstock", "simulate", *study.plan("bloom"), "--json",
                                  "--steps", "1", "--sweep", SWEEPS[name], "--plot",
                                  f"{OUT}/{name}.svg"))
    first = found["runs"][0]["step_sec"]
    head = [name, "simulated s", "of the first", "waiting s, mean"]
    lines = [[f"{run['strength']:g}", seconds(run["step_sec"]),
              f"{run['step_sec'] / first:.3f}", seconds(run["wait_sec"])]
             for run in found["runs"]]
    keep(name, head, lines)
    place(name, [head, *lines])


def wave(study):
    trace = f"{study.work.name}/wave"
    study.call("penstock", "simulate", *study.plan("wave"), "--steps", "1", "--slow-rank",
               "20=3", "--trace", trace)
    study.call("penstock", "view", trace, "--ranks", "0-63", "-o", f"{OUT}/wave.png")


# ---- all together ----

TABLES = {
    "published": (PUBLISHED_HEAD, published),
    "weak": (CURVE_HEAD, lambda study, only=None: curve(study, True, only)),
    "strong": (CURVE_HEAD, lambda study, only=None: curve(study, False, only)),
    "placement": (PLACEMENT_HEAD, placement),
}


def make(study, name):
    if name in SWEEPS:
        sweep(study, name)
        return
    if name == "wave":
        wave(study)
        return
    head, rows = TABLES[name]
    lines = []
    for line in rows(study):
        lines.append(line)
        print("\t".join(line), flush=True)
    keep(name, head, lines)
    if name == "published":
        place_published(lines)
    else:
        place(name, [head, *lines])
    if name in ("weak", "strong"):
        draw_curves(study, name, lines)


def check(study, folder):
    """Runs the rows of QUICK again; how many are not as the tables of the folder say."""
    num_wrong = 0
    for name, keys in QUICK.items():
        kept = {"\t".join(line) for line in load(name, folder)[1]}
        found = ["\t".join(line) for line in TABLES[name][1](study, only=keys)]
        for line in found:
            is_there = line in kept
            num_wrong += not is_there
            print(f"{name}: {'as kept' if is_there else 'NOT as kept'}: {line}")
        if len(found) != len(keys):
            sys.exit(f"{name}: {len(found)} rows of {len(keys)} were run")
    return num_wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("studies", nargs="*")
    parser.add_argument("--build", default=f"{ROOT}/build/release")
    parser.add_argument("--runs", default=f"{ROOT}/../shared/validation")
    parser.add_argument("--cache")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", default=OUT)
    args = parser.parse_args()
    names = [*TABLES, *SWEEPS, "wave"]
    study = Study(args.build, args.runs, args.cache)
    if args.quick:
        sys.exit(1 if check(study, args.tables) > 0 else 0)
    for name in args.studies or names:
        if name not in names:
            parser.error(f"no study {name}: {', '.join(names)}")
        make(study, name)


if __name__ == "__main__":
    main()
