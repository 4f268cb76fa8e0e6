"""Compares what Penstock computes with PyTorch; see run_training.

Usage: check_training.py BUILD REFERENCE WORK
REFERENCE has what gen_reference.py made, as OPTIMIZER-DTYPE/MODEL.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys

import gen_reference
import numpy as np
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch

LOSS_LIMIT, GRADIENT_LIMIT = 1e-5, 1e-4
SEEDS = range(1, 9)
MODELS = ("gpt2", "llama", "qwen2", "mistral")
failures = 0


def check(what, found, limit):
    """A distance that must not be larger than the limit."""
    global failures
    is_good = found <= limit
    failures += not is_good
    print(f"{'ok' if is_good else 'FAILED':6}  {what}: {found:.3g}, at most {limit:.3g}")


def distance(truth, found):
    """Norm of the difference over the norm of the truth."""
    truth, found = truth.astype(np.float64), found.astype(np.float64)
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


def worst_loss(truth, found):
    assert len(truth) == len(found)
    return max(abs(a - b) / abs(a) for a, b in zip(truth, found))


def reference(root, optimizer, dtype, model):
    """Losses, logits and gradients as PyTorch has them, and where they are."""
    where = os.path.join(root, f"{optimizer}-{dtype}", model)
    with open(os.path.join(where, "reference.json")) as f:
        about = json.load(f)
    gradients = {name: tensor.double().numpy() for name, tensor in
                 load_torch(os.path.join(where, "gradients.safetensors")).items()}
    return where, about, np.load(os.path.join(where, "logits.npy")), gradients


def train(build, where, about, dtype, work):
    """Losses of the same steps by penstock train."""
    log = os.path.join(work, "run.jsonl")
    settings = about["settings"]
    if about["optimizer"] == "adamw":
        options = ["--optimizer", "adam", "--adam-beta1", settings["betas"][0],
                   "--adam-beta2", settings["betas"][1], "--adam-eps", settings["eps"]]
    else:
        options = ["--optimizer", "sgd", "--sgd-momentum", settings["momentum"]]
    command = [os.path.join(build, "penstock"), "train", "--model", where,
               "--token-ids", os.path.join(where, "tokens.txt"),
               "--micro-batch-size", about["batch"], "--train-iters", len(about["losses"]),
               "--lr", settings["lr"], "--lr-decay-style", "constant",
               "--weight-decay", settings["weight_decay"], "--weight-decay-groups", "all",
               "--clip-grad", 0, "--threads", 1, "--log", log] + options
    command += ["--bf16"] if dtype == "bf16" else []
    subprocess.run([str(word) for word in command], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log) as f:
        steps = [json.loads(line) for line in f][1:]
    return [step["loss"] for step in steps], [step["grad_norm"] for step in steps]


def step_one(build, where, about, dtype, work):
    """Loss, logits and gradients of the first step."""
    run = subprocess.run([os.path.join(build, "tests", "train_files"), where, dtype,
                          str(about["batch"]), work], check=True, capture_output=True, text=True)
    return (float(run.stdout), load_file(os.path.join(work, "logits.safetensors"))["logits"],
            load_file(os.path.join(work, "gradients.safetensors")))


def check_f32(build, root, model, work):
    where, about, logits, gradients = reference(root, "adamw", "float32", model)
    loss, found_logits, found = step_one(build, where, about, "f32", work)
    check(f"{model} f32 logits", distance(logits, found_logits), LOSS_LIMIT)
    check(f"{model} f32 loss", abs(loss / about["losses"][0] - 1), LOSS_LIMIT)
    assert found.keys() == gradients.keys(), found.keys() ^ gradients.keys()
    name, worst = max(((name, distance(gradients[name], found[name])) for name in found),
                      key=lambda pair: pair[1])
    check(f"{model} f32 gradients, {len(found)} tensors, worst {name}", worst, GRADIENT_LIMIT)
    for optimizer in ("adamw", "sgd"):
        where, about, _, _ = reference(root, optimizer, "float32", model)
        losses, norms = train(build, where, about, "f32", work)
        check(f"{model} f32 {optimizer}, losses of {len(losses)} steps",
              worst_loss(about["losses"], losses), LOSS_LIMIT)
        check(f"{model} f32 {optimizer}, gradient norms",
              worst_loss(about["gradient_norms"], norms), GRADIENT_LIMIT)


def all_of(tensors, names):
    return np.concatenate([tensors[name].astype(np.float64).ravel() for name in names])


def first_steps(root, model):
    """Makes the truth and PyTorch's bf16 of one step for each seed; yields where they are."""
    for seed in SEEDS:
        out = os.path.join(root, f"seed-{seed}")
        for dtype in ("float64", "bfloat16"):
            args = argparse.Namespace(out=os.path.join(out, f"adamw-{dtype}"), seed=seed, steps=1,
                                      dtype=dtype, optimizer="adamw", lr=1e-3, shards=False)
            if not os.path.exists(os.path.join(args.out, model, "reference.json")):
                with contextlib.redirect_stdout(sys.stderr):
                    gen_reference.reference(model, args)
        yield out


def check_bf16(build, root, model, work):
    """Not further from the truth than PyTorch, both from the same bf16 weights.

    Rounding is a throw of dice, and gradients of one tiny model are few throws: distances are
    root mean squares over some models.
    """
    ours, theirs = [], []
    for out in first_steps(root, model):
        _, _, truth_logits, truth = reference(out, "adamw", "float64", model)
        where, about, logits, gradients = reference(out, "adamw", "bfloat16", model)
        _, found_logits, found = step_one(build, where, about, "bf16", work)
        names = sorted(truth)
        for into, value, tensors in ((ours, found_logits, found), (theirs, logits, gradients)):
            into.append((distance(truth_logits, value),
                         distance(all_of(truth, names), all_of(tensors, names))))
    ours, theirs = (np.sqrt(np.mean(np.square(pairs), axis=0)) for pairs in (ours, theirs))
    check(f"{model} bf16 logits of {len(SEEDS)} models", ours[0], theirs[0])
    check(f"{model} bf16 gradients of {len(SEEDS)} models", ours[1], theirs[1])
    for optimizer in ("adamw", "sgd"):
        _, exact, _, _ = reference(root, optimizer, "float64", model)
        where, about, _, _ = reference(root, optimizer, "bfloat16", model)
        losses, _ = train(build, where, about, "bf16", work)
        check(f"{model} bf16 {optimizer}, losses of {len(losses)} steps",
              worst_loss(exact["losses"], losses),
              worst_loss(exact["losses"], about["losses"]))


def main():
    build, root, work = sys.argv[1:]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for model in MODELS:
        check_f32(build, root, model, work)
        check_bf16(build, root, model, work)
    print(f"{failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
