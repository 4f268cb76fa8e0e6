#!/usr/bin/env python3
"""A train step of GPT-2 124M beside PyTorch's (transformers' model, fused AdamW,
bf16 by autocast) and beside its dense products alone, run bare by oneDNN. The
contenders take turns; a row of docs/speed.md for each size.

  train_ratio.py --build build/release --python PYTHON [--rounds 7] [--compiled]
      [SIZE...]

A SIZE is DTYPE:BATCHxSEQ:THREADS, as bf16:4x256:2; without one, the eight of
docs/speed.md. PYTHON has torch and transformers, as those of
tests/interop/setup-judges have."""
import argparse
import json
import re
import statistics
import subprocess
import sys
import time

SIZES = [f"{dtype}:{shape}:{threads}" for dtype in ("f32", "bf16")
         for shape in ("4x256", "1x1024") for threads in (1, 2)]
STEPS = 3  # of one turn, after one that warms up


def serve():
    """Answers sizes on stdin by the milliseconds of PyTorch's steps."""
    import contextlib
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                       use_cache=False)).train()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = {}
    for line in sys.stdin:
        wish = json.loads(line)
        torch.set_num_threads(wish["threads"])
        network = model
        if wish["is_compiled"]:
            network = compiled.setdefault(line, torch.compile(model, dynamic=False))
        ids = torch.randint(0, 50257, (wish["batch"], wish["seq"]))
        times = []
        for _ in range(STEPS + 1):
            begin = time.perf_counter()
            adam.zero_grad(set_to_none=True)
            with (torch.autocast("cpu", torch.bfloat16) if wish["dtype"] == "bf16"
                  else contextlib.nullcontext()):
                loss = network(input_ids=ids, labels=ids).loss
            loss.backward()
            adam.step()
            times.append(1e3 * (time.perf_counter() - begin))
        print(json.dumps(times[1:]), flush=True)


class Torch:
    """One process for each number of threads: a compiled graph keeps it."""

    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, __file__, "--serve"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def step_ms(self, size, is_compiled):
        wish = dict(size, is_compiled=is_compiled)
        self.process.stdin.write(json.dumps(wish) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours_ms(build, size):
    words = [f"{build}/bench/train_step", "--model", "gpt2", "--iters", str(STEPS)]
    for name in ("dtype", "batch", "seq", "threads"):
        words += [f"--{name}", str(size[name])]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])["ms"]


def bound_ms(build, size):
    """The better bare form of each product, all of a step added up."""
    out = subprocess.run(
        [f"{build}/bench/engine_gemm", size["dtype"],
         str(size["batch"] * size["seq"]), str(size["threads"])],
        check=True, capture_output=True, text=True).stdout
    engine, share = map(float, out.splitlines()[-1].split("\t")[-2:])
    return engine * share


def parse(word):
    match = re.fullmatch(r"(f32|bf16):(\d+)x(\d+):(\d+)", word)
    if match is None:
        sys.exit(f"{word} is no size; expected one like bf16:4x256:2")
    dtype, *numbers = match.groups()
    return dict(zip(("dtype", "batch", "seq", "threads"), [dtype, *map(int, numbers)]))


def measure(args, size):
    theirs = Torch(args.python)
    times = {"ours": [], "PyTorch": [], "compiled": []}
    for _ in range(args.rounds):
        times["ours"] += ours_ms(args.build, size)
        times["PyTorch"] += theirs.step_ms(size, False)
        if args.compiled:
            times["compiled"] += theirs.step_ms(size, True)
    theirs.close()
    ours = statistics.median(times["ours"])
    return ours, [f"{statistics.median(t) / ours:.2f}" if t else ""
                  for t in (times["PyTorch"], times["compiled"])]


def main():
    if sys.argv[1:] == ["--serve"]:
        return serve()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("size", nargs="*", default=SIZES)
    args = parser.parse_args()
    print("| step | threads | ours ms | bound over ours | PyTorch over ours | compiled PyTorch over ours |")
    print("|---|---|---|---|---|---|")
    for size in map(parse, args.size):
        ours, theirs = measure(args, size)
        cells = [f"{size['dtype']}, {size['batch']} x {size['seq']}", str(size["threads"]),
                 f"{ours:.0f}", f"{bound_ms(args.build, size) / ours:.2f}", *theirs]
        print(f"| {' | '.join(cells)} |", flush=True)


main()
