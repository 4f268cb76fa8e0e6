"""Compares what Penstock computes of images with PyTorch; see run_images.

Usage: check_images.py BUILD WORK
"""

import copy
import json
import math
import os
import struct
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.numpy import load_file
from safetensors.torch import save_file

import judge
from judge import check, distance, worst_loss

STEPS, BATCH, LABELS = 20, 8, 10
ORDER_SEED = 1234        # of the shuffle
SEEDS = range(1, 17)     # of weights and images


class Cnn(torch.nn.Module):
    """penstock_cnn: convolutions with ReLU and pool, then dense layers."""

    CONFIG = {"model_type": "penstock_cnn", "image_size": 28, "num_channels": 1,
              "conv_sizes": [6, 12], "kernel_size": 5, "hidden_sizes": [32, 16],
              "num_labels": LABELS}

    def __init__(self):
        super().__init__()
        sizes = [1] + self.CONFIG["conv_sizes"]
        self.conv = torch.nn.ModuleList(
            torch.nn.Conv2d(a, b, 5, padding=2) for a, b in zip(sizes, sizes[1:]))
        sizes = [12 * 7 * 7] + self.CONFIG["hidden_sizes"]
        self.dense = torch.nn.ModuleList(
            torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.classifier = torch.nn.Linear(sizes[-1], LABELS)

    def forward(self, x):
        for layer in self.conv:
            x = F.max_pool2d(F.relu(layer(x)), 2)
        x = x.flatten(1)
        for layer in self.dense:
            x = F.relu(layer(x))
        return self.classifier(x)


class Chain(torch.nn.Module):
    """penstock_cnn with "layers": AlexNet's kinds of window, and VGG's rows."""

    CONFIG = {"model_type": "penstock_cnn", "image_size": 28, "num_channels": 1,
              "layers": [{"conv": 6, "kernel": 5, "stride": 2, "padding": 1,
                          "pool": 3, "pool_stride": 2},
                         {"conv": 8, "repeat": 2}, {"dense": 16, "repeat": 2}],
              "num_labels": LABELS}

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.ModuleList(
            [torch.nn.Conv2d(1, 6, 5, 2, 1), torch.nn.Conv2d(6, 8, 3, 1, 1),
             torch.nn.Conv2d(8, 8, 3, 1, 1)])
        self.dense = torch.nn.ModuleList(
            [torch.nn.Linear(8 * 6 * 6, 16), torch.nn.Linear(16, 16)])
        self.classifier = torch.nn.Linear(16, LABELS)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv[0](x)), 3, 2)
        for layer in self.conv[1:]:
            x = F.relu(layer(x))
        x = x.flatten(1)
        for layer in self.dense:
            x = F.relu(layer(x))
        return self.classifier(x)


def make_resnet(kind, **more):
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(
        num_channels=1, embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2],
        layer_type=kind, num_labels=LABELS, **more))


MODELS = {"cnn": (Cnn, 28),
          "chain": (Chain, 28),
          "resnet basic": (lambda: make_resnet("basic"), 32),
          "resnet bottleneck": (lambda: make_resnet("bottleneck"), 32),
          "resnet early": (lambda: make_resnet("bottleneck", downsample_in_bottleneck=True,
                                               downsample_in_first_stage=True), 40)}


def spread(model, gen):
    """Random weights and statistics that let every term show in the logits."""
    with torch.no_grad():
        for _, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=gen)
            fan_in = p[0].numel() if p.dim() > 1 else 1
            p.copy_(noise * (2 / fan_in) ** 0.5 if p.dim() > 1 else p + 0.1 * noise)
        for name, b in sorted(model.named_buffers()):
            noise = torch.randn(b.shape, generator=gen)
            if b.dtype == torch.int64:
                b.fill_(7)
            else:
                b.copy_(0.1 * noise if name.endswith("mean") else (0.2 * noise).exp())


def save(model, dtype, where):
    """A directory as penstock and transformers read it."""
    if isinstance(model, (Cnn, Chain)):
        with open(os.path.join(where, "config.json"), "w") as f:
            json.dump(model.CONFIG, f)
    else:
        model.config.save_pretrained(where)
    save_file({name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous()
               for name, tensor in model.state_dict().items()},
              os.path.join(where, "model.safetensors"))


