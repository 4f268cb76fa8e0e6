#!/usr/bin/env bash
# An SVG, which we write ourselves, shows what cairo draws: rsvg-convert makes
# pixels of it, and compare_pictures compares them square by square. SVGs are
# well-formed and have real text in them, whatever users name their files.
. "$(dirname "$0")/support.bash"
: "${TRACE_FILES:?the program that makes traces}"
if ! command -v rsvg-convert >/dev/null || [ -z "${COMPARE_PICTURES:-}" ]; then
    echo "rsvg-convert or cairo is missing; skipped"
    exit 77
fi
pictures=0

# apart FILE [SHIFT]: the share of squares of ink that differ in FILE.svg and FILE.png.
apart() {
    rsvg-convert -z 1.5 "$1.svg" -o "$1-svg.png" && "$COMPARE_PICTURES" "$1-svg.png" "$1.png" "${@:2}"
}

# alike COMMAND...: draws $work/p.svg and $work/p.png with it.
alike() {
    local found form
    for form in svg png; do run 0 "$@" -o "$work/p.$form"; done
    found=$(apart "$work/p")
    awk -v x="$found" 'BEGIN { exit !(x ~ /^0\.[0-9]+$/ && x < 0.005) }' ||
        fail "$found of the squares differ"
    pictures=$((pictures + 1))
}

# texts FILE: all texts of an SVG, a line each; fails where it is no XML.
texts() {
    python3 -c 'import sys, xml.etree.ElementTree as tree
t = tree.parse(sys.argv[1]).getroot()
assert t.get("role") == "img" and t.get("aria-label")
print(*["".join(e.itertext()) for e in t.iter() if e.tag.endswith("}text")], sep="\n")' "$1" 2>&1
}

sizes=(--stages 4 --microbatches 4)
for schedule in gpipe 1f1b interleaved zb-h1 zb-v chimera bpipe seq1f1b hanayo; do
    alike schedule draw $schedule "${sizes[@]}"
done
alike schedule draw 1f1b zb-h1 gpipe "${sizes[@]}" --costs f=1,i=1,w=1,comm=0.2
alike schedule draw 1f1b --stages 12 --microbatches 12
alike schedule draw dualpipe --stages 4 --microbatches 8
alike schedule draw gpipe --stages 1 --microbatches 1
alike plan gpt2-xl 8xh100
alike plan llama-3.1-8b 64xh100

# log STEPS SEED: a loss that falls with noise, validated every 10.
log() {
    awk -v steps="$1" -v seed="$2" 'BEGIN {
        srand(seed)
        print "{\"format\":\"penstock-run\",\"version\":1,\"model\":\"preset:gpt2\",\"settings\":{}}"
        for (i = 1; i <= steps; i++) {
            printf "{\"step\":%d,\"loss\":%.7g,\"grad_norm\":1,\"lr\":0.1,\"tokens\":%d,\"tokens_per_sec\":%.6g,", \
                i, 2.5 + 8 / sqrt(i) + rand() / 4, 4096 * i, 1300 + 20 * rand()
            printf "\"share_of_peak\":0.7,\"step_ms\":3150,\"memory_bytes\":1,\"elapsed_sec\":%.6g", 3.15 * i
            print (i % 10 == 0 ? ",\"val_loss\":" 3 + 8 / sqrt(i) : "") "}"
        }
    }'
}
log 120 1 >"$work/a.jsonl"
log 90 2 >"$work/b.jsonl"
alike plot "$work/a.jsonl"
alike plot "$work/a.jsonl" "$work/b.jsonl" --smooth 10
alike plot "$work/a.jsonl" "$work/b.jsonl" --log-y --x tokens --title "two runs"

# Traces of four ranks, of which one is slow, and of eight replicas.
costs() {
    printf '{"format":"penstock-costs","version":1,"f":2e-3,"i":2e-3,"w":2e-3,"step":1e-3,"comm":1e-4%s}' "$1"
}
costs "" >"$work/even.json"
costs ',"ranks":[{"count":2},{"f":3e-3,"i":3e-3,"w":3e-3},{}]' >"$work/slow.json"
make_file 1f1b.txt 1f1b --stages 4 --microbatches 8
even=$work/even.json
mkdir "$work/four" "$work/many"
"$TRACE_FILES" "$work/four" "$work/1f1b.txt" 1 "$even" "$work/slow.json" &&
    "$TRACE_FILES" -r "$work/many" "$work/1f1b.txt" 1 "$even" "$even" "$even" "$work/slow.json" "$even" ||
    fail "cannot make a trace"
