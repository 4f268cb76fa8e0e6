"""The module of an installed wheel against the program of the machine: equal
objects, and the same codes of errors.

    python compare.py PENSTOCK [--quick | --brief]

PENSTOCK is a program that was built from the same sources. --quick makes a
third of the calls, --brief one of each kind. Prints how many were compared; the
exit code is 1 if one differs.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile

import penstock

BRIEF = "--brief" in sys.argv
QUICK = BRIEF or "--quick" in sys.argv
NATIVE = os.path.abspath(sys.argv[1])
SIZES = {"seq_length": "2k", "global_batch_size": 64}
count = 0
failures = []


def native(words):
    """What the program prints: its object."""
    done = subprocess.run([NATIVE, *words, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return json.loads(done.stdout)


def words_of(options):
    words = []
    for name, value in options.items():
        name = "--" + name.replace("_", "-")
        words += [name] if value is True else [name, str(value)]
    return words


def same(function, arguments, options, words=None):
    """`function(*arguments, **options)`, and the words of its name."""
    global count
    count += 1
    words = (words or function.replace("_", " ").split()) + list(arguments) + words_of(options)
    expected = native(words)
    try:
        found = getattr(penstock, function)(*arguments, **options)
    except penstock.Error as error:
        found = error.answer
    if found != expected:
        failures.append(" ".join(words))
        print("differs: penstock", *words, file=sys.stderr)
        print("  module: ", str(found)[:300], file=sys.stderr)
        print("  program:", str(expected)[:300], file=sys.stderr)


def compare_plans():
    if BRIEF:
        same("plan", ["gpt2", "8xh100"], SIZES)
        return
    models = ["gpt2", "llama-3.1-8b", "deepseek-v3"]
    clusters = ["8xh100", "64xh100", "256xgb200", "16xa100-40"]
    for model in models[:2] if QUICK else models:
        for cluster in clusters[:2] if QUICK else clusters:
            same("plan", [model, cluster], SIZES)
            same("predict", [model, cluster], {"tp": 4, "pp": 2, **SIZES})
    same("plan", ["llama-3.1-8b", "16xh100"], {"explain": True, **SIZES})
    same("plan", ["llama-3.1-8b", "16xh100"], {"why": "tp=8", **SIZES})
    same("plan", ["llama-3.1-8b", "16xh100"], {"compare_targets": True, **SIZES})
    same("plan", ["llama-3.1-405b", "8xh100"], SIZES)  # unfit
    same("plan", ["gpt2"], {"cluster": "8xh100", "objective": "energy", "tokens": "1T"})
    same("predict", ["gpt2", "8xh100"], {"use_distributed_optimizer": True, "micro_batch_size": 4})


def compare_schedules():
    listed = penstock.schedule_list()["schedules"]
    for row in listed[:1] if BRIEF else listed[:5] if QUICK else listed:
        same("schedule_compare", [row["name"]], {"stages": 4, "microbatches": 8})
        made = {"stages": 4, "microbatches": 8}
        try:
            text = penstock.schedule_make(row["name"], **made)
        except penstock.Error as error:  # some need other sizes
            print(row["name"], "is not compared:", error.message)
            continue
        with open("step.pen", "w", encoding="utf-8") as file:
            file.write(text)
        same("schedule_check", ["step.pen"], {})
        same("schedule_time", ["step.pen"], {"costs": "f=2,i=1,w=1", "all_ranks": True})
        if penstock.schedule_check(text) != penstock.schedule_check("step.pen"):
            failures.append("text of a schedule in place of its file: " + row["name"])
    if not BRIEF:
        same("schedule_search", [], {"stages": 2, "microbatches": 4})


def compare_others():
    for function in ("models", "cluster_list", "sync_list", "schedule_list", "schema"):
        same(function, [], {})
    names = [row["name"] for row in penstock.schema()["schemas"]]
    for name in names[:1] if QUICK else names:
        same("schema", [name], {})
    same("cluster_show", ["64xh100"], {})
    same("cluster_check", ["64xh100"], {})
    same("sync_compare", [], {"model": "gpt2", "link": "1Gb/s", "replicas": 4, "step_time": "1s"})
    options = {"to": "megatron", "output": "job"}
    penstock.plan("gpt2", "8xa100-40", output="plan.json", **SIZES)
    same("plan_check", ["plan.json"], {})
    same("export", ["plan.json"], options)
    same("view", ["plan.json"], {})
    with open("run.sh", "w", encoding="utf-8") as file:
        file.write("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 3 --pipeline-model-parallel-size 2\n")
    same("lint", ["run.sh"], {"world_size": 8})


def compare_errors():
    with open("broken.json", "w", encoding="utf-8") as file:
        file.write('{"format": ')
    with open("broken.pen", "w", encoding="utf-8") as file:
        file.write("# penstock-schedule 1\nname x\nranks 2\n")
    same("plan", ["nothing-of-this-name", "8xh100"], {})
    same("plan", ["gpt2", "8xnothing"], {})
    same("plan", ["gpt2", "8xh100"], {"top": "many"})
    same("plan_check", ["broken.json"], {})
    same("schedule_check", ["broken.pen"], {})
    same("schedule_time", ["broken.pen"], {})
    same("schedule_time", ["not-there.pen"], {})
    same("export", ["broken.json"], {})


def expect(claim, holds):
    global count
    count += 1
    if not holds:
        failures.append(claim)
        print("does not hold:", claim, file=sys.stderr)


def error_of(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except penstock.Error as error:
        return error
    return None


def check_missing():
    """Programs that the wheel does not have."""
    for words in (["train"], ["simulate", "--plan", "plan.json"], ["tokenize", "x"]):
        error = error_of(penstock.call, *words)
        expect(words[0] + " is not installed", error is not None and error.code == "not-installed")
        expect("the hint of " + words[0] + " speaks of the wheel",
               error is not None and "the Python package does not have it" in str(error))


def check_module():
    error = error_of(penstock.plan_check, "broken.json")
    copy = pickle.loads(pickle.dumps(error))
    expect("errors can be sent to another process", copy.answer == error.answer and copy.line == error.line)
    error = error_of(penstock.schedule_make, "no-such-schedule", stages=2, microbatches=2)
    expect("commands without --json raise errors, too", error is not None and "no-such-schedule" in error.message)
    error = error_of(penstock.schedule_make, "1f1b")
    expect("a missing option is an error", error is not None and error.message != "")
    os.environ["PENSTOCK"] = NATIVE
    expect("PENSTOCK names another program", penstock.program() == NATIVE)
    os.environ["PENSTOCK"] = os.path.abspath("no-such-program")
    error = error_of(penstock.models)
    expect("a missing program is an error", error is not None and error.code == "not-installed")
    os.environ["PENSTOCK"] = "/bin/false"
    error = error_of(penstock.models)
    expect("no answer is an error", error is not None and error.code == "failed" and "exit code 1" in error.message)
    del os.environ["PENSTOCK"]


def main():
    os.environ.pop("PENSTOCK", None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        compare_plans()
        compare_schedules()
        compare_others()
        compare_errors()
        check_missing()
        check_module()
        os.chdir("/")
    print("Python {}: {} of {} equal".format(sys.version.split()[0], count - len(failures), count))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
