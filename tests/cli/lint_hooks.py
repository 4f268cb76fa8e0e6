#!/usr/bin/env python3
"""Reads .pre-commit-hooks.yaml and action.yml, and runs the commands in them.

    lint_hooks.py PENSTOCK ROOT WORK

Without the package yaml there is nothing to read them with: exit 0, with a message.
"""
import json
import os
import re
import shlex
import subprocess
import sys

program, root, work = sys.argv[1:4]
try:
    import yaml
except ImportError:
    print("the package yaml is missing: hooks are not checked")
    sys.exit(0)
path = os.path.dirname(os.path.abspath(program)) + os.pathsep + os.environ["PATH"]
good = os.path.join(root, "tests/lint/good/deepspeed_zero1.json")
bad = os.path.join(root, "tests/lint/bad/unknown-option--deepspeed_clip.json")


def run(words, **environment):
    return subprocess.run(words, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, cwd=work)


(hook,) = yaml.safe_load(open(os.path.join(root, ".pre-commit-hooks.yaml")))
assert hook["id"] == "penstock-lint" and hook["language"] == "system"
pattern = re.compile(hook["files"])
assert all(pattern.search(name) for name in ("run.sh", "job.sbatch", "megatron.args", "ds.json", "a.yml", "a.yaml", "a.toml"))
assert not any(pattern.search(name) for name in ("run.py", "README.md"))
assert run([*shlex.split(hook["entry"]), good]).returncode == 0
assert run([*shlex.split(hook["entry"]), good, bad]).returncode == 1

action = yaml.safe_load(open(os.path.join(root, "action.yml")))
assert action["runs"]["using"] == "composite" and action["inputs"]["files"]["required"]
build, lint = action["runs"]["steps"]
assert all(step["shell"] == "bash" for step in (build, lint))
assert set(lint["env"].values()) == {"${{ inputs.%s }}" % name for name in action["inputs"]}
assert run(["bash", "-eo", "pipefail", "-c", build["run"]]).returncode == 0  # penstock is there
for files, code, results in ((good, 0, 0), (f"{good} {bad}", 1, 1)):
    done = run(["bash", "-eo", "pipefail", "-c", lint["run"]], LINT_FILES=files, LINT_OPTIONS="--world-size 4", LINT_SARIF="out.sarif")
    assert done.returncode == code, done
    log = json.load(open(os.path.join(work, "out.sarif")))
    assert log["version"] == "2.1.0" and len(log["runs"][0]["results"]) == results
print("hook and action run")
