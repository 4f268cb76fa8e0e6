"""Compares routers with megatron-core: gates, dropped tokens, and slopes of both losses; part of check_training.py."""

import subprocess

import numpy as np
import torch
from judge import check, distance
from megatron.core.transformer.moe import moe_utils

LIMIT = 1e-6  # Megatron takes the softmax in float


def read(text):
    """One dictionary of arrays for each routing."""
    routings = []
    for line in text.splitlines():
        name, *numbers = line.split()
        if name == "setting":
            routings.append({})
        routings[-1][name] = np.array([float(number) for number in numbers])
    return routings


def judge(routing):
    """Gates, the experts of each token, and slopes of the logits, by Megatron's functions."""
    rows, experts, chosen, is_normal, is_sigmoid, groups, chosen_groups, scale, aux, z, capacity = routing["setting"]
    rows, experts, chosen = int(rows), int(experts), int(chosen)
    logits = torch.tensor(routing["logits"].reshape(rows, experts), requires_grad=True)
    more = {"score_function": "sigmoid", "expert_bias": torch.tensor(routing["offset"]), "num_groups": int(groups),
            "group_topk": int(chosen_groups), "scaling_factor": scale} if is_sigmoid else {"use_pre_softmax": not is_normal}
    probs, chosen_map = moe_utils.topk_routing_with_score_function(logits, chosen, **more)
    tokens = chosen_map.sum(dim=0)
    kept = probs
    if capacity > 0:
        kept, _ = moe_utils.apply_router_token_dropping(probs, chosen_map, chosen, capacity)
    choice = torch.tensor(routing["choice"].reshape(rows, chosen).astype(np.int64))
    gates = kept.gather(1, choice)
    loss = (gates * torch.tensor(routing["dgates"].reshape(rows, chosen))).sum()
    if aux > 0:
        loss = loss + moe_utils.switch_load_balancing_loss_func(
            torch.softmax(logits, dim=-1), tokens, rows, chosen, experts, aux)
    if z > 0:
        loss = loss + moe_utils.z_loss_func(logits, z)
    loss.backward()
    return gates.detach().numpy(), chosen_map.numpy(), logits.grad.numpy()


def check_routers(program, seed):
    """Routers that the program, router_files, draws by the seed."""
    text = subprocess.run([program, seed], check=True, capture_output=True, text=True).stdout
    for number, routing in enumerate(read(text)):
        gates, chosen_map, slopes = judge(routing)
        dropped = int((gates == 0).sum())
        name = f"router {number} of seed {seed}, {dropped} tokens dropped"
        found = np.zeros(chosen_map.shape, dtype=bool)
        np.put_along_axis(found, routing["choice"].reshape(gates.shape).astype(int), True, axis=1)
        check(f"{name}, other choices", int((found != chosen_map).sum()), 0)
        check(f"{name}, gates", distance(gates.ravel(), routing["gates"]), LIMIT)
        check(f"{name}, slopes", distance(slopes.ravel(), routing["dlogits"]), LIMIT)
