"""Compares what Penstock computes with PyTorch; see run_training.

Usage: check_training.py BUILD REFERENCE WORK SEED [MODEL...]
REFERENCE gets what gen_reference.py makes, as OPTIMIZER-DTYPE/MODEL, where it is not there yet. With MODEL, only these are
judged in bf16 and on tensor-parallel ranks. SEED is of the routers.
"""

import argparse
import contextlib
import json
import os
import sys

import gen_reference
import judge
import numpy as np
import torch
import transformers
from check_routers import check_routers
from judge import GRADIENT_LIMIT, LOSS_LIMIT, check, distance, worst_loss
from megatron.core.transformer.moe import moe_utils
from safetensors.torch import load_file as load_torch

SEEDS = range(1, 9)
MODELS = ("gpt2", "llama", "qwen2", "mistral")
OPTIMIZERS = ("adamw", "sgd", "muon")
MIXTURES = ("mixtral", "qwen3_moe", "deepseek_v2", "deepseek_v3", "gpt_oss")


def reference(root, optimizer, dtype, model):
    """Losses, logits and gradients as PyTorch has them, and where they are."""
    where = os.path.join(root, f"{optimizer}-{dtype}", model)
    with open(os.path.join(where, "reference.json")) as f:
        about = json.load(f)
    gradients = {name: tensor.double().numpy() for name, tensor in
                 load_torch(os.path.join(where, "gradients.safetensors")).items()}
    return where, about, np.load(os.path.join(where, "logits.npy")), judge.published(model, gradients)


def make_reference(out, model, dtype, optimizer, seed, steps):
    """Lets PyTorch train a model, unless it did."""
    if os.path.exists(os.path.join(out, model, "reference.json")):
        return
    args = argparse.Namespace(out=out, seed=seed, steps=steps, dtype=dtype, optimizer=optimizer,
                              lr=1e-3, shards=False)
    with contextlib.redirect_stdout(sys.stderr):
        gen_reference.reference(model, args)


def make_references(root, model, dtypes):
    for optimizer in OPTIMIZERS:
        for dtype in dtypes if optimizer != "muon" else ("float32",):
            make_reference(os.path.join(root, f"{optimizer}-{dtype}"), model, dtype, optimizer,
                           seed=1, steps=20)


def train(build, where, about, dtype, work, pieces=1, ranks=1, slices=1, parts=1, more=()):
    """Losses and gradient norms of the same steps by penstock train."""
    return judge.train(build, about, dtype, work, [
        "--model", where, "--token-ids", os.path.join(where, "tokens.txt"), "--logical-tensor", pieces,
        "--tp", ranks, "--cp", parts, "--slices", slices, *more], ranks * parts)


def check_f32(build, root, model, work):
    make_references(root, model, ["float32"])
    where, about, logits, gradients = reference(root, "adamw", "float32", model)
    loss, found_logits, found = judge.step_one(build, where, about["batch"], "f32", work)
    check(f"{model} f32 logits", distance(logits, found_logits), LOSS_LIMIT)
    check(f"{model} f32 loss", abs(loss / about["losses"][0] - 1), LOSS_LIMIT)
    judge.check_gradients(f"{model} f32 gradients", gradients, found)
    if model not in MIXTURES:
        where, about, _, _ = reference(root, "adamw", "float32", model)
        losses, norms = train(build, where, about, "f32", work, slices=3)
        check(f"{model} f32 in 3 slices, losses of {len(losses)} steps", worst_loss(about["losses"], losses), LOSS_LIMIT)
        check(f"{model} f32 in 3 slices, gradient norms", worst_loss(about["gradient_norms"], norms), GRADIENT_LIMIT)
    for optimizer in OPTIMIZERS:
        where, about, _, _ = reference(root, optimizer, "float32", model)
        for pieces in (1,) if optimizer == "muon" or model in MIXTURES else (1, 2):
            losses, norms = train(build, where, about, "f32", work, pieces)
            name = f"{model} f32 {optimizer} in {pieces}"
            check(f"{name}, losses of {len(losses)} steps", worst_loss(about["losses"], losses), LOSS_LIMIT)
            check(f"{name}, gradient norms", worst_loss(about["gradient_norms"], norms), GRADIENT_LIMIT)


def tokens_of_experts(where, tokens):
    """How many of the tokens each expert takes, by layer, as transformers routes them."""
    model = transformers.AutoModelForCausalLM.from_pretrained(where, local_files_only=True, attn_implementation="eager")
    counts = {}

    def count(layer, experts, chosen):
        counts[layer] = torch.bincount(chosen.flatten(), minlength=experts)

    for number, layer in enumerate(model.model.layers):
        if hasattr(layer.mlp, "experts"):
            layer.mlp.experts.register_forward_pre_hook(
                lambda _, inputs, number=number: count(number, model.config.n_routed_experts, inputs[1]))
    with torch.no_grad():
        model(input_ids=tokens, use_cache=False)
    return counts


