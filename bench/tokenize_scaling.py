#!/usr/bin/env python3
"""What do more threads give `penstock tokenize`?

  bench/tokenize_scaling.py PENSTOCK TEXT THREADS TOKENIZER...

One thread and THREADS take turns, seven times; the table has the medians in
MB/s and their ratio, for the text as one document and for its lines. On a busy
machine run it under `chrt -f 10`.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile


def speed(penstock, text, tokenizer, threads, options):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [penstock, "tokenize", text, "--tokenizer", tokenizer, "--threads",
             threads, "-o", os.path.join(folder, "x"), *options],
            check=True, capture_output=True, text=True)
    return float(re.search(r"([0-9.]+) MB/s", done.stderr).group(1))


def main():
    penstock, text, threads = sys.argv[1:4]
    print("tokenizer\tdocuments\t1 thread\t%s threads\tratio" % threads)
    for tokenizer in sys.argv[4:]:
        for options in [], ["--lines"]:
            one, many = [], []
            for _ in range(7):
                one.append(speed(penstock, text, tokenizer, "1", options))
                many.append(speed(penstock, text, tokenizer, threads, options))
            a, b = statistics.median(one), statistics.median(many)
            print("%s\t%s\t%.1f\t%.1f\t%.2f" % (
                os.path.basename(tokenizer), "lines" if options else "one", a, b, b / a),
                flush=True)


if __name__ == "__main__":
    main()
