"""The comparison behind run_tokenizers; see there."""
import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unicodedata

import numpy
import sentencepiece
import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers

META = "\u2581"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# Tokenizers that give every text back. The others change letters to form C, join
# spaces, or take one away from the beginning.
LOSSLESS = {"gpt2", "gpt2 json", "llama3 split", "mistral model"}


# ---- judges: each turns documents into lists of ids, and such lists into texts


# Random ids may cut characters. Ours gives their bytes, judges show U+FFFD.


def draw_ids(source, ids, fits):
    """50 ids, more of the first ones than chance would give: they are special."""
    drawn = []
    while len(drawn) < 50:
        token = source.choice(ids[:300] if source.random() < 0.2 else ids)
        if not drawn or fits(drawn[-1], token):
            drawn.append(token)
    return drawn


class TokenizersJudge:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.ids = sorted(tokenizer.get_vocab().values())

    def __call__(self, texts):
        batch = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [encoding.ids for encoding in batch]

    def decode(self, sequences):
        return self.tokenizer.decode_batch(sequences, skip_special_tokens=False)

    @staticmethod
    def show(text):
        return text.decode("utf-8", "replace")

    def random_ids(self, source):
        """No bytes side by side: when one of them is no character, the package
        shows none of them."""
        def is_byte(token):
            return re.fullmatch("<0x..>", self.tokenizer.id_to_token(token))

        return draw_ids(source, self.ids,
                        lambda before, token: not (is_byte(before) and is_byte(token)))


class SentencePieceJudge:
    def __init__(self, path):
        self.model = sentencepiece.SentencePieceProcessor(model_file=path)

    def __call__(self, texts):
        return self.model.encode(texts)

    def decode(self, sequences):
        return self.model.decode(sequences)

    @staticmethod
    def show(text):
        """One U+FFFD for each byte, not for each cut character."""
        return re.sub("[\udc80-\udcff]", "\ufffd",
                      text.decode("utf-8", "surrogateescape"))

    def random_ids(self, source):
        """Nothing invisible between bytes that would make a character."""
        model = self.model
        return draw_ids(source, range(len(model)), lambda before, token: not (
            model.is_byte(before) and model.is_control(token)))


# ---- tokenizers that the data folder has no file of, made from those it has


def gpt2(data):
    folder = os.path.join(data, "tokenizers/gpt2")
    model = tokenizers.models.BPE.from_file(
        os.path.join(folder, "encoder.json"), os.path.join(folder, "vocab.bpe"))
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def llama3_style(data):
    """Llama-3's split and ignore_merges over GPT-2's vocabulary."""
    tokenizer = gpt2(data)
    tokenizer.model.ignore_merges = True
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3 % r"\p{N}{1,3}"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def qwen2_style(data):
    tokenizer = gpt2(data)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3 % r"\p{N}"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def pieces(path):
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model))]


