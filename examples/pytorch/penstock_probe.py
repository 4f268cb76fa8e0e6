"""Figures of a PyTorch training, layer by layer, for `penstock probe diff`.

This file needs torch alone and may be copied. Models: GPT-2, Llama, Qwen and Mistral of
transformers and Llama of torchtitan, plain or with DDP or FSDP2; the samples of a step are
taken in the order of the ranks, and on a rank in that of its forwards.

    probe = Probe(model, "theirs.probe")
    probe.begin(step)       # from 1, before the first forward of the step
    ...                     # forward and backward of each micro-batch; their losses add up to the mean
    probe.gradients(loss)   # before clipping; the mean loss of the step, on this rank
    optimizer.step()
    probe.end()
"""

import json
import re
import struct

import torch
import torch.distributed as dist

SKETCHES, CHUNK = 8, 1 << 22
TITAN = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head", "lm_head": "lm_head",
         "wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj",
         "w1": "mlp.gate_proj", "w2": "mlp.down_proj", "w3": "mlp.up_proj",
         "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def draw(state):
    """The first number of splitmix64 of each state, in int64 that wraps."""
    z = state + (0x9E3779B97F4A7C15 - (1 << 64))
    z = (z ^ (z >> 30 & (1 << 34) - 1)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    z = (z ^ (z >> 27 & (1 << 37) - 1)) * (0x94D049BB133111EB - (1 << 64))
    return z ^ (z >> 31 & (1 << 33) - 1)


def figures(pieces, first=0, is_shared=False):
    """Of a tensor whose elements from number `first` on are these pieces, other ranks having the others."""
    whole = torch.zeros(3, dtype=torch.int64)  # elements, those that are not finite, hash
    sums = torch.zeros(2 + SKETCHES, dtype=torch.float64)  # sum, squares, sketches
    largest = torch.zeros(1, dtype=torch.float64)
    for x in (chunk for piece in pieces for chunk in piece.detach().float().cpu().flatten().split(CHUNK)):
        place = draw(torch.arange(first, first + len(x)))
        is_bad, first = ~torch.isfinite(x), first + len(x)
        whole += torch.stack([torch.tensor(len(x)), is_bad.sum(),
                              draw(place ^ (x.view(torch.int32).long() & 0xFFFFFFFF)).sum()])
        d = x.double().masked_fill(is_bad, 0)
        sums += torch.stack([d.sum(), d.square().sum(), *((d * (1 - 2 * (place >> j & 1))).sum() for j in range(SKETCHES))])
        largest = torch.maximum(largest, d.abs().max())
    if is_shared:
        for total, op in (whole, dist.ReduceOp.SUM), (sums, dist.ReduceOp.SUM), (largest, dist.ReduceOp.MAX):
            dist.all_reduce(total, op)
    return {"count": whole[0].item(), **({"nonfinite": whole[1].item()} if whole[1] else {}), "norm": sums[1].sqrt().item(),
            "sum": sums[0].item(), "max": largest.item(), "hash": f"{whole[2].item() & (1 << 64) - 1:016x}", "sketch": sums[2:].tolist()}


class Probe:
    def __init__(self, model, path):
        self.model, self.is_on = model, False
        self.ranks, self.rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
        self.file = open(path, "w") if self.rank == 0 else None
        self.write({"format": "penstock-probe", "version": 1})
        blocks = next(list(m.children()) for name, m in model.named_modules() if re.search(r"(^|\.)(h|layers)$", name))
        self.head = len(blocks) + 1
        blocks[0].register_forward_pre_hook(lambda module, args, more: self.observe(0, args[0] if args else more["hidden_states"]), with_kwargs=True)
        for layer, block in enumerate(blocks, 1):
            block.register_forward_hook(lambda module, args, out, layer=layer: self.observe(layer, out[0] if isinstance(out, tuple) else out))

    def write(self, line):
        if self.file is not None:
            print(json.dumps(line, separators=(",", ":")), file=self.file, flush=True)

    def record(self, kind, layer, name, found):
        self.write({"step": self.step, "pass": kind, "layer": layer, "name": name, **found})

    def observe(self, layer, output):
        if self.is_on and output.requires_grad:
            pieces, place = self.outputs.setdefault(layer, {}), len(self.outputs.get(layer, {}))
            pieces[place] = output.detach().clone()
            output.register_hook(lambda g: self.slopes.setdefault(layer, {}).__setitem__(place, g.detach() / self.ranks))

    def record_outputs(self, kind, outputs):
        for layer in sorted(outputs, reverse=kind == "backward"):
            pieces = [outputs[layer][place] for place in sorted(outputs[layer])]
            first = self.rank * sum(piece.numel() for piece in pieces)
            self.record(kind, layer, "output", figures(pieces, first, self.ranks > 1))

    def record_weights(self, kind):
        for name, weight in self.model.named_parameters():
            tensor = weight.grad if kind == "gradients" else weight.data
            if tensor is not None:
                tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # a DTensor
                name, tensor = self.rename(re.sub(r"^module\.|_orig_mod\.|_checkpoint_wrapped_module\.", "", name), tensor)
                number = re.search(r"\.(\d+)\.", name)
                layer = int(number[1]) + 1 if number else 0 if re.search(r"embed|wte|wpe", name) else self.head
                self.record(kind, layer, name, figures([tensor]))

    def rename(self, name, tensor):
        """From torchtitan to transformers, where the two numbers that are rotated lie half a head apart."""
        parts = re.fullmatch(r"(layers\.\d+\.)?(?:[\w.]*\.)?(\w+)\.weight", name)
        if parts is None or parts[2] not in TITAN or not hasattr(self.model, "tok_embeddings"):
            return name, tensor
        if parts[2] in ("wq", "wk"):
            half = self.model.layers["0"].attention.head_dim // 2
            tensor = tensor.view(-1, half, 2, tensor.shape[-1]).transpose(1, 2).reshape(tensor.shape)
        return ("model." + parts[1] if parts[1] else "") + TITAN[parts[2]] + ".weight", tensor

    def begin(self, step):
        self.step, self.is_on, self.outputs, self.slopes = step, True, {}, {}
        self.record_weights("weights")

    def gradients(self, loss):
        total = torch.as_tensor(loss).detach().double().reshape(1).cpu() / self.ranks
        if self.ranks > 1:
            dist.all_reduce(total)
        mean, self.is_on = total.item(), False
        self.record_outputs("forward", self.outputs)
        self.record("loss", self.head, "loss", {"count": 1, "norm": abs(mean), "sum": mean, "max": abs(mean),
                                                "hash": struct.pack(">d", mean).hex(), "sketch": [mean] * SKETCHES})
        self.record_outputs("backward", self.slopes)
        self.record_weights("gradients")

    def end(self):
        self.record_weights("updated")
