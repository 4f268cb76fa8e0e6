"""What check_training.py and check_images.py share: distances, and asking Penstock."""

import json
import os
import subprocess

import numpy as np
from safetensors.numpy import load_file

LOSS_LIMIT, GRADIENT_LIMIT = 1e-5, 1e-4
failures = 0


def check(what, found, limit):
    """A distance that must not be larger than the limit; whether it is."""
    global failures
    is_good = found <= limit
    failures += not is_good
    print(f"{'ok' if is_good else 'FAILED':6}  {what}: {found:.3g}, at most {limit:.3g}")
    return not is_good


def distance(truth, found):
    """Norm of the difference over the norm of the truth."""
    truth, found = truth.astype(np.float64), found.astype(np.float64)
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


def worst_loss(truth, found):
    assert len(truth) == len(found)
    return max(abs(a - b) / abs(a) for a, b in zip(truth, found))


def published(model, tensors):
    """Tensors by the names of published files, of which transformers fuses some in memory."""
    if model == "gpt_oss":
        return tensors
    names = {"mixtral": ("w1", "w3", "w2")}.get(model, ("gate_proj", "up_proj", "down_proj"))
    found = {}
    for name, tensor in tensors.items():
        if model == "mixtral":
            name = name.replace(".mlp.", ".block_sparse_moe.")
        base, _, last = name.rpartition(".")
        if last == "gate_up_proj":
            for expert, (gate, up) in enumerate(np.split(t, 2) for t in tensor):
                found[f"{base}.{expert}.{names[0]}.weight"] = gate
                found[f"{base}.{expert}.{names[1]}.weight"] = up
        elif last == "down_proj":
            for expert, down in enumerate(tensor):
                found[f"{base}.{expert}.{names[2]}.weight"] = down
        else:
            found[name] = tensor
    return found


def check_gradients(what, truth, found):
    """Each tensor for itself."""
    # A buffer has no gradient there, and one of zeros here.
    for name in [name for name in found if name.endswith("e_score_correction_bias")]:
        check(f"{what}, {name}", np.abs(found.pop(name)).max(), 0)
    assert found.keys() == truth.keys(), found.keys() ^ truth.keys()
    name, worst = max(((name, distance(truth[name], found[name])) for name in found),
                      key=lambda pair: pair[1])
    check(f"{what}, {len(found)} tensors, worst {name}", worst, GRADIENT_LIMIT)


def flatten(*sets):
    """The tensors of each set one behind the other, in the order of the first set's names."""
    names = sorted(sets[0])
    return [np.concatenate([tensors[name].astype(np.float64).ravel() for name in names])
            for tensors in sets]


class Distances:
    """How far PyTorch's bf16 and ours are from the truth, over some models.

    Rounding is a throw of dice, and one tiny model is few throws: distances are root mean
    squares over all models.
    """

    def __init__(self):
        self.pairs = {}

    def add(self, what, truth, torch, found):
        self.pairs.setdefault(what, []).append((distance(truth, found), distance(truth, torch)))

    def check(self, name):
        for what, pairs in self.pairs.items():
            ours, theirs = np.sqrt(np.mean(np.square(pairs), axis=0))
            check(f"{name} {what} of {len(pairs)} models", ours, theirs)


def train(build, about, dtype, work, options, ranks=1):
    """Losses and gradient norms of the same steps by penstock train, on so many ranks."""
    launcher = [] if ranks == 1 else os.environ.get(
        "PEN_MPIRUN", "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none").split() + ["-n", ranks]
    log = os.path.join(work, "run.jsonl")
    settings = about["settings"]
    if about["optimizer"] == "adamw":
        numbers = ["--optimizer", "adam", "--adam-beta1", settings["betas"][0],
                   "--adam-beta2", settings["betas"][1], "--adam-eps", settings["eps"]]
    elif about["optimizer"] == "muon":
        muon = settings["muon"]
        numbers = ["--optimizer", "muon", "--adam-beta1", settings["betas"][0],
                   "--adam-beta2", settings["betas"][1], "--adam-eps", settings["eps"],
                   "--muon-lr", muon["lr"], "--muon-momentum", muon["momentum"]]
    else:
        numbers = ["--optimizer", "sgd", "--sgd-momentum", settings["momentum"]]
    command = launcher + [
               os.path.join(build, "penstock"), "train",
               "--micro-batch-size", about["batch"], "--train-iters", len(about["losses"]),
               "--lr", settings["lr"], "--lr-decay-style", "constant",
               "--weight-decay", settings["weight_decay"], "--weight-decay-groups", "all",
               "--clip-grad", 0, "--threads", 1, "--log", log] + numbers + options
    command += ["--bf16"] if dtype == "bf16" else []
    subprocess.run([str(word) for word in command], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as f:
        steps = [json.loads(line) for line in f][1:]
    return [step["loss"] for step in steps], [step["grad_norm"] for step in steps]


def step_one(build, where, batch, dtype, work):
    """Loss, logits and gradients of the first step."""
    run = subprocess.run([os.path.join(build, "tests", "train_files"), where, dtype,
                          str(batch), work], check=True, capture_output=True, text=True)
    return (float(run.stdout), load_file(os.path.join(work, "logits.safetensors"))["logits"],
            load_file(os.path.join(work, "gradients.safetensors")))