def llama2_style(path, is_legacy):
    """Mistral's model as tokenizer.json, in both ways it has been written."""
    table = pieces(path)
    vocab = {piece: i for i, (piece, _) in enumerate(table)}
    merges = []
    for piece, score in table:
        for at in range(1, len(piece)):
            left, right = piece[:at], piece[at:]
            if left in vocab and right in vocab:
                merges.append((-score, vocab[left], vocab[right], left, right))
    merges.sort()
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab, [item[3:] for item in merges], unk_token="<unk>", fuse_unk=True,
        byte_fallback=True))
    if is_legacy:
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Prepend(META), normalizers.Replace(" ", META)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(META, "first", False)
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def fields(data):
    """(number, value) of a protobuf message; bytes or varints."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
        elif key & 7 == 5:
            yield key >> 3, data[at : at + 4]
            at += 4
        else:
            yield key >> 3, varint()


def t5_style(path):
    spec = dict(fields(open(path, "rb").read()))[3]
    charsmap = dict(fields(spec))[2]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces(path), 2, False))
    tokenizer.normalizer = normalizers.Precompiled(charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(META, "always")])
    tokenizer.decoder = decoders.Metaspace(META, "always")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return tokenizer


# ---- texts


def read(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as stream:
        return stream.read().decode("utf-8")


def cut(text, size):
    return text if size is None else text[:size]


def lines_of(text):
    return [line for line in text.split("\n") if line]


def assigned(source, first, last):
    """A character that Unicode 14 knows, as PCRE2 of Debian 12 does: whether a
    newer one is a letter depends on the version of each library."""
    while True:
        char = chr(source.randint(first, last))
        if unicodedata.category(char) != "Cn":
            return char


def random_texts(count, seed):
    """Strings of all planes, with more of what patterns look at."""
    source = random.Random(seed)
    ranges = [(32, 126), (9, 13), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF),
              (0x900, 0x97F), (0x1100, 0x11FF), (0x2000, 0x206F), (0x3040, 0x30FF),
              (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F9FF), (1, 0xD7FF),
              (0xE000, 0x10FFFF)]
    words = ["'s", "'LL", "  ", "\r\n", "123", "<|endoftext|>", "the", " of", "\u017f"]
    for _ in range(count):
        parts = []
        for _ in range(source.randint(1, 12)):
            if source.random() < 0.4:
                parts.append(source.choice(words))
            else:
                parts.append(assigned(source, *source.choice(ranges)))
        text = "".join(parts)
        # The judge's form C is of an older Unicode: its newest marks are none.
        if normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text):
            yield text


# ---- the comparison


class Comparison:
    def __init__(self, penstock, decode_ids, folder):
        self.penstock = penstock
        self.decode_ids = decode_ids
        self.folder = folder
        self.passed = self.failed = 0

    def ours(self, tokenizer, path, *options):
        prefix = os.path.join(self.folder, "ours")
        subprocess.run([self.penstock, "tokenize", path, "--tokenizer", tokenizer,
                        "-o", prefix, *options], check=True,
                       stderr=subprocess.PIPE)
        with open(prefix + "_text_document.idx", "rb") as stream:
            index = stream.read()
        kind = {8: numpy.uint16, 4: numpy.int32}[index[17]]
        count = int.from_bytes(index[18:26], "little")
        lengths = numpy.frombuffer(index, "<i4", count, 34)
        ids = numpy.fromfile(prefix + "_text_document.bin", kind)
        ends = numpy.cumsum(lengths)
        return [ids[end - length : end].tolist() for end, length in zip(ends, lengths)]

    def compare(self, what, tokenizer, judge, texts, kind, is_lossless):
        path = os.path.join(self.folder, "text")
        with open(path, "w", encoding="utf-8", newline="") as stream:
            if kind == "json":
                stream.writelines(json.dumps({"text": text}) + "\n" for text in texts)
            else:
                stream.write("\n".join(texts))
        options = {"file": [], "lines": ["--lines"], "json": ["--json-key", "text"]}
        begin = time.time()
        try:
            found = self.ours(tokenizer, path, *options[kind])
        except subprocess.CalledProcessError as error:
            self.fail(what, error.stderr.decode().strip())
            return
        middle = time.time()
        expected = judge(texts)
        note = "%.1f s, judge %.1f s" % (middle - begin, time.time() - middle)
        if found == expected:
            self.passed += 1
            print("passed  %-44s %9d ids, %s" % (what, sum(map(len, found)), note))
            decoded = self.compare_decoded(what, tokenizer, judge, found)
            if is_lossless and decoded != texts:
                self.fail(what, "encoded and decoded it is another text")
            return
        self.fail(what, self.difference(found, expected, texts))

    def compare_decoded(self, what, tokenizer, judge, sequences):
        """Returns our texts of these ids."""
        what += ", back"
        lines = "".join(" ".join(map(str, ids)) + "\n" for ids in sequences)
        answer = subprocess.run([self.decode_ids, tokenizer], input=lines,
                                capture_output=True, text=True)
        if answer.returncode != 0:
            self.fail(what, answer.stderr.strip())
            return None
        found = [judge.show(bytes.fromhex(line)) for line in answer.stdout.split("\n")[:-1]]
        expected = judge.decode(sequences)
        if found == expected:
            self.passed += 1
            print("passed  %-44s %9d characters" % (what, sum(map(len, found))))
            return found
        pairs = [pair for pair in zip(found, expected) if pair[0] != pair[1]]
        at = len(os.path.commonprefix(pairs[0]))
        self.fail(what, "%d of %d texts, first at %d: %s, expected %s" % (
            len(pairs), len(expected), at, ascii(pairs[0][0][at : at + 20]),
            ascii(pairs[0][1][at : at + 20])))
        return found

    def fail(self, what, why):
        self.failed += 1
        print("FAILED  %-44s %s" % (what, why))

    @staticmethod
    def difference(found, expected, texts):
        if len(found) != len(expected):
            return "%d documents, expected %d" % (len(found), len(expected))
        wrong = [i for i in range(len(found)) if found[i] != expected[i]]
        i = wrong[0]
        at = 0
        while at < min(len(found[i]), len(expected[i])) and found[i][at] == expected[i][at]:
            at += 1
        return "%d of %d documents, first %d at token %d: %s, expected %s%s" % (
            len(wrong), len(found), i, at, found[i][at : at + 6],
            expected[i][at : at + 6],
            "; text %s" % ascii(texts[i]) if len(texts[i]) < 80 else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("penstock")
    parser.add_argument("decode_ids")
    parser.add_argument("data")
    args = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    comparison = Comparison(args.penstock, args.decode_ids, folder.name)
    data = args.data
    quick = 60000 if args.quick else None

    def shared(name):
        return os.path.join(data, "tokenizers", name)

    def saved(name, tokenizer):
        path = os.path.join(folder.name, name + ".json")
        tokenizer.save(path)
        return path, TokenizersJudge(tokenizer)

    def characters(names):
        """A tokenizer of the characters of some texts, which ours makes."""
        path = os.path.join(folder.name, "chars")
        subprocess.run([args.penstock, "tokenize", "--train-chars", "-o", path,
                        *(os.path.join(data, name) for name in names)],
                       check=True, stderr=subprocess.PIPE)
        return path, TokenizersJudge(
            tokenizers.Tokenizer.from_file(os.path.join(path, "tokenizer.json")))

    files = ["tinyshakespeare/input.txt", "names/names.txt", "wikitext-2/valid.txt",
             "wikitext-2/test.txt", "tokenizers/spm-small/botchan.txt",
             "tokenizers/spm-small/wagahaiwa_nekodearu.txt"]
    mistral = shared("mistral-v1/tokenizer.model")
    t5 = shared("t5-base/spiece.model")
    small = shared("spm-small/test_model.model")
    contenders = {
        "gpt2": (shared("gpt2"), TokenizersJudge(gpt2(data))),
        "gpt2 json": saved("gpt2", gpt2(data)),
        "gpt-neox-20b": (shared("gpt-neox-20b"), TokenizersJudge(
            tokenizers.Tokenizer.from_file(shared("gpt-neox-20b/tokenizer.json")))),
        "tiny-llama3-style": (shared("tiny-llama3-style"), TokenizersJudge(
            tokenizers.Tokenizer.from_file(shared("tiny-llama3-style/tokenizer.json")))),
        "llama3 split": saved("llama3", llama3_style(data)),
        "qwen2 split": saved("qwen2", qwen2_style(data)),
        "mistral model": (mistral, SentencePieceJudge(mistral)),
        "mistral json": saved("mistral", llama2_style(mistral, False)),
        "mistral json, prepend": saved("llama2", llama2_style(mistral, True)),
        "t5 model": (t5, SentencePieceJudge(t5)),
        "t5 json": saved("t5", t5_style(t5)),
        "spm-small": (small, SentencePieceJudge(small)),
        "characters": characters(files),
    }
    texts = [(name, cut(read(os.path.join(data, name)), quick)) for name in files]
    novels = cut(read(os.path.join(data, "novels.txt.gz")), quick)
    strings = list(random_texts(2000 if args.quick else 100000, seed=1))
    for name, (path, judge) in contenders.items():
        is_lossless = name in LOSSLESS
        for file, text in texts:
            comparison.compare("%s: %s" % (name, os.path.basename(file)), path,
                               judge, [text], "file", is_lossless)
        # Whole, the judges need gigabytes: 3 MB as one text, all by lines.
        comparison.compare(name + ": novels, 3 MB", path, judge, [novels[:3000000]],
                           "file", is_lossless)
        comparison.compare(name + ": novels, lines", path, judge, lines_of(novels),
                           "lines", is_lossless)
        comparison.compare(name + ": random", path, judge, strings, "json", is_lossless)
        source = random.Random(2)
        comparison.compare_decoded(name + ": random ids", path, judge,
                                   [judge.random_ids(source) for _ in range(1000)])
        sys.stdout.flush()
    print("%d passed, %d failed" % (comparison.passed, comparison.failed))
    return comparison.failed > 0


if __name__ == "__main__":
    sys.exit(main())
