#!/usr/bin/env bash
# report puts what is known of trainings on one page that stands alone: its
# figures are those of log, trace and ranks.json, missing parts are listed with
# the option that gives it, and files that are bad are refused by their place.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes
: "${TRACE_FILES:?the program that makes traces}"
root=$(cd "$(dirname "$0")/../.." && pwd)

# log STEPS SEED [SLOW]: a loss that falls, validated every 50; from step SLOW
# on at three quarters of the speed.
log() {
    awk -v steps="$1" -v seed="$2" -v slow="${3:-1e9}" 'BEGIN {
        srand(seed)
        printf "{\"format\":\"penstock-run\",\"version\":1,\"model\":\"m%d\",", seed
        printf "\"settings\":{\"lr\":%g,\"seed\":5,\"run\":\"%d\"}}\n", seed / 100, seed
        for (i = 1; i <= steps; i++) {
            mean = 2.5 + seed / 4 + 8 / sqrt(i)
            speed = (1300 + 20 * rand()) * (i < slow ? 1 : 0.75)
            printf "{\"step\":%d,\"loss\":%.7g,", i, mean + rand() / 4
            printf "\"grad_norm\":1.5,\"lr\":0.0006,\"tokens\":%d,", 4096 * i
            printf "\"tokens_per_sec\":%.6g,", speed
            printf "\"share_of_peak\":0.7,\"step_ms\":3150,"
            printf "\"memory_bytes\":104000000,\"elapsed_sec\":%.6g", 3.15 * i
            if (i % 50 == 0)
                printf ",\"val_loss\":%.7g", mean + 0.2
            print "}"
        }
    }'
}

costs() { # REST: 2 ms per pass and 0.1 ms per message but for the rest
    printf '{"format":"penstock-costs","version":1,"f":2e-3,"i":2e-3,'
    printf '"w":2e-3,"step":1e-3,"comm":1e-4%s}' "$1"
}

ranks() { # PREDICTED PEAK ...
    printf '{"format":"penstock-ranks","version":1,"ranks":['
    while [ $# -gt 0 ]; do
        printf '{"predicted_bytes":%s,"peak_bytes":%s}' "$1" "$2"
        shift 2
        [ $# = 0 ] || printf ,
    done
    printf ']}\n'
}

# of EXPRESSION: Python over a log, its steps in s.
of() { # FILE EXPRESSION
    python3 -c 'import json, statistics, sys
s = [json.loads(l) for l in open(sys.argv[1])][1:]
print(eval(sys.argv[2]))' "$1" "$2"
}

report() { # CODE RUN...
    local code=$1
    shift
    rm -f "$work/report.html"
    run "$code" report "$@" -o "$work/report.html"
}

make_file 1f1b.txt 1f1b --stages 4 --microbatches 8
costs "" >"$work/same.json"
costs ',"ranks":[{"count":2},{"f":3e-3,"i":3e-3,"w":3e-3},{}]' >"$work/slow.json"
mkdir "$work/wide" "$work/wide/trace" "$work/deep" "$work/bare"
log 600 1 400 >"$work/wide/log.jsonl"
ranks 100000000 102000000 100000000 108200000 100000000 99000000 \
    100000000 99000000 >"$work/wide/ranks.json"
"$TRACE_FILES" "$work/wide/trace" "$work/1f1b.txt" 5 "$work/same.json" \
    "$work/slow.json" || fail "cannot make a trace"
"$TRACE_FILES" "$work/bare" "$work/1f1b.txt" 5 none "$work/same.json" ||
    fail "cannot make a trace"
log 480 2 >"$work/deep/log.jsonl"

# ---- one run: everything, and nothing from elsewhere
report 0 "$work/wide"
out_empty
err_has "wrote $work/report.html"
same sections "$(html '" | ".join(sections)')" "Findings | Curves | \
One step, measured and predicted | Parts of that step | \
Memory of the ranks | Settings"
same title "$(html 't.find(".//h1").text')" "m1 on 4 ranks"
figures() { html "[e.text for e in t.iter('dd') if e.get('class') == '$1']"; }
same figures "$(figures value)" "$(of "$work/wide/log.jsonl" '["600",
    "%.4f" % s[-1]["loss"], "%.4f" % min(x.get("val_loss", 9) for x in s),
    "%.0f" % statistics.median_low([x["tokens_per_sec"] for x in s]),
    "70.0 %", "108.2 MB", "88.8 ms", "38.1 %"]')"
same notes "$(figures also)" "$(of "$work/wide/log.jsonl" '["in step %d" %
    min((x["val_loss"], x["step"]) for x in s if "val_loss" in x)[1],
    "median of 600 steps", "of the processors'"' peak"'",
    "+8.2 % from predicted, rank 1", "predicted 68.6 ms", "predicted 28.6 %"]')"
