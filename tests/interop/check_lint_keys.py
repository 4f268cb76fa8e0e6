#!/usr/bin/env python3
"""Whether `penstock lint` knows every key that a program reads: a key that it does not know would be a false alarm.

Usage: check_lint_keys.py PENSTOCK deepspeed|torchtitan
The keys come from the program's own code, in the environment that runs this. Prints how many there are; exits 1 if one of
them is called unknown, or if a key that nobody has is not.
"""
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from types import SimpleNamespace

NOBODYS = "key_that_nobody_has"


def fields_of(model):
    """Names and aliases of a pydantic model."""
    return {name for key, field in model.model_fields.items() for name in (key, field.alias) if name}


def deepspeed_keys():
    import deepspeed.runtime.config as module
    import deepspeed.runtime.precision_config as precision
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    from check_deepspeed import Recorder

    module.dist = SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda group=None: 1)
    top = Recorder({"train_batch_size": 1})
    module.DeepSpeedConfig(top, mpu=None)
    keys = {"": {key for key in top.asked if isinstance(key, str)}, "zero_optimization": fields_of(DeepSpeedZeroConfig)}
    for section, name in (("fp16", "DeepSpeedFP16Config"), ("bf16", "DeepSpeedBF16Config")):
        keys[section] = fields_of(getattr(precision, name))
    return keys


def torchtitan_keys():
    from torchtitan.config import JobConfig

    config = JobConfig()
    return {section: {field.name for field in dataclasses.fields(getattr(config, section))}
            for section in ("training", "parallelism", "activation_checkpoint")}


def write(path, keys):
    """A file with all keys; the values do not matter."""
    if path.suffix == ".json":
        tree = {key: 1 for key in keys[""]}
        tree.update({section: {key: 1 for key in names} for section, names in keys.items() if section})
        path.write_text(json.dumps(tree, indent=1))
        return
    path.write_text("".join(f"[{section}]\n" + "".join(f"{name} = 1\n" for name in sorted(names))
                            for section, names in keys.items()))


def check(penstock, program):
    """Whether something is wrong."""
    keys, suffix = (deepspeed_keys(), ".json") if program == "deepspeed" else (torchtitan_keys(), ".toml")
    for names in keys.values():
        names.add(NOBODYS)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / ("all" + suffix)
        write(path, keys)
        done = subprocess.run([penstock, "lint", "--json", str(path)], capture_output=True, text=True)
        found = json.loads(done.stdout)["files"][0]["findings"]
    unknown = [finding for finding in found if finding["rule"] in ("unknown-option", "other-option")]
    wrong = [finding["what"] for finding in unknown if NOBODYS not in finding["what"]]
    for what in wrong:
        print(f"wrong: {what}")
    missed = len(keys) - (len(unknown) - len(wrong))
    if missed:
        print(f"{missed} sections take a key that nobody has")
    print(f"{program}: {sum(map(len, keys.values())) - len(keys)} keys, {len(wrong)} called unknown")
    return bool(wrong or missed)


if __name__ == "__main__":
    sys.exit(check(*sys.argv[1:]))
