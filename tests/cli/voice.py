#!/usr/bin/env python3
"""Finds words that a reader has to read twice, in every text that a user sees.

voice.py ROOT OPTIONS: the string literals of ROOT/src, README.md, the man pages, and the table of
options that tests/cli/support.bash makes. Prints each place with the rule that it breaks.
"""
import pathlib
import re
import sys

WORDS = {
    "name the process or rank": r"\b(nobody|somebody|whoever|whom)\b",
    "a number is N, a time is S seconds": r"\bso (many|long)\b(?! (as|that))",
    "temporary": r"\bfor a while\b",
    "bit-identical": r"\b(bits of one process|(to|gives?|with|gets?) the same bits)\b",
    "report, print or show": r"\b([Tt]ells?|(is|are|was|were) told|be told)\b",
    "resume or continue": r"\bgo(es|ing)? on\b",
    "after": r"\bbehind\b",
    "in addition to, next to, or in the same folder": r"\bbeside\b",
    "comes before, is": r"\bstands?\b(?! for\b)",
    "is not a": r"(?<!there )\bis no (?!(longer|more|such)\b)",
}
STATEMENT = re.compile(r"(?:^|[.:;] |\*\* )((?:What|Who|Whom|Of|Those|Such|So)\b[^.?!:]*[.?!:]?)")
# Literals with words of a format or of another program, and names in examples.
PROSE = re.compile(r"[a-z]{2,} [a-z]{2,}")
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|\s+|\w+|.", re.S)


def literals(source):
    """Pairs of line and text; strings that follow each other are one."""
    line, start, text = 1, 0, None
    for match in TOKEN.finditer(source):
        token = match.group()
        if token[0] == '"':
            start, text = (line, "") if text is None else (start, text)
            text += token[1:-1]
        elif not token.isspace() and text is not None:
            yield start, text
            text = None
        line += token.count("\n")


def paragraphs(page):
    """Pairs of line and text of Markdown or mdoc; code is left out."""
    start, text, is_code = 1, "", False
    for number, line in enumerate(page.split("\n") + [""], 1):
        if re.match(r"\.(Bd -literal|Ed)", line):
            is_code = line.startswith(".Bd")
        if is_code or line == "" or line.startswith((".", "    ", "|", "- ", "#")):
            if text:
                yield start, text
            text = ""
            if line.startswith(("|", "- ", "#")):
                yield number, line.lstrip("|-# ")
            continue
        start, text = (start, text + " " + line) if text else (number, line)


def broken(text):
    """The rules that a text breaks."""
    for rule, pattern in WORDS.items():
        if re.search(pattern, text):
            yield rule
    for sentence in STATEMENT.findall(text):
        if not sentence.endswith("?"):
            yield "name the subject"


def main():
    root, options = pathlib.Path(sys.argv[1]), sys.argv[2]
    found = 0
    texts = []
    paths = [*root.glob("src/**/*"), root / "README.md", *root.glob("docs/man/*.1")]
    for path in sorted(path for path in paths if path.is_file()):
        source = path.read_text(encoding="utf-8")
        if path.suffix in (".c", ".h", ".cc"):
            texts += [(path.relative_to(root), line, text) for line, text in literals(source)
                      if PROSE.search(text)]
        elif path.suffix in (".md", ".1"):
            texts += [(path.relative_to(root), line, text) for line, text in paragraphs(source)]
    for number, line in enumerate(open(options, encoding="utf-8"), 1):
        texts.append(("--help", number, line.rstrip("\n").split("\t")[-1]))
    for path, line, text in texts:
        for rule in broken(text):
            print(f"{path}:{line}: {rule}: {text[:160]}")
            found += 1
    print(f"{len(texts)} texts, {found} unclear")
    sys.exit(found > 0 or len(texts) < 2000)


main()
