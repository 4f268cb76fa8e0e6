#!/usr/bin/env python3
"""Trainings of PyTorch with examples/pytorch/penstock_probe.py beside ours: `penstock probe diff` finds no
difference, and finds what was planted at its layer.

Usage: check_probe.py BUILD WORK transformers          tiny GPT-2, Llama, Qwen 2 and Mistral, micro-batches of two
       check_probe.py BUILD WORK titan                 Llama of torchtitan with FSDP2, two ranks on gloo
"""

import json
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "examples", "pytorch")]
from penstock_probe import Probe  # noqa: E402

BATCH, LENGTH, RATE, LAYER = 4, 16, 0.01, 2  # the block that faults are planted in
failures = 0


def train(model, ids, path, num_parts):
    """One step of SGD on this rank's samples, in some micro-batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    probe = Probe(model, path)
    probe.begin(1)
    total = 0
    for part in ids.split(len(ids) // num_parts):
        found = model(part[:, :-1])
        logits = getattr(found, "logits", found)
        loss = F.cross_entropy(logits.float().flatten(0, 1), part[:, 1:].flatten()) / num_parts
        loss.backward()
        total += loss.item()
    probe.gradients(total)
    optimizer.step()
    probe.end()


def train_ours(build, folder, ids, path):
    with open(os.path.join(folder, "ids.txt"), "w") as f:
        f.writelines(" ".join(map(str, row)) + "\n" for row in ids.tolist())
    words = ["train", "--model", folder, "--token-ids", os.path.join(folder, "ids.txt"), "--global-batch-size", BATCH,
             "--micro-batch-size", 1, "--train-iters", 1, "--lr", RATE, "--optimizer", "sgd", "--sgd-momentum", 0,
             "--weight-decay", 0, "--clip-grad", 0, "--threads", 1, "--peak-tflops", 0.05, "--probe", path]
    subprocess.run([os.path.join(build, "penstock"), *map(str, words)], check=True, capture_output=True)


def diff(build, ours, theirs):
    done = subprocess.run([os.path.join(build, "penstock"), "probe", "diff", "--json", ours, theirs], capture_output=True, text=True)
    return json.loads(done.stdout)


def check(what, is_good, found):
    global failures
    failures += not is_good
    print(f"{'ok' if is_good else 'FAILED':6}  {what}: {found}")


def check_equal(what, found):
    worst = max(found["records"], key=lambda r: r["difference"] if r["difference"] is not None else 1e9)
    check(f"{what}, {len(found['records'])} records, worst {worst['pass']} of layer {worst['layer']}, {worst['name']}",
          found["equal"] and found["only_in_a"] == 0 and found["only_in_b"] == 0, worst["difference"])


def check_found(what, found, kind, layer=LAYER + 1):
    first = found["first"] or {"pass": "none", "layer": None, "name": None}
    check(what, (first["pass"], first["layer"]) == (kind, layer), f"first difference in {first['pass']} of layer {first['layer']}, {first['name']}")


def judge_transformers(build, work):
    import gen_reference as reference

    reference.settle()
    for name in "gpt2", "llama", "qwen2", "mistral":
        folder = os.path.join(work, name)
        os.makedirs(folder)
        torch.manual_seed(1)
        gen = torch.Generator().manual_seed(1)
        model = reference.MAKERS[name]()
        reference.spread(model, gen)
        model.save_pretrained(folder)
        ids = torch.randint(0, reference.VOCAB, (BATCH, LENGTH + 1), generator=gen)
        ours, theirs = os.path.join(folder, "ours"), os.path.join(folder, "theirs")
        train_ours(build, folder, ids, ours)
        start = {n: p.detach().clone() for n, p in model.named_parameters()}

        def again(num_parts):
            model.load_state_dict(start, strict=False)
            model.zero_grad()
            train(model, ids, theirs, num_parts)
            return diff(build, ours, theirs)

        check_equal(name, again(2))
        if name in ("qwen2", "mistral") and not os.environ.get("PEN_LONG"):
            continue
        block = model.get_submodule(f"transformer.h.{LAYER}" if name == "gpt2" else f"model.layers.{LAYER}")
        hook = block.mlp.register_forward_hook(lambda module, args, out: 1.01 * out)
        check_found(f"{name}, MLP times 1.01", again(1), "forward")
        hook.remove()
        hook = block.mlp.register_full_backward_hook(lambda module, into, out: (1.01 * into[0], *into[1:]))
        check_found(f"{name}, gradient of the MLP times 1.01", again(1), "backward", LAYER)
        hook.remove()
        changed = next(n for n in start if f".{LAYER}." in n and start[n].dim() > 1)
        start[changed][0, 0] += 0.1
        check_found(f"{name}, one weight of {changed}", again(1), "weights")


def run_rank(work, rank, ranks):
    """A rank with FSDP2, and its share of the samples."""
    from torch.distributed.fsdp import fully_shard
    from torchtitan.models.llama3.model.args import RoPEScalingArgs, TransformerModelArgs
    from torchtitan.models.llama3.model.model import Transformer
    from torchtitan.models.llama3.model.state_dict_adapter import Llama3StateDictAdapter
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{work}/meeting", rank=rank, world_size=ranks)
    args = TransformerModelArgs(dim=32, n_layers=4, n_heads=4, n_kv_heads=2, vocab_size=96, multiple_of=16, norm_eps=1e-6,
                                rope_scaling_args=RoPEScalingArgs(scaling_factor=1.0), max_seq_len=32)
    model = Transformer(args)
    with torch.no_grad():
        model.init_weights(torch.device("cpu"))
    model.load_state_dict(Llama3StateDictAdapter(args, None).from_hf(load_file(os.path.join(work, "model.safetensors"))), strict=False)
    mesh = dist.init_device_mesh("cpu", (ranks,))
    for block in model.layers.values():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    ids = torch.tensor([[int(word) for word in line.split()] for line in open(os.path.join(work, "ids.txt"))])
    train(model, ids.chunk(ranks)[rank], os.path.join(work, "theirs"), 2)
    dist.destroy_process_group()


def judge_titan(build, work):
    import gen_reference as reference

    reference.settle()
    gen = torch.Generator().manual_seed(2)
    model = reference.make_llama()
    reference.spread(model, gen)
    model.save_pretrained(work)
    ids = torch.randint(0, reference.VOCAB, (BATCH, LENGTH + 1), generator=gen)
    train_ours(build, work, ids, os.path.join(work, "ours"))
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), build, work, str(rank), "2"]) for rank in range(2)]
    if any([rank.wait(300) for rank in ranks]):
        sys.exit("a rank of torchtitan failed")
    check_equal("llama of torchtitan, two ranks", diff(build, os.path.join(work, "ours"), os.path.join(work, "theirs")))


def main():
    build, work, mode = sys.argv[1:4]
    if len(sys.argv) > 4:
        run_rank(work, int(mode), int(sys.argv[4]))
    elif mode == "titan":
        judge_titan(build, work)
    else:
        judge_transformers(build, work)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
