#!/usr/bin/env python3
"""Lints tests/lint: a good file has a training and no finding, a bad one has the rule that its name begins with, once.

    lint_corpus.py PENSTOCK FOLDER [--table]

Prints what is wrong, and how many files there are; --table prints a verdict for each.
"""
import json
import os
import subprocess
import sys

program, folder = sys.argv[1:3]
wrong = []
counts = {}
for kind in ("good", "bad"):
    names = sorted(os.listdir(os.path.join(folder, kind)))
    paths = [os.path.join(folder, kind, name) for name in names]
    run = subprocess.run([program, "lint", "--json", *paths], capture_output=True, text=True)
    if run.returncode != (kind == "bad"):
        wrong.append(f"{kind}: exit code {run.returncode}")
    counts[kind] = len(names)
    for name, answer in zip(names, json.loads(run.stdout)["files"]):
        found = [finding["rule"] for finding in answer["findings"]]
        expected = [name.split("--")[0]] if kind == "bad" else []
        if found != expected:
            wrong.append(f"{kind}/{name}: found {found}, expected {expected}")
        if kind == "good" and not answer["trainings"]:
            wrong.append(f"{kind}/{name}: no training is found")
        if any(finding["line"] < 1 or not finding["why"] or not finding["todo"] for finding in answer["findings"]):
            wrong.append(f"{kind}/{name}: a finding lacks its place, reason or advice")
        if "--table" in sys.argv:
            print(f"{kind}/{name}: {', '.join(found) or 'clean'}")
print("\n".join(wrong + [f"{counts['good']} good files, {counts['bad']} bad files, {len(wrong)} wrong"]))
sys.exit(bool(wrong) or min(counts.values()) < 30)
