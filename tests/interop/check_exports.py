#!/usr/bin/env python3
"""Let the program that a plan was exported for load the files, many in one process.

Usage: check_exports.py PENSTOCK TARGET DIR... [SAMPLE...]
Each DIR has plan.json and what `penstock export plan.json --to TARGET -o DIR` wrote.
A SAMPLE is a file of the folder samples that must be refused. Of programs whose keys `penstock lint`
knows all keys are shown to it (check_lint_keys.py).
The judging is that of check_megatron.py, check_torchtitan.py and check_deepspeed.py.
Prints a line for each refusal and the number of those accepted; exits 1 on a refusal
of a DIR, where a SAMPLE is accepted, and where lint calls a key unknown.
"""

import contextlib
import importlib
import io
import json
import os
import runpy
import shlex
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))


def judge(script, words):
    """The judge's exit code and words."""
    said = io.StringIO()
    sys.argv = [script] + [str(word) for word in words]
    module = importlib.import_module(script)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            module.main()
    except SystemExit as stop:
        if stop.code:
            raise ValueError(said.getvalue().strip()[-600:]) from None
    return said.getvalue()


def ranks(plan):
    d = plan["degrees"]
    return d["dp"] * d["tp"] * d["pp"] * d["cp"]


def layers(plan):
    last = plan["stages"][-1]
    return last["first"] + last["count"] - 2


def started(script):
    """The words behind the script that job.sbatch starts, also as started.args."""
    with open("started.words") as f:
        words = f.read().split("\0")[:-1]
    words = words[words.index(script) + 1:]
    with open("started.args", "w") as f:
        f.write(shlex.join(words) + "\n")
    return words


def expect(found, expected):
    if found != expected:
        raise ValueError(f"job.sbatch: {found}, expected {expected}")


def check_megatron(plan):
    """TransformerEngine needs a GPU; with fp8 experts its version is asked for."""
    import megatron.core.utils
    from packaging.version import Version

    megatron.core.utils.get_te_version = lambda: Version("2.10.0")
    judge("check_megatron", ["megatron.args", "--world", ranks(plan)])
    if not os.path.exists("started.words"):
        return
    words = started("train.py")
    judge("check_megatron", ["started.args", "--world", ranks(plan)])
    expect([words[words.index(name) + 1] for name in ("--data-path", "--tokenizer-model", "--lr", "--train-iters")],
           ["c4", "tokens", "0.0003", "1000"])


def check_titan_022(plan):
    judge("check_torchtitan", ["torchtitan.toml", "--layers", layers(plan),
                               "--world", ranks(plan)])
    if not os.path.exists("started.words"):
        return
    from torchtitan.config import ConfigManager

    config = ConfigManager().parse_args(started("torchtitan.train"))
    expect([config.training.dataset, config.model.hf_assets_path, config.optimizer.lr, config.training.steps,
            config.checkpoint.enable, config.parallelism.pipeline_parallel_degree],
           ["c4", "tokens", 0.0003, 1000, True, plan["degrees"]["pp"]])


def check_titan_030(plan):
    """Arguments and recipe must come to the same configuration."""
    sys.modules.pop("recipe", None)
    sys.path.insert(0, os.getcwd())
    try:
        judge("check_torchtitan", ["torchtitan.args", "--layers", layers(plan),
                                   "--world", ranks(plan)])
        from check_torchtitan import load

        with open("recipe.args", "w") as f:
            f.write("--module recipe --config plan\n")
        given, made = load("torchtitan.args"), load("recipe.args")
        for name in ("training", "parallelism", "activation_checkpoint", "debug"):
            if getattr(given, name) != getattr(made, name):
                raise ValueError(f"recipe.py differs in {name}: {getattr(made, name)}, "
                                 f"torchtitan.args: {getattr(given, name)}")
        if not os.path.exists("started.words"):
            return
        started("torchtitan.train")
        os.environ["LR"] = "0.0003"
        sys.modules.pop("recipe", None)
        config = load("started.args")
        rates = {group.optimizer_kwargs["lr"] for group in config.optimizer.param_groups}
        expect([config.dataloader.dataset, config.hf_assets_path, rates, config.training.steps,
                config.checkpoint.enable, config.parallelism == made.parallelism],
               ["c4", "tokens", {0.0003}, 1000, True, True])
    finally:
        sys.path.pop(0)


