#!/usr/bin/env python3
"""Finds words that a reader has to read twice, in every text that a user sees, and in comments.

voice.py ROOT OPTIONS: the string literals of ROOT/src, all documents, the man pages, the table of
options that tests/cli/support.bash makes, and the comments of ROOT/src.
voice.py --comments FOLDER...: the comments of all C files in these folders.
Prints each place with the rule that it breaks.
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
    "comes before, is": r"\bstands?\b(?! (for|out)\b)",
    "is not a": r"(?<!there )\bis no (?!(longer|more|such)\b)",
}
# Comments speak of processes and ranks; only users and readers are people.
COMMENT_WORDS = WORDS | {
    "a process or rank is no person": r"(?<!users )(?<!user )(?<!readers )\b(who|he(?! et al)|his|him)\b",
}
STATEMENT = re.compile(r"(?:^|[.:;] |\*\* )((?:What|Who|Whom|Of|Those|Such|So)\b[^.?!:]*[.?!:]?)")
COMMENT_STATEMENT = re.compile(STATEMENT.pattern.replace("|So)", "|So|None)"))
# Literals with words of a format or of another program, and names in examples.
PROSE = re.compile(r"[a-z]{2,} [a-z]{2,}")
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|\s+|\w+|.", re.S)
# Texts of users and contributors; a cell of a table is a text of its own.
PLACES = ("src/**/*", "docs/man/*.1", "README.md", "CONTRIBUTING.md", "SECURITY.md", "SKILL.md",
          "docs/**/*.md", "examples/**/*.md")


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


def comments(source):
    """Pairs of line and text of block comments."""
    line = 1
    for match in TOKEN.finditer(source):
        token = match.group()
        if token.startswith("/*"):
            lines = (re.sub(r"^\s*\* ?", "", one) for one in token[2:-2].split("\n"))
            yield line, " ".join(" ".join(lines).split())
        line += token.count("\n")


def paragraphs(page):
    """Pairs of line and text of Markdown or mdoc; code is left out."""
    start, text, is_code, is_item = 1, "", False, False
    for number, line in enumerate(page.split("\n") + [""], 1):
        bare = line.lstrip("> ")
        is_edge = re.match(r"```|\.(Bd -literal|Ed)", bare)
        is_code = is_code != bare.startswith("```") and not bare.startswith(".Ed")
        is_code |= bare.startswith(".Bd -literal")
        is_code_line = is_code or line.startswith("    ") and not (is_item and text)
        marker = re.match(r"([-*]|\d+\.) ", bare)
        is_alone = bare == "" or bare[0] in ".|#"
        if text and (is_edge or is_code_line or marker or is_alone):
            yield start, without_code(text)
            text = ""
        if is_edge or is_code_line:
            continue
        if is_alone:
            for cell in without_code(bare).split("|"):
                if cell.strip(" -:") and not cell.startswith("."):
                    yield number, cell.strip()
        elif text:
            text += " " + bare
        else:
            start, text = number, bare[marker.end():] if marker else bare
            is_item = marker is not None


def without_code(text):
    """Code in a line becomes one word; a link keeps its text, and bold text loses its marks."""
    text = re.sub(r"(`+).+?\1", "CODE", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


def broken(text):
    """The rules that a text breaks."""
    for rule, pattern in WORDS.items():
        if re.search(pattern, text, re.I):
            yield rule
    for sentence in STATEMENT.findall(text):
        if not sentence.endswith("?"):
            yield "name the subject"


def broken_in_comment(text):
    """The rules that a comment breaks; it may quote outputs, and name constants."""
    text = re.sub(r'"[^"]*"|`[^`]*`|\b[A-Z][A-Z0-9_]+\b', "N", text)
    for rule, pattern in COMMENT_WORDS.items():
        if re.search(pattern, text, re.I):
            yield rule
    for sentence in COMMENT_STATEMENT.findall(text):
        if not sentence.endswith("?"):
            yield "name the subject"


def unclear_comments(folder):
    """Prints the comments of a folder that break rules; their number, and that of all comments."""
    found = total = 0
    for path in sorted(folder.glob("**/*")):
        if path.suffix not in (".c", ".h", ".cc"):
            continue
        for line, text in comments(path.read_text(encoding="utf-8")):
            total += 1
            for rule in broken_in_comment(text):
                print(f"{path}:{line}: {rule}: {text[:160]}")
                found += 1
    return found, total


def main():
    if sys.argv[1] == "--comments":
        counts = [unclear_comments(pathlib.Path(folder)) for folder in sys.argv[2:]]
        found, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        print(f"{total} comments, {found} unclear")
        sys.exit(found > 0)
    root, options = pathlib.Path(sys.argv[1]), sys.argv[2]
    found = 0
    texts = []
    paths = [path for place in PLACES for path in root.glob(place)]
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
    found += unclear_comments(root / "src")[0]
    print(f"{len(texts)} texts, {found} unclear")
    sys.exit(found > 0 or len(texts) < 8000)


main()
