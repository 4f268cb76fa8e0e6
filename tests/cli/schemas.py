#!/usr/bin/env python3
"""Runs random commands with --json and holds what they print against `penstock schema`.

    schemas.py PENSTOCK WORK COUNT SEED

Schemas are read strictly: an object with "properties" has no others, so that a key without a schema fails. Every schema of
an answer must have been used, unless a program is not installed. Files that were made on the way are checked, too. Where the
package jsonschema is there, it must agree. Prints what is wrong, and how often each schema was used.
"""
import atexit
import collections
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys

OLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "old", "0.1.0")
LINE = ("--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
        "--global-batch-size 256 --vocab-size 50257 --bf16")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("integer", "number"):
        return (isinstance(value, int) or (name == "number" and isinstance(value, float))) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def mistakes(value, schema, root, path="$"):
    """What is wrong with a value, as sentences."""
    if "$ref" in schema:
        return mistakes(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, path)
    if "oneOf" in schema:
        found = [mistakes(value, one, root, path) for one in schema["oneOf"]]
        return [] if sum(not one for one in found) == 1 else min(found, key=len) or [f"{path}: matches several schemas"]
    known = {"type", "properties", "required", "items", "enum", "const", "minimum", "additionalProperties", "description", "pattern",
             "$schema", "$id", "title", "$defs"}
    wrong = [f"{path}: the test does not know '{key}'" for key in schema if key not in known]
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(is_type(value, name) for name in names):
        return wrong + [f"{path}: {json.dumps(value)[:60]} is not {' or '.join(names)}"]
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        wrong.append(f"{path}: {json.dumps(value)[:60]} is not allowed")
    if "minimum" in schema and is_type(value, "number") and value < schema["minimum"]:
        wrong.append(f"{path}: {value} is below {schema['minimum']}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            wrong += mistakes(item, schema.get("items", {}), root, f"{path}[{i}]")
    if isinstance(value, dict):
        wrong += [f"{path}: '{key}' is missing" for key in schema.get("required", []) if key not in value]
        others = schema.get("additionalProperties", "properties" not in schema)
        for key, item in value.items():
            if key in schema.get("properties", {}):
                wrong += mistakes(item, schema["properties"][key], root, f"{path}.{key}")
            elif isinstance(others, dict):
                wrong += mistakes(item, others, root, f"{path}.{key}")
            elif not others:
                wrong.append(f"{path}: no schema has '{key}'")
    return wrong


class Lines:
    """Random command lines. Files that they read are made once."""

    def __init__(self, program, work, seed):
        self.program = program
        self.work = work
        self.random = random.Random(seed)
        self.plans = []
        one = self.random.choice
        self.kinds = [(self.plan, 10), (self.why, 5), (self.targets, 2), (self.megatron, 3), (self.check, 4), (self.predict, 12),
                      (self.listed, 8), (self.schedule_check, 10), (self.schedule_time, 10), (self.compare, 8), (self.search, 4),
                      (self.sync, 10), (self.export, 4), (self.lint, 4), (self.cluster, 6), (self.partition, 4), (self.wrong, 12), (self.view, 8),
                      (self.saved, 4), (self.simulate, 2)]
        self.one = one

    def run(self, *words):
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)

    def file(self, name, text=None):
        path = os.path.join(self.work, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def make_files(self):
        for i, words in enumerate((["gpt2", "8xa100-40"], ["llama-3.1-8b", "16xh100-sxm", "--target", "torchtitan"],
                                   ["gpt2", "4xxeon-amx"], ["deepseek-v3", "512xh100-sxm"])):
            path = self.file(f"plan{i}.json")
            if self.run("plan", *words, "--seconds", "0.02", "-o", path).returncode == 0:
                self.plans.append(path)
        names = json.loads(self.run("schedule", "list", "--json").stdout)["schedules"]
        self.names = [each["name"] for each in names]
        self.schedules = []
        for name in self.random.sample(self.names, 8):
            path = self.file(name + ".pen")
            if self.run("schedule", "make", name, "--stages", 4, "--microbatches", 8, "-o", path).returncode == 0:
                self.schedules.append(path)

    def next(self):
        kinds = [kind for kind, weight in self.kinds for _ in range(weight)]
        return [*map(str, self.one(kinds)()), "--json"]

    def every(self):
        """What luck may leave out: each schema has an output."""
        plan = self.plans[0]
        step = os.path.join(OLD, "checkpoint", "step-00000004")
        return [[*words, "--json"] for words in (
            ("help",), ("schema",), ("models",), ("cluster", "list"), ("cluster", "show", "8xh200"), ("cluster", "check", "8xh200"),
            ("schedule", "list"), ("schedule", "search", "--stages", "2", "--microbatches", "2"), ("sync", "list"), ("ring", "show", "journal:" + self.ring()),
            ("ring", "status", *self.coordinator()), ("doctor",), ("doctor", "--engine", "reference", "--model", step, "--seq-length", "1"),
            ("plan", "nothing", "8xh100"), ("plan", "gpt2", "8xh100", "--why", "tp=2"), ("plan", "gpt2", "8xh100", "--why", "tp=8"),
            ("plan", "llama-3.1-8b", "8xh100", "--compare-targets"), ("plan", "--cluster", "16xa100-80", "--from-megatron", LINE),
            ("plan", "gpt2", "8xh100", "--explain"), ("predict", "gpt2", "8xh100"), ("schedule", "check", self.schedules[0]),
            ("schedule", "time", self.schedules[0]), ("schedule", "compare", "--stages", "2", "--microbatches", "4"),
            ("sync", "compare", "--model", "gpt2", "--link", "1Gb/s", "--replicas", "2", "--step-time", "1s"),
            ("plan", "check", plan), ("view", plan), ("export", plan, "-o", os.path.join(self.work, "job")),
            ("checkpoint", "ls", os.path.dirname(step)), ("checkpoint", "verify", step), ("checkpoint", "hash", step),
            ("eval", "--model", step, "--token-ids", os.path.join(OLD, "checkpoint", "ids.txt"), "--threads", "1"),
            ("profile", "--model", step, "--seq-length", "4", "--rounds", "5", "--threads", "1", "-o", os.path.join(self.work, "profile.json")),
            ("simulate", "--plan", plan, "--trace", os.path.join(self.work, "trace")), ("view", os.path.join(self.work, "trace")),
            ("simulate", "--plan", plan, "--sweep", "jitter=0:0.1:0.1"),
            ("tokenize", "--train-chars", os.path.abspath(__file__), "-o", os.path.join(self.work, "chars")),
            ("tokenize", "--tokenizer", os.path.join(self.work, "chars"), os.path.abspath(__file__), "-o", os.path.join(self.work, "tokens")),
            ("report", self.log()), ("probe", "diff", self.probe(1.0), self.probe(1.5)), ("partition", self.graph(), "--devices", "2"),
            ("lint", self.file("every.sh", "python pretrain_gpt.py " + LINE)), self.recorded("real/slow"))]

    def log(self):
        head = {"format": "penstock-run", "version": 1, "model": "m", "settings": {"lr": 0.1}}
        steps = [{"step": i, "loss": 3 + 1 / i, "grad_norm": 1.5, "lr": 0.1, "tokens": 64 * i, "tokens_per_sec": 900.0, "share_of_peak": 0.5,
                  "step_ms": 71, "memory_bytes": 1000000, "elapsed_sec": 0.07 * i} for i in range(1, 40)]
        return self.file("log.jsonl", "".join(json.dumps(each) + "\n" for each in [head, *steps]))

    def question(self):
        model = self.one(["gpt2", "gpt2-xl", "llama-3.1-8b", "qwen3-30b-a3b", "llama-3.1-70b", "resnet-50", "mixtral-8x7b"])
        cluster = self.one([4, 8, 16, 64]), self.one(["h100", "a100-40", "a100-80", "h200", "b200", "mi300x", "h800"])
        words = [model, f"{cluster[0]}x{cluster[1]}"]
        if self.random.random() < 0.7 and model != "resnet-50":
            words += ["--seq-length", self.one([512, 1024, "4k"])]
        if self.random.random() < 0.7:
            words += ["--global-batch-size", self.one([64, 128, 1024])]
        return words

    def plan(self):
        words = ["plan", *self.question(), "--seconds", "0.02", "--top", self.one([1, 3, 10])]
        for option in ("--explain", "--allow-stale", "--allow-local", "--within=5%", "--tokens=1T", "--memory-limit=30GiB",
                       "--objective=energy", "--objective=cost"):
            if self.random.random() < 0.2:
                words.append(option)
        return words

    def why(self):
        return ["plan", *self.question(), "--seconds", "0.02", "--why",
                self.one(["tp=2", "tp=8", "pp=2,tp=2", "dp=1", "recompute=full", "sharding=none", "micro-batch=4", "cp=2"])]

    def targets(self):
        return ["plan", *self.question(), "--seconds", "0.02", "--compare-targets"]

    def megatron(self):
        line = f"{LINE} --tensor-model-parallel-size {self.one([1, 2, 4])} --pipeline-model-parallel-size {self.one([1, 2, 4])}"
        return [self.one(["plan", "predict"]), "--cluster", self.one(["16xa100-80", "32xh100"]), "--from-megatron", line]

    def check(self):
        return ["plan", "check", self.one(self.plans)]

    def predict(self):
        words = ["predict", *self.question(), "--tp", self.one([1, 2, 4]), "--pp", self.one([1, 2, 4]), "--micro-batch-size", self.one([1, 2])]
        for option in ("--recompute-granularity=full", "--tokens=300G", "--optimizer=muon", "--grad-reduce-in-bf16", "--sharding=zero1",
                       "--failures=llama3"):
            if self.random.random() < 0.25:
                words.append(option)
        return words

    def listed(self):
        return self.one([["models"], ["cluster", "list"], ["schedule", "list"], ["sync", "list"], ["schema"]])

    def schedule_check(self):
        path = self.one(self.schedules)
        if self.random.random() < 0.5:
            return ["schedule", "check", path]
        text = [line.split() for line in open(path)]
        row = self.one([line for line in text if line[0] == "rank"])
        place = self.random.randrange(2, len(row))
        what = self.random.random()
        if what < 0.4:
            other = self.random.randrange(2, len(row))
            row[place], row[other] = row[other], row[place]
        elif what < 0.7:
            row.pop(place)
        else:
            row[place] = self.one(["X1", "F", "B99", "F0F"])
        return ["schedule", "check", self.file("wrong.pen", "".join(" ".join(row) + "\n" for row in text))]

    def schedule_time(self):
        return ["schedule", "time", self.one(self.schedules), "--costs", self.one(["f=1,b=2", "f=1,i=1,w=1,comm=0.1", "f=2,i=1,w=3"])]

    def compare(self):
        words = ["schedule", "compare", "--stages", self.one([2, 4, 8]), "--microbatches", self.one([4, 8, 16])]
        return words + self.one([[], ["--memory-limit", self.one([2, 4, 8])], ["--chunks", 2], self.random.sample(self.names, 3)])

    def search(self):
        return ["schedule", "search", "--stages", self.one([2, 3]), "--microbatches", self.one([2, 4]),
                "--memory-limit", self.one([0.5, 2, 3]), "--seconds", 0.05]

    def sync(self):
        words = ["sync", "compare", "--model", self.one(["gpt2", "gpt2-xl", "llama-3.1-8b"]), "--link", self.one(["1Gb/s", "100MB/s", "10GB/s"]),
                 "--replicas", self.one([2, 4, 16]), "--step-time", self.one(["1s", "300ms"])]
        return words + self.one([[], ["--optimizer", "sgd"], ["--latency", "10ms"], ["--compress", "none"]])

    def export(self):
        return ["export", self.one(self.plans), "-o", os.path.join(self.work, "job"), "--to",
                self.one(["megatron", "torchtitan", "deepspeed", "nanotron", "sbatch", "all"])]

    def ring(self):
        """A journal without a line: a ring that has not begun."""
        return self.file("ring.journal", "")

    def coordinator(self):
        """Starts one; it ends with this process. What its status is asked with."""
        os.makedirs(self.file("keys"), exist_ok=True)
        for node in ("island-0", "coordinator-0", "operator-me"):
            self.file(f"keys/{node}.pub", self.run("ring", "key", self.file(node)).stdout)
        running = subprocess.Popen(
            [self.program, "ring", "coordinate", "--listen", "127.0.0.1:0", "--key", self.file("coordinator-0"), "--keys", self.file("keys"),
             "--quorum", "1", "--patience", "60s", "--store", "journal:" + self.file("live.journal")], stderr=subprocess.PIPE, text=True)
        atexit.register(running.kill)
        address = running.stderr.readline().split("listens on ")[1].split(";")[0]
        return address, "--key", self.file("operator-me"), "--keys", self.file("keys")

    def probe(self, norm):
        head = {"format": "penstock-probe", "version": 1}
        line = {"step": 1, "pass": "forward", "layer": 0, "name": "output", "count": 4, "norm": norm, "sum": 0, "max": 1,
                "hash": f"{int(norm * 2):016x}", "sketch": [0] * 8}
        return self.file(f"{norm}.probe", json.dumps(head) + "\n" + json.dumps(line) + "\n")

    def lint(self):
        return ["lint", self.file("run.sh", "python pretrain_gpt.py --squence-parallel " + LINE), "--world-size", self.one(["8", "7"])]

    def cluster(self):
        return ["cluster", self.one(["show", "check"]), self.one(["8xh100", "preset:dgx-a100*4", "64xb200", "3xnothing"])]

    def graph(self):
        return self.file("graph.json", json.dumps({"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [
            {"id": i, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 1 + i, "isBackwardNode": 0, "size": 1} for i in range(4)],
            "edges": [{"sourceId": i, "destId": i + 1, "cost": 0.5} for i in range(3)]}))

    def partition(self):
        return ["partition", self.graph(), "--devices", self.one([1, 2, 3])]

    def wrong(self):
        return self.one([["plan"], ["plan", "gpt2"], ["nothing"], ["schedule", "nothing"], ["plan", "gpt2", "8xh100", "--nothing"],
                         ["predict", "gpt2", "8xh100", "--tp", "3"], ["plan", "llama-3.1-405b", "8xh100"], ["schedule", "check", "/nowhere"],
                         ["plan", "check", self.file("bad.json", '{"format": "penstock-plan",\n "version": }')], ["plan", "gpt2", "8xh99"],
                         ["export", "/nowhere", "-o", self.work], ["cluster", "check", self.file("bad.yaml", "devices:\n  - 3: [\n")],
                         ["schedule", "search", "--stages", 4], ["sync", "compare"], ["report", "/nowhere"], ["view", "/nowhere"]])

    def view(self):
        folder = self.one([None, "real/slow", "real/skip", "real/dead", "real/stopped", "hand/unsent", "hand/slow_link"])
        if folder is None:
            return ["view", self.one(self.plans)]
        return self.recorded(folder)

    def recorded(self, folder):
        return ["view", *map(str, sorted((pathlib.Path(__file__).parent.parent / "traces" / folder).iterdir()))]

    def saved(self):
        return ["checkpoint", self.one(["ls", "verify", "hash"]), os.path.join(OLD, "checkpoint")]

    def simulate(self):
        return ["simulate", "--plan", self.plans[0]] + self.one([[], ["--slow-rank", "1=2"], ["--sweep", "jitter=0:0.1:0.05"]])