html_stands_alone
same "advice" "$(html '[e.text for e in
    sections["Findings"].iter("strong")]')" "$(printf "%s%s%s%s" \
    "['Ranks wait 38 % of the step, predicted 29 %; 21 ms of it are lost to rank 2 computing.', " \
    "'Rank 2 computes 33 % longer than the average rank.', " \
    "'The speed fell from $(of "$work/wide/log.jsonl" '"%.0f to %.0f" % tuple(
        statistics.median_low([x["tokens_per_sec"] for x in p]) for p in
        (s[:420], s[420:]))') tokens/s at step 400 and stayed there.', " \
    "'Rank 1 used 8.2 % more memory than predicted.']")"
same "curves" "$(html '[e.get("class") for e in sections["Curves"].iter("path")
    if e.get("d").count("L") > 5]')" "['curve', 'curve dashes', 'curve']"
same "limits" "$(html 'sum(e.get("class") == "limit" for e in
    sections["Memory of the ranks"].iter("line"))')" 4
same "kinds of operations" "$(html '[r[:5] for r in
    rows("Parts of that step") if r[0] in ("forward",
    "optimizer step")]')" "[['forward', '32', '72.000', '64.000', '1.125'], \
['optimizer step', '4', '4.000', '4.000', '1.000']]"
same "settings" "$(html 'rows("Settings")')" \
    "[['lr', '0.01'], ['seed', '5'], ['run', '1']]"
same "drawings share no names" "$(html '[e.get("id") for e in t.iter() if e.get("id")]')" "[]"

# ---- the same for programs, and on the terminal
run 0 report "$work/wide" --json
err_empty
same "figures" "$(json '[d["runs"][0][k] for k in ("model", "ranks", "steps",
    "last_step", "tokens", "peak_bytes")]')" "['m1', 4, 600, 600, 2457600, 108200000]"
same "loss" "$(json 'd["runs"][0]["loss"]')" \
    "$(of "$work/wide/log.jsonl" 's[-1]["loss"]')"
same "steps" "$(json '[round(d["runs"][0][k], 6) for k in ("step_sec",
    "predicted_step_sec", "bubble", "predicted_bubble")]')" \
    "[0.0888, 0.0686, 0.380631, 0.285714]"
same "memory" "$(json 'd["runs"][0]["memory"][1]["peak_bytes"]')" 108200000
same "advice" "$(json 'len(d["runs"][0]["advice"])')" 4
run 0 report "$work/wide" "$work/deep"
err_empty
out_has "wide      4    600"
out_has "deep      -    480"
out_has "Rank 1 used 8.2 % more memory"
out_has "penstock train --run DIR or --trace DIR"

# ---- several, of each kind
report 0 "$work/wide/" "$work/deep/log.jsonl" "$work/bare"
same title "$(html 't.find(".//h1").text')" "Comparison of 3 runs"
same runs "$(html '[r[:3] for r in rows("Comparison")]')" \
    "[['wide', '4', '600'], ['log.jsonl', '-', '480'], ['bare', '4', '-']]"
same losses "$(html '[r[3] for r in rows("Comparison")]')" \
    "['$(of "$work/wide/log.jsonl" '"%.4f" % s[-1]["loss"]')', \
'$(of "$work/deep/log.jsonl" '"%.4f" % s[-1]["loss"]')', '-']"
same "settings that differ" "$(html 'rows("Settings that differ")')" \
    "[['lr', '0.01', '0.02', '']]"
same legend "$(html '[e.text for e in sections["Curves"].iter("text")
    if "wide" in e.text or "log.jsonl" in e.text]')" \
    "['wide', 'log.jsonl', 'wide, validation', 'log.jsonl, validation', 'wide', 'log.jsonl']"
same sections "$(html '[s for s in sections if s[:5] in ("wide:", "bare:", "log.j")]')" \
    "['wide: one step, measured and predicted', \
'wide: parts of that step', 'wide: memory of the ranks', \
'bare: one step', 'bare: parts of that step']"
same missing "$(html '[r[0] + ": " + r[1] for r in rows("Missing parts")]')" \
    "['log.jsonl: the timeline, the parts of a step, the bubble', \
'log.jsonl: memory of each rank and its prediction', \
'bare: the curves, loss and speed, the settings', \
'bare: the predicted step', \
'bare: memory of each rank and its prediction']"
same "drawings share no names" "$(html '[e.get("id") for e in t.iter() if e.get("id")]')" "[]"
html_stands_alone
report 0 "$work/wide/log.jsonl" "$work/deep/log.jsonl"
same "names that tell them apart" "$(html '[r[0] for r in rows("Comparison")]')" \
    "['wide/log.jsonl', 'deep/log.jsonl']"

