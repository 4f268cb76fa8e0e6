#!/usr/bin/env bash
# help --json has the commands and options of the help for people, and its
# examples and the commands of SKILL.md work.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(cd "$(dirname "$PENSTOCK")" && pwd)/$(basename "$PENSTOCK")

run 0 help --json
err_empty
installed=$(json 'all(c["installed"] for c in d["commands"])')
if [ "$installed" = True ]; then
    same "commands" "$(json '"\n".join(sorted(c["name"] for c in d["commands"] if c["name"] != "plan check"))')" \
        "$("$root/tools/commands-table" "$PENSTOCK" --commands | grep -vxE 'checkpoint|cluster|probe|ring|schedule|sync' | sort)"
    same "options" "$(json '"\n".join(sorted({c["name"] + " --" + o["name"] for c in d["commands"]
        for o in c["options"] if c["name"] != "plan check"}))' | LC_ALL=C sort)" \
        "$("$root/tools/commands-table" "$PENSTOCK" --options | awk -F'\t' '$2 ~ /^--/ { print $1, $2 }' | LC_ALL=C sort -u)"
fi
same "a number" "$(json '[(o["value"], o["type"], o["when_not_given"]) for c in d["commands"]
    for o in c["options"] if c["name"] == "plan" and o["name"] == "top"]')" "[('N', 'count', '10')]"
same "a flag" "$(json '[(o["value"], o["type"], o["hidden"]) for c in d["commands"]
    for o in c["options"] if c["name"] == "plan" and o["name"] == "fused-experts"]')" "[(None, 'flag', True)]"
same "what holds when not given is not the meaning" "$(json '[o["name"] for c in d["commands"]
    for o in c["options"] if len(o.get("when_not_given", "")) > 100]')" "[]"
same "without --json: they write files, pictures or text" "$(json '[c["name"] for c in d["commands"]
    if c["installed"] and "json" not in [o["name"] for o in c["options"]] and c["name"] not in ["schedule make",
    "schedule draw", "ring draw", "ring key", "ring coordinate", "ring evict", "schedule convert", "train", "generate", "plot", "checkpoint reshard", "checkpoint export",
    "cluster detect", "supervise", "hold"]]')" "[]"
json '"\n".join(e for c in d["commands"] for e in c["examples"] if c["installed"])' >"$work/examples"
run 0 help schedule --json
same "one command" "$(json '{c["name"].split()[0] for c in d["commands"]}')" "{'schedule'}"
run 2 help nothing --json
same "code" "$(json 'd["error"]["code"]')" usage

# Without the other programs, their commands are known by name.
mkdir "$work/alone"
cp "$program" "$work/alone/penstock"
PENSTOCK=$work/alone/penstock
run 0 help --json
same "not installed" "$(json 'sorted(c["name"] for c in d["commands"] if not c["installed"])')" \
    "['doctor', 'eval', 'generate', 'hold', 'profile', 'simulate', 'train']"
run 1 eval --model nothing --json
same "code" "$(json 'd["error"]["code"]')" not-installed
PENSTOCK=$program

# lines FILE: carries out command lines in one folder, in their order.
lines() {
    local words count=0
    mkdir -p "$work/folder"
    while read -r -a words; do
        [ "${words[0]}" = penstock ] || continue
        line="${words[*]}"
        count=$((count + 1))
        (cd "$work/folder" && "$program" "${words[@]:1}") >"$work/out" 2>"$work/err" </dev/null ||
            fail "exit code $?"
        [[ $line != *--json* ]] || same "an answer" "$(json 'd["format"] != "penstock-answer-error"')" True
    done <"$1"
    echo "$count lines of $1"
    [ "$count" -gt 5 ] || fail "only $count lines"
}
# Those that build on files come in the order of the table, by plan first.
{ grep -F -- '-o plan.json' "$work/examples"; grep -F 'schedule make' "$work/examples"; cat "$work/examples"; } >"$work/ordered"
lines "$work/ordered"
grep -o '`penstock [^`]*`' "$root/SKILL.md" | tr -d '`' | grep -v 'schema NAME' >"$work/skill"
lines "$work/skill"
finish