def check_bias(build, root, work):
    """One step of the balancing bias, by Megatron's function."""
    where, about, _, _ = reference(root, "adamw", "float32", "deepseek_v3")
    rate, saved = 0.25, os.path.join(work, "bias")
    judge.train(build, {**about, "losses": about["losses"][:1]}, "f32", work, [
        "--model", where, "--token-ids", os.path.join(where, "tokens.txt"), "--moe-router-bias-update-rate", rate,
        "--save", saved])
    moe_utils.parallel_state.get_tensor_and_data_parallel_group = lambda **_: None
    torch.distributed.all_reduce = lambda *_, **_more: None
    tokens = torch.tensor(np.loadtxt(os.path.join(where, "tokens.txt"), dtype=np.int64)[:about["batch"], :-1])
    before = load_torch(os.path.join(where, "model.safetensors"))
    after = load_torch(os.path.join(saved, "step-00000001", "model.safetensors"))
    for layer, counts in tokens_of_experts(where, tokens).items():
        name = f"model.layers.{layer}.mlp.gate.e_score_correction_bias"
        expected = moe_utils.get_updated_expert_bias(counts.float(), before[name], rate)
        check(f"deepseek_v3, balancing bias of layer {layer}", (after[name] - expected).abs().max().item(), 1e-6)


def even_reference(root, model):
    """Sequences of 16 tokens, which 4 and 8 chunks divide; those of the other references have 15."""
    root, usual = os.path.join(root, "even"), gen_reference.LENGTH
    gen_reference.LENGTH = usual + 1
    try:
        make_reference(os.path.join(root, "adamw-float32"), model, "float32", "adamw", seed=1, steps=20)
    finally:
        gen_reference.LENGTH = usual
    return reference(root, "adamw", "float32", model)


def check_ranks(build, root, model, work):
    """Tensor-parallel ranks, also with parts of every sequence, where there are ranks."""
    if not os.path.exists(os.path.join(build, "penstock-train")):
        return
    whole, even = reference(root, "adamw", "float32", model), even_reference(root, model)
    layouts = [(2, 1), (4, 1), (4, 1, "--sequence-parallel"), (2, 2)]
    if os.environ.get("PEN_LONG"):
        layouts += [(1, 2), (1, 4), (4, 2), (2, 4), (2, 2, "--sequence-parallel")]
    for ranks, parts, *more in layouts:
        where, about, _, _ = whole if parts == 1 else even
        losses, norms = train(build, where, about, "f32", work, ranks, ranks, parts=parts, more=more)
        name = f"{model} f32 adamw, tp {ranks} cp {parts}{' with parts of the tokens' if more else ''}"
        check(f"{name}, losses of {len(losses)} steps", worst_loss(about["losses"], losses), LOSS_LIMIT)
        check(f"{name}, gradient norms", worst_loss(about["gradient_norms"], norms), GRADIENT_LIMIT)


def first_steps(root, model):
    """Makes the truth and PyTorch's bf16 of one step for each seed; yields where they are."""
    for seed in SEEDS:
        out = os.path.join(root, f"seed-{seed}")
        for dtype in ("float64", "bfloat16"):
            make_reference(os.path.join(out, f"adamw-{dtype}"), model, dtype, "adamw", seed, steps=1)
        yield out


def check_bf16(build, root, model, work):
    """Not further from the truth than PyTorch, both from the same bf16 weights.

    Logits and gradients are judged over some models, see judge.Distances.
    """
    make_references(root, model, ["bfloat16", "float64"])
    far = judge.Distances()
    for out in first_steps(root, model):
        _, _, truth_logits, truth = reference(out, "adamw", "float64", model)
        where, about, logits, gradients = reference(out, "adamw", "bfloat16", model)
        _, found_logits, found = judge.step_one(build, where, about["batch"], "bf16", work)
        far.add("logits", truth_logits, logits, found_logits)
        far.add("gradients", *judge.flatten(truth, gradients, found))
    far.check(f"{model} bf16")
    for optimizer in ("adamw", "sgd"):
        _, exact, _, _ = reference(root, optimizer, "float64", model)
        where, about, _, _ = reference(root, optimizer, "bfloat16", model)
        losses, _ = train(build, where, about, "bf16", work)
        check(f"{model} bf16 {optimizer}, losses of {len(losses)} steps",
              worst_loss(exact["losses"], losses),
              worst_loss(exact["losses"], about["losses"]))


def main():
    build, root, work, seed, *chosen = sys.argv[1:]
    check_routers(os.path.join(build, "tests", "router_files"), seed)
    gen_reference.settle()
    for model in MODELS + MIXTURES:
        check_f32(build, root, model, work)
        # In bf16 a choice of experts may be another one, in PyTorch as here.
        if model in (chosen or MODELS):
            check_ranks(build, root, model, work)
            check_bf16(build, root, model, work)
    check_bias(build, root, work)
    print(f"{judge.failures} failures")
    sys.exit(judge.failures > 0)


if __name__ == "__main__":
    main()
