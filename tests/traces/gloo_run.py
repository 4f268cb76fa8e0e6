#!/usr/bin/env python3
"""A small data-parallel training loop on gloo with one fault on purpose; every rank leaves its records.

    python gloo_run.py OUT --fault slow --ranks 4 --rank 2 --step 3 [--call 1] [--delay 0.2] [--size 1000] [--form json]

Each step sums three gradients of different sizes, gathers a loss and broadcasts one number. The fault is of one rank
(--rank), from one step on (slow) or at one call of it (others):

    none      nothing
    slow      sleeps --delay seconds before the first call of each step from --step on
    skip      leaves out call --call of step --step
    shape     gives a tensor of one element more to call --call of step --step
    dead      ends as by SIGKILL before call --call of step --step, and leaves no record
    stopped   the same, but its record up to there is left

A rank leaves flight-RANK.json or flight-RANK (a pickle), PyTorch's Flight Recorder; with --form profile it leaves
profile-RANK.json, torch.profiler.
"""
import argparse
import datetime
import os
import pathlib
import signal
import socket
import sys
import time

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CALLS = 5  # of a step


def neutral(data):
    """The same bytes, but for folders of this machine, which become letters x of the same number."""
    here = str(pathlib.Path(__file__).resolve().parent)
    for folder in sorted({here, sys.prefix, sys.base_prefix}, key=len, reverse=True):
        data = data.replace(folder.encode(), b"/" + b"x" * (len(folder.encode()) - 1))
    return data


def record(out, rank, form, has_stacks):
    if form == "json":
        data = torch._C._distributed_c10d._dump_fr_trace_json(True, False)
        data = data.encode() if isinstance(data, str) else data
        name = f"flight-{rank}.json"
    else:
        data = torch._C._distributed_c10d._dump_fr_trace(True, has_stacks, False)
        name = f"flight-{rank}"
    part = out.with_name(out.name + f".{rank}.part")
    part.write_bytes(neutral(data))
    os.replace(part, out / name)


def call(number, size, extra, world):
    if number < 3:
        return dist.all_reduce(torch.ones(size * (number + 1) + extra), async_op=True)
    if number == 3:
        return dist.all_gather([torch.zeros(4 + extra) for _ in range(world)], torch.ones(4 + extra), async_op=True)
    return dist.broadcast(torch.ones(1 + extra), src=0, async_op=True)


def wait_for_turn(rank, args):
    """At the call of the fault, ranks call one after another, the one at fault first: gloo ends a process that receives
    too many bytes at once, and a record that lacks the wrong call proves nothing. A rank that is gone is not waited for."""
    place = (rank - args.rank) % args.ranks
    end = time.monotonic() + 3
    while place > 0 and not args.out.with_name(f"turn-{place - 1}").exists() and time.monotonic() < end:
        time.sleep(0.005)
    return args.out.with_name(f"turn-{place}")


def train(rank, args, out):
    is_mine = rank == args.rank
    # gloo ends a process whose peer sends too many bytes, so the record is written before each wait.
    leaves_records = args.fault not in ("none", "slow") and not (args.fault == "dead" and is_mine)
    for step in range(args.steps):
        if args.fault == "slow" and is_mine and step >= args.step:
            time.sleep(args.delay)
        for number in range(CALLS):
            is_here = is_mine and step == args.step and number == args.call
            if is_here and args.fault == "skip":
                continue
            if is_here and args.fault in ("dead", "stopped"):
                os.kill(os.getpid(), signal.SIGKILL)
            is_turn = args.fault in ("skip", "shape") and step == args.step and number == args.call
            if is_mine and args.fault == "skip":
                is_turn = (step, number) == divmod(args.step * CALLS + args.call + 1, CALLS)
            turn = wait_for_turn(rank, args) if is_turn else None
            work = call(number, args.size, int(is_here and args.fault == "shape"), args.ranks)
            if leaves_records:
                record(out, rank, args.form, args.stacks)
            if turn:
                turn.touch()
            work.wait()


def worker(rank, args, out, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=args.ranks,
                            timeout=datetime.timedelta(seconds=args.timeout))
    dist.barrier()
    try:
        if args.form == "profile":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
                train(rank, args, out)
            profiler.export_chrome_trace(str(out / f"profile-{rank}.json"))
        else:
            train(rank, args, out)
    except RuntimeError as error:
        print(f"rank {rank}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
    if args.form != "profile":
        record(out, rank, args.form, args.stacks)
    sys.stderr.flush()
    os._exit(0)  # the others may hang


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--fault", choices=["none", "slow", "skip", "shape", "dead", "stopped"], default="none")
    parser.add_argument("--form", choices=["json", "pickle", "profile"], default="json")
    for name, value in (("ranks", 4), ("rank", 2), ("steps", 6), ("step", 3), ("call", 1), ("size", 1000)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--timeout", type=float, default=10)
    parser.add_argument("--stacks", action="store_true", help="with lines of the program in pickles; the first takes seconds")
    return parser


def run(args):
    """Carries out one job and waits for its ranks."""
    args.out.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("fork")
    processes = [context.Process(target=worker, args=(rank, args, args.out, port)) for rank in range(args.ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    run(options().parse_args())
