# What the tests of the commands share: run a command, then say what was
# expected of it. A test goes on after a failure and ends with `finish`.
# Needs PENSTOCK, the program under test.
set -uo pipefail
: "${PENSTOCK:?the program under test}"
if ! command -v python3 >/dev/null; then
    echo "python3 is missing to read JSON; skipped"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
line=""

fail() {
    echo "FAILED: $line"
    echo "  $*"
    echo "  stdout:" && head -20 "$work/out" | sed 's/^/    /'
    echo "  stderr:" && head -20 "$work/err" | sed 's/^/    /'
    failures=$((failures + 1))
}

# seeds_of NAME: the seeds of a sweep, those that made it fail once (tests/support/
# seeds.txt) and then PEN_SEED.
seeds_of() {
    awk -v name="$1" '$1 == name { print $2 }' "$(dirname "${BASH_SOURCE[0]}")/../support/seeds.txt"
    echo "${PEN_SEED:-1}"
}

# drawn N: true for every Nth time it is asked, which PEN_SEED begins to count; always
# with PEN_LONG=1. Each commit tries exactly one of N cases in a row.
draws=${PEN_SEED:-1}
drawn() {
    draws=$((draws + 1))
    [ -n "${PEN_LONG:-}" ] || [ $((draws % $1)) = 0 ]
}

# in_time SECONDS COMMAND...: ends a command that hangs; PEN_SLOWNESS stretches it.
in_time() { timeout $(($1 * ${PEN_SLOWNESS:-1})) "${@:2}"; }

# about WORDS: what a failure names until the next run.
about() { line=$*; }

# PEN_PLAIN, where it is set, is the same program without sanitizers. In tests with
# may_mix_builds=yes it runs four of five commands that shall succeed, by PEN_SEED.
# Those that are refused stay with PENSTOCK, and so does what computes: another build
# has other bits.
may_mix_builds=
sanitized=$PENSTOCK
turn=${PEN_SEED:-0}

# choose_program CODE [COMMAND]: sets `program`.
choose_program() {
    program=$PENSTOCK
    if [ "$1" != 0 ] || [ -z "${PEN_PLAIN:-}" ] || [ -z "$may_mix_builds" ] ||
        [ "$PENSTOCK" != "$sanitized" ]; then
        return
    fi
    case ${2:-} in
    train | eval | generate | profile | checkpoint | doctor | reproduce | supervise) return ;;
    esac
    turn=$((turn + 1))
    [ $((turn % 5)) = 0 ] || program=$PEN_PLAIN
}

# run CODE ARGS...: runs penstock, expects this exit code.
run() {
    local expected=$1 code=0 program
    shift
    line="penstock $*"
    choose_program "$expected" "$@"
    "$program" "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$expected" ] || fail "exit code $code, expected $expected"
}

# The texts are fixed strings.
out_has() { grep -qF -- "$1" "$work/out" || fail "stdout lacks '$1'"; }
err_has() { grep -qF -- "$1" "$work/err" || fail "stderr lacks '$1'"; }
out_lacks() { ! grep -qF -- "$1" "$work/out" || fail "stdout has '$1'"; }
err_lacks() { ! grep -qF -- "$1" "$work/err" || fail "stderr has '$1'"; }
out_empty() { [ ! -s "$work/out" ] || fail "stdout is not empty"; }
err_empty() { [ ! -s "$work/err" ] || fail "stderr is not empty"; }

# same WHAT FOUND EXPECTED
same() { [ "$2" = "$3" ] || fail "$1: found '$2', expected '$3'"; }

# json EXPRESSION: evaluates Python over stdout, called d.
json() {
    python3 -IS -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(eval("(" + sys.argv[2] + ")"))' "$work/out" "$1" 2>&1
}

# html EXPRESSION: evaluates Python over $work/report.html, the tree in `t` (names
# without their spaces), all words in `words`, the bytes in `source`.
html() {
    python3 -IS - "$work/report.html" "$1" <<'PYTHON' 2>&1
import re, sys
import xml.etree.ElementTree as tree
source = open(sys.argv[1], encoding="utf-8").read()
t = tree.fromstring(source)
for element in t.iter():
    element.tag = element.tag.split("}")[-1]
words = " ".join(" ".join(t.itertext()).split())
sections = {s.find("h2").text: s for s in t.iter("section")}
def rows(title):
    return [["".join(c.itertext()) for c in r.findall("td")]
            for r in sections[title].iter("tr") if r.findall("td")]
print(eval("(" + sys.argv[2] + ")"))
PYTHON
}

# Nothing is fetched: no scripts, no images, no addresses but XML's names.
html_stands_alone() {
    same "scripts" "$(html 'sum(1 for e in t.iter()
        if e.tag in ("script", "link", "img", "iframe", "object"))')" 0
    same "addresses" "$(html 'set(re.findall(r"https?://[a-z0-9.]+", source))
        - {"http://www.w3.org"} or "none"')" none
    same "links that leave" "$(html '[v for e in t.iter() for k, v in
        e.attrib.items() if k.endswith("href") and v[0] != "#"]')" "[]"
}

# make_file NAME ARGS...: a schedule in the work folder.
make_file() {
    local file=$work/$1
    shift
    run 0 schedule make "$@" -o "$file"
}

# list_commands: writes $work/commands and $work/options from --help of all
# commands. Skips the test where some are of programs that were not built.
list_commands() {
    local name table
    table=$(dirname "${BASH_SOURCE[0]}")/../../tools/commands-table
    for name in penstock-train penstock-simulate; do
        if [ ! -x "$(dirname "$PENSTOCK")/$name" ]; then
            echo "$name is not built; skipped"
            exit 77
        fi
    done
    "$table" "$PENSTOCK" --commands >"$work/commands" || exit 1
    "$table" "$PENSTOCK" --options >"$work/options" || exit 1
}

# defined STRUCT FILES...: the .name of every such struct in sources, sorted.
defined() {
    awk -v start="^const struct $1 " '$0 ~ start { getline; gsub(/.*= "|",$/, "")
        print }' "${@:2}" | sort
}

finish() {
    echo "$failures failures"
    [ "$failures" = 0 ]
}

hash_of() { # RUN
    "$PENSTOCK" checkpoint hash "$1" | tail -1 | grep -oE '[0-9a-f]{64}'
}

# A training that goes on from its step 37 ends with the hash of one that was
# never stopped.
resumes_after_37() { # WHAT TRAIN-OPTIONS...
    local what=$1
    shift
    rm -rf "$work/whole" "$work/cut"
    run 0 train "$@" --save "$work/whole"
    run 0 train "$@" --save "$work/cut" --save-interval 37
    find "$work/cut" -maxdepth 1 -name 'step-*' ! -name step-00000037 \
        -exec rm -r {} +
    run 0 train "$@" --save "$work/cut" --load "$work/cut"
    err_has "resuming after step 37 from $work/cut/step-00000037"
    err_lacks "another run"
    same "hash of $what" "$(hash_of "$work/cut")" "$(hash_of "$work/whole")"
    [ -n "$(hash_of "$work/whole")" ] || fail "there is no hash"
}