alike view "$work/four"
alike view "$work/many" --ranks 0-15
alike view "$work/many" --ranks 9
same "pictures compared" $((pictures >= 20)) 1

# The comparison sees half a point, and another picture.
about "compare_pictures"
for shift in 1 4; do
    awk -v x="$(apart "$work/p" $shift)" 'BEGIN { exit !(x > 0.01) }' || fail "a shift of $shift pixels is not seen"
done
run 0 schedule draw 1f1b "${sizes[@]}" -o "$work/p.svg"
run 0 schedule draw gpipe "${sizes[@]}" -o "$work/p.png"
! apart "$work/p" | awk '{ exit !($1 < 0.1) }' || fail "another schedule is not seen"

# A report has the SVG of the view in it.
run 0 view "$work/four" -o "$work/four.svg"
run 0 report "$work/four" -o "$work/report.html"
[[ $(cat "$work/report.html") == *"$(sed 1d "$work/four.svg")"* ]] || fail "the report has another picture"

# The picture of the README has the bytes that every machine writes.
run 0 schedule draw 1f1b zb-v --stages 4 --microbatches 8 -o "$work/p.svg"
cmp "$work/p.svg" "$(dirname "$0")/../../docs/images/1f1b-zb-v.svg" || fail "docs/images/1f1b-zb-v.svg is another picture"

# Text is text: searchable, at any length, with names as hostile as they come.
run 0 schedule draw 1f1b "${sizes[@]}" -o "$work/p.svg"
[[ $(texts "$work/p.svg") == *$'1f1b\np=4 m=4   makespan 21 s   bubble 42.9 %   peak 4 A\n'* ]] ||
    fail "found $(texts "$work/p.svg" | head -3)"
long=$(printf 'x%.0s' {1..200})
for name in '<script>&amp;"'"'" $'a\tb\x01c\x7f' $'\xff\xc0\x80\xed\xa0\x80' $'\xef\xbf\xbf\xef\xbf\xbe' ']]>-->' 'ö 中 🙂' "$long"; do
    cp "$work/a.jsonl" "$work/$name.jsonl"
    run 0 plot "$work/$name.jsonl" --title "$name" -o "$work/name.svg"
    texts "$work/name.svg" >"$work/found"
    # What is no letter becomes question marks.
    same "title and legend" "$(python3 -c 'import os, re, sys
lines = open(sys.argv[2], encoding="utf-8").read().split("\n")
name = os.fsencode(sys.argv[1]).decode("utf-8", "replace")
clean = re.sub("[^ -~\u00a0-\ufffc\U00010000-\U0010ffff]+", "\0", name)
pattern = "[?]+".join(map(re.escape, clean.split("\0")))
print(sum(bool(re.match(pattern + "($|[.]jsonl:  step 120)", line)) for line in lines))' "$name" "$work/found" 2>&1)" 2
done

# Nothing reaches over the edge of the page: where a text begins and how long it is, is written.
run 0 plot "$work/$long.jsonl" --title "$long$long" -o "$work/p.svg"
same "texts in the page" "$(python3 -c 'import sys, xml.etree.ElementTree as tree
t = tree.parse(sys.argv[1]).getroot()
width = float(t.get("viewBox").split()[2])
def walk(e, anchor):
    anchor = e.get("text-anchor", anchor)
    if e.tag.endswith("}text"):
        x, length = float(e.get("x")), float(e.get("textLength"))
        x -= length * {"": 0, "middle": 0.5, "end": 1}[anchor]
        if x < 0 or x + length > width:
            print(e.text, x, length, width)
    for child in e:
        walk(child, anchor)
walk(t, "")' "$work/p.svg" 2>&1)" ""
same "locale" "$(LC_ALL=de_DE.UTF-8 "$PENSTOCK" schedule draw 1f1b "${sizes[@]}" -o "$work/q.svg" 2>/dev/null
    "$PENSTOCK" schedule draw 1f1b "${sizes[@]}" -o "$work/r.svg" 2>/dev/null
    cmp "$work/q.svg" "$work/r.svg" 2>&1)" ""
finish
