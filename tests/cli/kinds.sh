#!/usr/bin/env bash
# view, plot and report take folders of runs, logs and plans as they are, and
# say of anything else what it is and which command takes it.
. "$(dirname "$0")/support.bash"
: "${TRACE_FILES:?the maker of traces}"
saved=$(realpath "$(dirname "$0")/../old/0.1.0/checkpoint")
cd "$work" || exit 1
run 0 plan gpt2 16xh100 --global-batch-size 64 -o plan.json
printf '%s\n' '{"format":"penstock-run","version":2,"model":"m","settings":{}}' \
    '{"step":1,"loss":3.5,"grad_norm":1,"lr":0.1,"tokens":10,"tokens_per_sec":5,"share_of_peak":0.1,"step_ms":2,"memory_bytes":5,"elapsed_sec":1}' \
    '{"step":2,"loss":2.5,"grad_norm":1,"lr":0.1,"tokens":20,"tokens_per_sec":5,"share_of_peak":0.1,"step_ms":2,"memory_bytes":5,"elapsed_sec":2}' \
    >log.jsonl
run 0 schedule make 1f1b --stages 4 --microbatches 8 -o 1f1b.pen
printf '{"format":"penstock-costs","version":1,"f":2e-3,"i":2e-3,"w":2e-3}' >costs.json
mkdir trace run logged
"$TRACE_FILES" trace 1f1b.pen 2 costs.json costs.json || fail "cannot make a trace"
cp log.jsonl run
cp -r trace run/trace
cp log.jsonl logged

# ---- what they take
run 0 view trace
cp out traced
run 0 view run
same "the trace of a run" "$(cat out)" "$(cat traced)"
run 0 plot run
out_has "run: step 2"
run 0 plot log.jsonl logged
out_has "logged: step 2"
run 0 report run logged log.jsonl trace
out_has "logged"
run 0 view plan.json
out_has "memory in GiB"
out_has "B= backward"
run 0 view plan.json -o plan.svg
same svg "$(head -c 5 plan.svg)" "<?xml"
run 0 view plan.json --json
same "pipelines" "$(json 'd["plan"]["degrees"]["dp"] if "plan" in d else d["degrees"]["dp"]')" 16

# ---- what they do not take
wrong() { # COMMAND PATH WORDS
    run 1 "$1" "$2"
    err_has "$3"
    same "lines" "$(wc -l <err)" 1
}
for command in plot report; do
    wrong $command plan.json "plan.json is a plan; \`penstock view plan.json\` draws it"
    wrong $command 1f1b.pen "1f1b.pen is a schedule; \`penstock schedule draw 1f1b.pen\` draws it"
done
wrong plot trace "trace is a trace; \`penstock view trace\` shows it"
wrong view log.jsonl "log.jsonl is a run log; \`penstock plot log.jsonl\` draws it"
wrong view logged "logged is a run folder; \`penstock report logged\` shows it. It has no trace"
for command in view plot report; do
    wrong $command "$saved" "is a folder of checkpoints; \`penstock checkpoint ls $saved\` lists them"
    wrong $command "$saved/step-00000004" "step-00000004 is a checkpoint; \`penstock generate --model"
    wrong $command "$saved/step-00000004/config.json" "config.json is a model; \`penstock train --model"
done
run 1 view plan.json --step 3
err_has "--step is for traces, and plan.json is a plan; leave it out"
finish
