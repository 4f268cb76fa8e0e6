#!/usr/bin/env python3
"""What `penstock sync compare` predicts beside what slow_link.py measured.

  slow_link_predict.py --folder DIR --link 66Mbit/s [--latency 20ms] [--penstock ...] NAME=WORDS ...

DIR is what slow_link.py --folder left. --link is what a replica really gets through MPI: with the
name of a training that sends rarely, --link-from NAME takes it from that one, as its bytes by the
seconds that its steps take beyond their median. A NAME is a training of DIR, WORDS the arguments
that compare needs for it: "diloco 20=--sync-interval 20 --compress none diloco". What a step
computes is the median step of --compute-from NAME, in which nothing is sent.

A line of TSV per training: seconds of a step, mean as measured (without the first five), predicted,
and what the prediction is off, of samples per second.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess

from slow_link import ROOT, read


def compare(args, link, compute, words):
    """The time of the last method named in words, with its compressor if it has one."""
    line = [args.penstock, "sync", "compare", "--model", f"{args.folder}/model", "--link", link,
            "--latency", args.latency, "--replicas", str(args.hosts), "--step-time",
            f"{compute}s", "--encode-rate", args.encode_rate, "--json", *words]
    rows = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    method = words[-1]
    wanted = words[words.index("--compress") + 1].split(":")[0]
    for row in rows["methods"]:
        if row["method"] == method and (row["compressor"] or "none") == wanted:
            return row["step_sec"]
    raise SystemExit(f"compare says nothing of {words}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--penstock", default=f"{ROOT}/build/release/penstock")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--link")
    parser.add_argument("--link-from")
    parser.add_argument("--compute-from", required=True)
    parser.add_argument("--latency", default="20ms")
    parser.add_argument("--encode-rate", default="1GB/s")
    parser.add_argument("training", nargs="+")
    args = parser.parse_args()
    args.penstock = os.path.abspath(args.penstock)
    with open(f"{args.folder}/results.json") as found:
        results = json.load(found)
    compute = statistics.median(read(results[args.compute_from])["seconds"])
    link = args.link
    if link is None:
        source = read(results[args.link_from])
        beyond = statistics.mean(source["seconds"]) - statistics.median(source["seconds"])
        link = f"{8e-6 * source['counted_bytes'] / beyond:.3f}Mbit/s"
    print(f"# a step computes {compute:.3f} s, the link gives {link}")
    print("training\tmeasured_sec\tpredicted_sec\toff_percent")
    for text in args.training:
        name, words = text.split("=", 1)
        measured = statistics.mean(read(results[name])["seconds"][5 if len(
            read(results[name])["seconds"]) > 20 else 1:])
        predicted = compare(args, link, compute, shlex.split(words))
        print(f"{name}\t{measured:.3f}\t{predicted:.3f}\t{100 * (measured / predicted - 1):+.1f}")


if __name__ == "__main__":
    main()