# ---- long runs and many ranks make no long page
about "a run of 50000 steps on 200 ranks"
mkdir "$work/long"
log 50000 3 >"$work/long/log.jsonl"
# shellcheck disable=SC2046
ranks $(for i in $(seq 200); do echo 1000000 $((900000 + 1000 * i)); done) \
    >"$work/long/ranks.json"
report 0 "$work/long"
[ "$(wc -c <"$work/report.html")" -lt 300000 ] ||
    fail "$(wc -c <"$work/report.html") bytes"
same "thinned" "$(html '"points are not drawn" in words')" True
same "ranks" "$(html '"32 of 200 ranks are drawn, those that exceed their prediction most" in words')" True
same "the worst is drawn" "$(html '"rank 199" in words')" True

# ---- a training that was killed while it wrote
mkdir "$work/killed"
head -c -30 "$work/wide/log.jsonl" >"$work/killed/log.jsonl"
cp -r "$work/wide/trace" "$work/killed/"
truncate -s 100 "$work/killed/trace/rank-00002.trace"
report 0 "$work/killed"
err_has "penstock: warning: skipped $work/killed/trace: "
same "steps" "$(figures value | cut -c 1-8)" "['599', "
same "told" "$(html '"the training was killed" in words')" True
same "missing" "$(html '[r[0] for r in rows("Missing parts")]')" \
    "['the timeline, the parts of a step, the bubble', 'memory of each rank and its prediction']"
head -1 "$work/wide/log.jsonl" >"$work/killed/log.jsonl"
rm -r "$work/killed/trace"
report 0 "$work/killed"
same "no step" "$(html '"no step is done yet" in words')" True

# ---- names are those of users
strange="$work/a <b> & \"c\""
cp -r "$work/deep" "$strange"
sed -i '1s/"m2"/"<i>\\u0001 \&"/; 1s/"seed":5/"<s>":"<t>"/' "$strange/log.jsonl"
report 0 "$strange" "$work/deep"
same "strange name" "$(html 'rows("Comparison")[0][0]')" "a <b> & \"c\""
same "strange setting" "$(html '["<s>", "<t>", ""] in rows("Settings that differ")')" True

# ---- what is bad is refused, and nothing is written
refused() { # RUN WORDS...
    report 1 "$1"
    err_has "penstock: error: "
    shift
    for words in "$@"; do err_has "$words"; done
    [ ! -e "$work/report.html" ] || fail "a refused report was written"
}
refused "$work/none" "cannot open $work/none"
refused /dev/zero "/dev/zero is not a regular file but a character device"
mkfifo "$work/pipe"
refused "$work/pipe" "$work/pipe is not a regular file but a named pipe"
mkdir "$work/empty" "$work/bad"
refused "$work/empty" "$work/empty is not a run" "penstock train --run"
sed '5s/"loss":[0-9.]*/"loss":"high"/' "$work/deep/log.jsonl" >"$work/bad/log.jsonl"
refused "$work/bad" "$work/bad/log.jsonl: line 5, column 11: loss must be a number"
cp "$work/deep/log.jsonl" "$work/bad/"
ranks 100 0 >"$work/bad/ranks.json"
refused "$work/bad" "$work/bad/ranks.json: ranks[0].peak_bytes"
cp "$work/wide/ranks.json" "$work/bad/"
truncate -s -1 "$work/bad/ranks.json"
report 0 "$work/bad"
truncate -s -1 "$work/bad/ranks.json"
refused "$work/bad" "$work/bad/ranks.json: line 1"
rm "$work/bare/rank-00002.trace"
refused "$work/bare" "rank-00002.trace"
run 1 report "$work/wide" -o "$work/nowhere/report.html"
err_has "nowhere/report.html"
run 2 report
err_has "expected RUN..."
# shellcheck disable=SC2046
report 0 $(yes "$work/wide" | head -12)
same "twelve of them" "$(html 'len(rows("Comparison")),
    len(list(t.iter("section")))')" "(12, 41)"
# shellcheck disable=SC2046
run 2 report $(yes "$work/wide" | head -13)
err_has "13 runs are too many for one report; give at most 12"

# ---- advice names options that exist
about "options in advice"
if [ -x "$(dirname "$PENSTOCK")/penstock-train" ] &&
    [ -x "$(dirname "$PENSTOCK")/penstock-simulate" ]; then
    list_commands
    cut -f 2 "$work/options" | sort -u >"$work/known"
    cat "$root"/src/view/advice*.c "$root/src/cli/report/tables.c" |
        sed 's/" *$//; s/^ *"//' | tr -d '\n' |
        grep -oE -- '--[a-z][a-z0-9-]*' | sort -u >"$work/named"
    [ "$(wc -l <"$work/named")" -ge 20 ] || fail "hardly any option is named"
    same "unknown ones" "$(comm -23 "$work/named" "$work/known")" ""