def check_deepspeed(plan):
    d = plan["degrees"]
    judge("check_deepspeed", ["ds_config.json", "--data", d["dp"], "--pipeline", d["pp"],
                              "--tensor", d["tp"] * d["cp"]])
    check_cut(plan, runpy.run_path("pipeline.py"))
    if os.path.exists("started.words"):
        expect(started("train.py"), ["--deepspeed", "--deepspeed_config", "ds_config.json"])


def check_cut(plan, module):
    """DeepSpeed's own module, asked on each stage which layers it builds."""
    if plan["degrees"]["pp"] == 1:
        return
    parts = module["PARTS"]
    if parts[-1] != layers(plan) + 2 or sorted(set(parts)) != parts:
        raise ValueError(f"parts {parts} are not all layers")

    class Bare(module["PlannedModule"]):
        def __init__(self, rank, topology):
            object.__setattr__(self, "_topo", topology)
            object.__setattr__(self, "global_rank", rank)

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

    d = plan["degrees"]
    topology = PipeModelDataParallelTopology(num_pp=d["pp"], num_mp=d["tp"], num_dp=d["dp"])
    for rank in range(topology.world_size()):
        bare = Bare(rank, topology)
        bare._partition_layers()
        stage = topology.get_coord(rank).pipe
        if (bare._local_start, bare._local_stop) != (parts[stage], parts[stage + 1]):
            raise ValueError(f"rank {rank} builds {bare._local_start}..{bare._local_stop}")


def check_nanotron(plan):
    import yaml

    with open("nanotron.yaml") as f:
        config = yaml.safe_load(f)
    d, p = plan["degrees"], config["parallelism"]
    if p["dp"] * p["tp"] * p["pp"] * p["context_parallel_size"] != ranks(plan):
        raise ValueError(f"{p} are not {d}")


CHECKS = {"megatron": check_megatron, "torchtitan@0.2.2": check_titan_022,
          "torchtitan@0.3.0": check_titan_030, "deepspeed": check_deepspeed,
          "nanotron": check_nanotron}


def is_refused(target, sample):
    """Whether the judge itself says no to a sample that is wrong."""
    script = "check_" + target.partition("@")[0]
    try:
        judge(script, [os.path.join(HERE, "samples", sample)])
    except ValueError:
        print(f"{sample} is refused")
        return True
    print(f"FAILED {script}.py accepts {sample}")
    return False


def main():
    penstock, target, *words = sys.argv[1:]
    penstock, check = os.path.abspath(penstock), CHECKS[target]
    folders = [os.path.abspath(word) for word in words if os.path.isdir(word)]
    samples = [word for word in words if not os.path.isdir(word)]
    sys.path.insert(0, HERE)
    warnings.simplefilter("ignore")
    refused = 0
    for folder in folders:
        os.chdir(folder)
        with open("plan.json") as f:
            plan = json.load(f)
        try:
            check(plan)
        except Exception as error:
            refused += 1
            print(f"{folder}: {type(error).__name__}: {error}")
    print(f"{target}: {len(folders) - refused} of {len(folders)} accepted")
    accepted = [sample for sample in samples if not is_refused(target, sample)]
    has_wrong_keys = False
    if target in ("deepspeed", "torchtitan@0.2.2"):
        import check_lint_keys  # here, where the program is loaded already
        has_wrong_keys = check_lint_keys.check(penstock, target.split("@")[0])
    sys.exit(refused > 0 or accepted != [] or has_wrong_keys)


if __name__ == "__main__":
    main()