def make_images(size, gen, where):
    """Bytes of all steps; what both programs see of them are the same floats."""
    count = STEPS * BATCH
    labels = torch.randint(0, LABELS, (count,), generator=gen)
    drawn = torch.randint(0, 128, (LABELS, size, size), generator=gen, dtype=torch.uint8)
    noise = torch.randint(0, 128, (count, size, size), generator=gen, dtype=torch.uint8)
    pixels = drawn[labels] + noise
    with open(os.path.join(where, "train-images-idx3-ubyte"), "wb") as f:
        f.write(struct.pack(">4I", 2051, count, size, size) + pixels.numpy().tobytes())
    with open(os.path.join(where, "train-labels-idx1-ubyte"), "wb") as f:
        f.write(struct.pack(">2I", 2049, count) + labels.to(torch.uint8).numpy().tobytes())
    return ((pixels.double() / 255 - 0.5) / 0.5).float()[:, None], labels


def mix(value):
    mask = 2 ** 64 - 1
    value = (value + 0x9e3779b97f4a7c15) & mask
    value = ((value ^ value >> 30) * 0xbf58476d1ce4e5b9) & mask
    value = ((value ^ value >> 27) * 0x94d049bb133111eb) & mask
    return value ^ value >> 31


def shuffled(index, count):
    """The order of the first epoch: a Feistel network of six rounds."""
    half = max(1, math.ceil(math.log2(count) / 2))
    mask = 2 ** half - 1
    key = mix(mix(mix(ORDER_SEED)))
    while True:
        left, right = index >> half, index & mask
        for turn in range(6):
            left, right = right, left ^ (mix(key ^ mix(right * 6 + turn)) & mask)
        index = left << half | right
        if index < count:
            return index


def loss_of(model, x, target):
    out = model(x)
    logits = out.logits if hasattr(out, "logits") else out
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return logits, F.cross_entropy(wide, target)


def numpy_of(tensors):
    return {name: tensor.detach().double().numpy() for name, tensor in tensors}


def torch_step_one(model, x, target):
    """Evaluated logits, then loss and gradients of a training step."""
    model = copy.deepcopy(model)
    model.eval()
    logits, _ = loss_of(model, x, target)
    model.train()
    model.zero_grad()
    _, loss = loss_of(model, x, target)
    loss.backward()
    return (logits.detach().double().numpy(), loss.item(),
            numpy_of((n, p.grad) for n, p in model.named_parameters()))


def torch_train(model, x, target, optimizer):
    """What judge.train() wants to know, and the statistics at the end."""
    model = copy.deepcopy(model)
    model.train()
    # Gradients that are zero but for rounding, as that of a bias which the next norm takes
    # away, would be steps of full length with the usual eps of 1e-8.
    if optimizer == "adamw":
        settings = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-5, "weight_decay": 0.1}
        stepper = torch.optim.AdamW(model.parameters(), foreach=False, **settings)
    else:
        settings = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.0}
        stepper = torch.optim.SGD(model.parameters(), foreach=False, **settings)
    losses, norms = [], []
    for step in range(STEPS):
        order = [shuffled(step * BATCH + i, STEPS * BATCH) for i in range(BATCH)]
        stepper.zero_grad()
        _, loss = loss_of(model, x[order], target[order])
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.stack([p.grad.double().norm() for p in model.parameters()])
                     .norm().item())
        stepper.step()
    about = {"optimizer": optimizer, "settings": settings, "batch": BATCH, "losses": losses,
             "norms": norms}
    return about, numpy_of(model.named_buffers())


def train(build, where, about, dtype, work):
    run = tempfile.mkdtemp(dir=work)
    options = ["--model", where, "--data-path", where, "--seed", ORDER_SEED, "--save", run]
    losses, norms = judge.train(build, about, dtype, work, options)
    saved = load_file(os.path.join(run, f"step-{STEPS:08}", "model.safetensors"))
    return losses, norms, saved


def both_trainings(model, data):
    """By optimizer what PyTorch has in float32, and how far that is from its float64."""
    x, target = data
    found = {}
    for optimizer in ("adamw", "sgd"):
        about, statistics = torch_train(model, x, target, optimizer)
        exact, _ = torch_train(copy.deepcopy(model).double(), x.double(), target, optimizer)
        far = max(worst_loss(exact["losses"], about["losses"]) / judge.LOSS_LIMIT,
                  worst_loss(exact["norms"], about["norms"]) / judge.GRADIENT_LIMIT)
        found[optimizer] = about, statistics, far
    return found