fi

# ---- a run that was restarted
mkdir "$work/supervised"
log 300 1 >"$work/supervised/log.jsonl"
events="$work/supervised/supervise.jsonl"
cp "$root/tests/fuzz/corpus/run_events/faults" "$events"
run 0 report --json "$work/supervised"
same "goodput" "$(json 'round(d["runs"][0]["goodput"], 4)')" 1.0 # steps of 3.15 s in 38.4 s
sed -i 's/3150/64/' "$work/supervised/log.jsonl"
run 0 report --json "$work/supervised"
same "goodput" "$(json 'round(d["runs"][0]["goodput"], 4), d["runs"][0]["restarts"], d["runs"][0]["lost_sec"]')" "(0.5, 4, 7.0)"
same "faults" "$(json '[(f["rank"], f["step"], f["lost_sec"], f["redone_steps"]) for f in d["runs"][0]["faults"]]')" \
    "[(1, 50, 1.9, 1), (1, 96, 3.1, 2), (None, 95, 0.0, 0), (1, 220, 2.0, 1)]"
run 0 report "$work/supervised"
out_has "goodput 50.0 %, 4 faults, 4 restarts, 7 s lost of 38.4 s"
out_has "3 of 4 faults are of rank 1."
report 0 "$work/supervised"
html_stands_alone
same "faults" "$(html '[r[2:5] for r in rows("Faults")][0]')" "['rank-died, signal 9', '1', '50']"
same "marks on the loss" "$(html 'sum(1 for e in t.iter("circle") if "--l3" in e.get("style", ""))')" 4 # one of them is the legend's
report 0 "$work/supervised" "$work/wide"
same "faults of one of two" "$(html 'len(rows("Faults"))')" 4
echo '{' >>"$events"
run 0 report --json "$work/supervised"
err_has "skipped $events: line 14, column "
same "no events" "$(json 'd["runs"][0]["faults"], d["runs"][0]["goodput"]')" "(None, None)"

# ---- what a training writes
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    finish
    exit
fi
export OMP_WAIT_POLICY=passive
mkdir "$work/tiny"
cat >"$work/tiny/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 16,
 "n_layer": 2, "n_head": 2, "activation_function": "gelu_new",
 "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END
for i in $(seq 400); do
    echo $(((i * 7) % 32)) $(((i * 7 + 3) % 32)) $(((i * 7 + 6) % 32)) \
        $(((i * 7 + 9) % 32)) $(((i * 7 + 12) % 32))
done >"$work/ids.txt"
training=(--model "$work/tiny" --token-ids "$work/ids.txt" --engine reference
    --seq-length 4 --lr 1e-2 --lr-decay-style constant --micro-batch-size 2
    --save "$work/saved" --run "$work/run")
mkdir "$work/run"
echo old >"$work/run/ranks.json"
run 0 train "${training[@]}" --train-iters 10
peak=$(sed -n 's/.*memory was \([0-9.]*\) MB at its peak.*/\1/p' "$work/err")
run 0 train "${training[@]}" --train-iters 25 --load "$work/saved"
same "one line for each step" "$(of "$work/run/log.jsonl" \
    '[x["step"] for x in s] == list(range(1, 26))')" True
[ -n "$peak" ] || fail "the peak was not told"
peak=$(sed -n 's/.*memory was \([0-9.]*\) MB at its peak.*/\1/p' "$work/err")
report 0 "$work/run"
same "peak" "$(figures value | grep -oE "[0-9.]+ MB")" "$peak MB"
same "sections" "$(html '"One step" in sections and
    "Memory of the ranks" in sections')" True
same "folder of the run" "$(html '["run", "'"$work/run"'"] in rows("Settings")')" True

# Killed before its end: what an older run had written is gone.
cp -r "$work/run" "$work/again"
"$PENSTOCK" train "${training[@]}" --train-iters 100000000 \
    --run "$work/again" --save "$work/saved-again" >"$work/out" 2>"$work/err" &
pid=$!
until grep -q '"step":30,' "$work/again/log.jsonl"; do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
done
kill -KILL "$pid"
wait "$pid" 2>/dev/null
[ ! -e "$work/again/ranks.json" ] || fail "ranks.json is of another run"
report 0 "$work/again"
same "missing" "$(html '[r[0] for r in rows("Missing parts")]')" \
    "['the validation loss', 'the predicted step', 'memory of each rank and its prediction']"

run 2 train "${training[@]}" --train-iters 5 --log "$work/other.jsonl"
err_has "--run and --log exclude each other"
run 2 train "${training[@]}" --train-iters 5 --trace "$work/other"
err_has "--run and --trace exclude each other"
run 1 train "${training[@]}" --train-iters 5 --run "$work/no/where"
err_has "cannot make $work/no/where"
finish
