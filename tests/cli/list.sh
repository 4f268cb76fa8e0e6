#!/usr/bin/env bash
# The list names every schedule once, for people and as JSON alike.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)

run 0 schedule list
err_empty
out_has "1f1b"
out_has "Narayanan et al., ICML 2021, arXiv 2006.09503"
names=$(awk 'NF == 0 { exit } NR > 2 { print $1 }' "$work/out" | sort)
run 0 schedule list --json
same "names in JSON" "$(json '"\n".join(sorted(x["name"] for x in d["schedules"]))')" "$names"
same "no name twice" "$(uniq -d <<<"$names")" ""
same "fields" "$(json 'sorted(d["schedules"][0])')" "$(json 'sorted(["name", "title",
    "paper", "placement", "constraints", "versions", "bubble", "peak",
    "synchronous", "has_chunks", "has_slices", "has_limit", "uses_costs",
    "note", "finding", "divides", "least_rounds", "splits_backward", "options"])')"
same "what is ours rather than the paper's is said" \
    "$(json '[x["name"] for x in d["schedules"] if not x["note"] and x["name"] in ["bitpipe",
    "cyclic", "hanayo", "kfkb", "pb", "pipemare", "spectrain", "timeprest", "wpipe",
    "xpipe"]]')" "[]"
same "schedules whose row is missing in the list of src/schedule/generators.c" \
    "$(comm -13 <(echo "$names") \
        <(defined pen_generator "$root"/src/schedule/generators/*.c))" ""
same "1f1b" "$(json '[(x["placement"], x["synchronous"])
    for x in d["schedules"] if x["name"] == "1f1b"]')" "[('linear', True)]"
finish
