#!/usr/bin/env python3
"""Encoding speed of one thread against tokenizers and sentencepiece.

  $PEN_JUDGES/bin/python bench/tokenize_ratio.py BENCH DATA [ROUNDS]

BENCH is build/release/bench/tokenize, DATA the data folder. Contenders take
turns; the table has the medians in MB/s and their ratio. Both encode line by
line: tokenizers is slower on one long text. It encodes with
encode_batch_fast(), which leaves offsets out.
"""
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
here = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location(
    "compare_tokenizers", os.path.join(here, "../tests/interop/compare_tokenizers.py"))
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)


def main():
    bench, data = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    folder = tempfile.TemporaryDirectory()

    def shared(name):
        return os.path.join(data, "tokenizers", name)

    def saved(name, tokenizer):
        path = os.path.join(folder.name, name + ".json")
        tokenizer.save(path)
        return path, lambda texts: tokenizer.encode_batch_fast(
            texts, add_special_tokens=False)

    mistral, t5 = shared("mistral-v1/tokenizer.model"), shared("t5-base/spiece.model")
    contenders = {
        "gpt2": saved("gpt2", made.gpt2(data)),
        "gpt-neox-20b": saved("neox", made.tokenizers.Tokenizer.from_file(
            shared("gpt-neox-20b/tokenizer.json"))),
        "llama3 split": saved("llama3", made.llama3_style(data)),
        "qwen2 split": saved("qwen2", made.qwen2_style(data)),
        "mistral json": saved("mistral", made.llama2_style(mistral, False)),
        "t5 json": saved("t5", made.t5_style(t5)),
        "mistral model": (mistral, made.SentencePieceJudge(mistral)),
        "t5 model": (t5, made.SentencePieceJudge(t5)),
    }
    texts = {
        "novels": made.read(os.path.join(data, "novels.txt.gz"))[:2000000],
        "wagahai": made.read(shared("spm-small/wagahaiwa_nekodearu.txt"))[:200000],
    }
    print("tokenizer\ttext\tours MB/s\tpeer MB/s\tratio")
    for name, (path, judge) in contenders.items():
        for text_name, text in texts.items():
            file = os.path.join(folder.name, "text")
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(text)
            lines = text.split("\n")
            ours, peer = [], []
            for _ in range(rounds):
                found = subprocess.run([bench, path, file, "1"], check=True,
                                       capture_output=True)
                ours.append(json.loads(found.stdout)["ms"])
                begin = time.perf_counter()
                judge(lines)
                peer.append(1e3 * (time.perf_counter() - begin))
            size = len(text.encode()) / 1e3
            a, b = statistics.median(ours), statistics.median(peer)
            print("%s\t%s\t%.1f\t%.1f\t%.2f" % (name, text_name, size / a, size / b, b / a),
                  flush=True)


if __name__ == "__main__":
    main()