def find_case(name, where):
    """The first seed with which PyTorch agrees with itself ten times better than we have to:
    where a ReLU or a pool is about to change its mind, nobody is right."""
    for seed in SEEDS:
        model, data = make_case(name, seed, where)
        trainings = both_trainings(model, data)
        if max(far for _, _, far in trainings.values()) < 0.1:
            print(f"-       {name} f32: seed {seed}")
            return model, data, trainings
    sys.exit(f"{name}: PyTorch does not agree with itself")


def check_f32(build, name, where, work):
    model, (x, target), trainings = find_case(name, where)
    save(model, torch.float32, where)
    logits, loss, gradients = torch_step_one(model, x[:BATCH], target[:BATCH])
    found_loss, found_logits, found = judge.step_one(build, where, BATCH, "f32", work)
    check(f"{name} f32 logits", distance(logits, found_logits[:, 0]), judge.LOSS_LIMIT)
    check(f"{name} f32 loss", abs(found_loss / loss - 1), judge.LOSS_LIMIT)
    judge.check_gradients(f"{name} f32 gradients", gradients, found)
    for optimizer, (about, statistics, _) in trainings.items():
        losses, norms, saved = train(build, where, about, "f32", work)
        check(f"{name} f32 {optimizer}, losses of {STEPS} steps",
              worst_loss(about["losses"], losses), judge.LOSS_LIMIT)
        check(f"{name} f32 {optimizer}, gradient norms",
              worst_loss(about["norms"], norms), judge.GRADIENT_LIMIT)
        if statistics:
            check(f"{name} f32 {optimizer}, {len(statistics)} statistics at the end",
                  max(distance(statistics[n], saved[n]) for n in statistics),
                  judge.GRADIENT_LIMIT)


def check_bf16(build, name, where, work):
    """Not further from the truth than PyTorch; all begin with the same bf16 weights.

    Evaluated logits are rounded where PyTorch rounds them and mostly have its very bits, so
    which of the two is nearer is chance: at most half of the models may be further.
    """
    far = judge.Distances()
    num_further = 0
    for seed in SEEDS:
        model, (x, target) = make_case(name, seed, where)
        save(model, torch.bfloat16, where)
        rough = copy.deepcopy(model).bfloat16()
        exact = copy.deepcopy(rough).double()
        truth_logits, _, truth = torch_step_one(exact, x[:BATCH].double(), target[:BATCH])
        logits, _, gradients = torch_step_one(rough, x[:BATCH].bfloat16(), target[:BATCH])
        _, found_logits, found = judge.step_one(build, where, BATCH, "bf16", work)
        num_further += (distance(truth_logits, found_logits[:, 0]) >
                        distance(truth_logits, logits))
        far.add("gradients", *judge.flatten(truth, gradients, found))
        for optimizer in ("adamw", "sgd"):
            truth_about, _ = torch_train(exact, x.double(), target, optimizer)
            about, _ = torch_train(rough, x.bfloat16(), target, optimizer)
            losses, _, _ = train(build, where, about, "bf16", work)
            far.add(f"{optimizer}, losses of {STEPS} steps",
                    *(np.array(n) for n in (truth_about["losses"], about["losses"], losses)))
    check(f"{name} bf16 logits, models of {len(SEEDS)} that are further away", num_further,
          len(SEEDS) / 2)
    far.check(f"{name} bf16")


def make_case(name, seed, where):
    make, size = MODELS[name]
    gen = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = make()
    spread(model, gen)
    return model, make_images(size, gen, where)


def main():
    build, work, *seed = sys.argv[1:]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    in_bf16 = [list(MODELS)[int(seed[0]) % len(MODELS)]] if seed else list(MODELS)
    for name in MODELS:
        where = os.path.join(work, name.replace(" ", "-"))
        os.makedirs(where)
        check_f32(build, name, where, work)
        if name in in_bf16:
            check_bf16(build, name, where, work)
    print(f"{judge.failures} failures")
    sys.exit(judge.failures > 0)


if __name__ == "__main__":
    main()
