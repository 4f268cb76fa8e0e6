"""How the module calls the program: command lines in, JSON objects out."""

import json
import os
import signal
import subprocess
import sys
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Union

Answer = Dict[str, Any]
Count = Union[int, str]
Number = Union[int, float, str]
Path = Union[str, "os.PathLike[str]"]
# A path, or what would be in the file: text of several lines, or an object.
File = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Several = Union[str, Sequence[Number], Mapping[str, Number]]


class Error(Exception):
    """An error that the program reported.

    code     for programs: usage, invalid, unfit, file, no-memory, damaged,
             late, not-installed or failed
    message  what is wrong, in one line
    detail   the lines below it: an excerpt of the file, or a hint; or None
    file, line, column  the place that the message names; or None
    answer   the whole object, as `penstock schema error` describes it
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        error = answer["error"]
        self.answer: Answer = answer
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.detail: Optional[str] = error.get("detail")
        self.file: Optional[str] = error.get("file")
        self.line: Optional[int] = error.get("line")
        self.column: Optional[int] = error.get("column")

    def __str__(self) -> str:
        return self.message if self.detail is None else self.message + "\n" + self.detail


def _error(code: str, message: str) -> Error:
    lines = message.strip().split("\n", 1)
    error = {"code": code, "message": lines[0]}
    if len(lines) > 1:
        error["detail"] = lines[1]
    return Error({"format": "penstock-answer-error", "version": 1, "error": error, "notes": []})


def program() -> str:
    """The path of the program: the one of this package, or the one that the
    environment variable PENSTOCK names."""
    other = os.environ.get("PENSTOCK")
    return other or os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "penstock")


def _run(words: Sequence[str], text: Optional[str]) -> "subprocess.CompletedProcess[str]":
    path = program()
    try:
        return subprocess.run(
            [path, *words],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise _error("not-installed", "cannot run {}: {}".format(path, error.strerror)) from error


def _end(code: int) -> str:
    if code < 0:
        return "the program was ended by signal {}".format(-code)
    return "the program ended with exit code {}".format(code)


def call(*words: str, text: Optional[str] = None) -> Answer:
    """Runs `penstock WORDS --json` and returns its answer.

    `text` is what the program reads where a file is named "-". An answer of
    "no", as of a schedule that is wrong, is an answer; errors raise Error.
    """
    done = _run([*_before_files(words), "--json", *_files(words)], text)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise _error("failed", _message(done)) from None
    if not isinstance(answer, dict):
        raise _error("failed", "the program did not print an object")
    if answer.get("format") == "penstock-answer-error":
        raise Error(answer)
    return answer


def output(*words: str, text: Optional[str] = None) -> str:
    """Runs `penstock WORDS`, a command without --json, and returns its
    standard output."""
    done = _run(words, text)
    if done.returncode != 0:
        raise _error("usage" if done.returncode == 2 else "failed", _message(done))
    return done.stdout


def _before_files(words: Sequence[str]) -> List[str]:
    return list(words[: words.index("--")] if "--" in words else words)


def _files(words: Sequence[str]) -> List[str]:
    return list(words[words.index("--") :] if "--" in words else [])


def _message(done: "subprocess.CompletedProcess[str]") -> str:
    """What the program said of its failure, without its name in front."""
    for mark in ("penstock: error: ", "penstock: "):
        at = done.stderr.find(mark)
        if at >= 0:
            return done.stderr[at + len(mark) :]
    return done.stderr.strip() or _end(done.returncode)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join("{}={}".format(key, item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _options(options: Mapping[str, Any]) -> List[str]:
    """--name=value of those that are given; None and False are not."""
    words = []
    for name, value in options.items():
        if value is True:
            words.append("--" + name.replace("_", "-"))
        elif value is not None and value is not False:
            words.append("--{}={}".format(name.replace("_", "-"), _value(value)))
    return words


class Line:
    """A command line: of `given`, those of `names` are arguments, the others
    options."""

    def __init__(self, command: str, given: Dict[str, Any], *names: str) -> None:
        self.text: Optional[str] = None
        arguments: List[str] = []
        for name in names:
            value = given.pop(name)
            for item in value if isinstance(value, tuple) else (value,):
                if item is not None:
                    arguments.append(self._argument(item))
        self.words = command.split() + _options(given) + ["--"] + arguments

    def _argument(self, item: Any) -> str:
        if isinstance(item, Mapping):
            self.text = json.dumps(item)
        elif isinstance(item, str) and "\n" in item:
            self.text = item
        else:
            return _value(item)
        return "-"

    def answer(self) -> Answer:
        return call(*self.words, text=self.text)

    def output(self) -> str:
        return output(*self.words, text=self.text)


def main() -> NoReturn:
    """Becomes the program: the script `penstock`, and `python -m penstock`."""
    path = program()
    # Python ignores these two, and what is ignored stays so in the program.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(path, ["penstock", *sys.argv[1:]])
    except OSError as error:
        sys.exit("penstock: cannot run {}: {}".format(path, error.strerror))