class Judge:
    """Schemas by name, and what was held against them."""

    def __init__(self, lines):
        self.schemas = {each["name"]: json.loads(lines.run("schema", each["name"]).stdout)
                        for each in json.loads(lines.run("schema", "--json").stdout)["schemas"]}
        self.by_format = {schema["properties"]["format"]["const"]: name for name, schema in self.schemas.items()
                          if "const" in schema.get("properties", {}).get("format", {})}
        self.used = collections.Counter()
        self.failures = 0
        try:
            import jsonschema
            self.validators = {}
            for name, schema in self.schemas.items():
                jsonschema.Draft202012Validator.check_schema(schema)
                self.validators[name] = jsonschema.Draft202012Validator(schema)
        except ImportError:
            self.validators = None

    def fail(self, what, wrong):
        self.failures += 1
        print(f"FAILED: {what}\n  " + "\n  ".join(wrong[:6]))

    def check(self, name, value, what):
        wrong = mistakes(value, self.schemas[name], self.schemas[name])
        if self.validators is not None and not wrong:
            wrong = [f"jsonschema: {error.message}" for error in self.validators[name].iter_errors(value)]
        self.used[name] += 1
        if wrong:
            self.fail(what, [f"{name}: {each}" for each in wrong])
        elif self.used[name] == 1:
            self.break_it(name, value)

    def break_it(self, name, value):
        """A right answer with one thing wrong is refused."""
        schema = self.schemas[name]
        broken = [{**value, "no_such_key": 1}] + [{k: v for k, v in value.items() if k != key} for key in schema.get("required", [])]
        broken += [{**value, key: {"no": {"such": "type"}}} for key in schema.get("required", [])]
        for each in broken:
            if not mistakes(each, schema, schema) and not any(schema["properties"].get(key, {}).get("type") == "object" for key in each
                                                              if each[key] == {"no": {"such": "type"}}):
                self.fail(f"schema {name} allows", [json.dumps(each)[:200]])

    def check_answer(self, words, done):
        what = f"penstock {' '.join(words)}"
        try:
            answer = json.loads(done.stdout)
            name = self.by_format[answer["format"]]
        except (ValueError, KeyError, TypeError) as error:
            return self.fail(what, [f"stdout is not an answer: {error!r}: {done.stdout[:80]!r}"])
        self.check(name, answer, what)
        if done.returncode not in (0, 1, 2) or name == "error" and done.returncode == 0:
            self.fail(what, [f"exit code {done.returncode}"])
        return answer.get("error", {}).get("code")

    def check_file(self, name, path, lines=False):
        if os.path.exists(path):
            with open(path) as file:
                for text in file if lines else [file.read()]:
                    self.check(name, json.loads(text), path)

    def check_files(self, lines):
        for path in lines.plans:
            self.check_file("plan-file", path)
        self.check_file("manifest-file", os.path.join(OLD, "checkpoint", "step-00000004", "MANIFEST.json"))
        self.check_file("profile-file", os.path.join(lines.work, "profile.json"))
        self.check_file("run-log-line", lines.log(), lines=True)
        costs = os.path.join(OLD, "..", "..", "..", "examples", "costs")
        for name in sorted(os.listdir(costs)):
            self.check_file("costs-file", os.path.join(costs, name))
        events = os.path.join(lines.work, "supervise.jsonl")
        for code in ("0", "2"):
            lines.run("supervise", "--events", events, "--", "sh", "-c", f"exit {code}")
        # The second answer has more slots than the first one.
        lines.run("supervise", "--events", events, "--nodes-from",
                  f"echo a $(wc -l <{events})", "--", "sh", "-c", "test {ranks} -gt 5 || exit 7")
        self.check_file("supervise-event", events, lines=True)
        self.check("ranks-file", {"format": "penstock-ranks", "version": 1, "ranks": [{"predicted_bytes": 1, "peak_bytes": 2}]}, "ranks.json")
        try:
            import yaml
        except ImportError:
            return
        for source in ("8xh100", "preset:gb200-nvl72*2"):
            self.check("cluster-file", yaml.safe_load(lines.run("cluster", "show", source).stdout), source)


def main():
    program, work, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    lines = Lines(program, work, seed)
    lines.make_files()
    judge = Judge(lines)
    codes = {judge.check_answer(words, lines.run(*words))
             for words in itertools.chain(lines.every(), (lines.next() for _ in range(count)))}
    answers = sum(judge.used.values())
    judge.check_files(lines)
    unused = [name for name in judge.schemas if judge.used[name] == 0 and name not in ("reproduce", "cluster-file")]
    if unused and "not-installed" not in codes:
        judge.fail("no output for these schemas", unused)
    print(f"seed {seed}: {answers} outputs and {sum(judge.used.values()) - answers} files against {len(judge.schemas)} schemas, "
          f"{judge.failures} wrong;", ", ".join(f"{name} {n}" for name, n in sorted(judge.used.items())))
    sys.exit(judge.failures > 0)


if __name__ == "__main__":
    main()
