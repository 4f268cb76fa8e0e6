#!/usr/bin/env bash
# plot draws the logs of trainings to the file that the name asks for, or on
# the terminal; a log that is bad is refused by its place.
. "$(dirname "$0")/support.bash"

# log STEPS SEED [MODEL]: a loss that falls with noise, validated every 50.
log() {
    awk -v steps="$1" -v seed="$2" -v model="${3:-preset:gpt2}" 'BEGIN {
        srand(seed)
        printf "{\"format\":\"penstock-run\",\"version\":1,"
        printf "\"model\":\"%s\",\"settings\":{}}\n", model
        for (i = 1; i <= steps; i++) {
            mean = 2.5 + seed / 4 + 8 / sqrt(i)
            printf "{\"step\":%d,\"loss\":%.7g,", i, mean + rand() / 4
            printf "\"grad_norm\":1.5,\"lr\":0.0006,\"tokens\":%d,", 4096 * i
            printf "\"tokens_per_sec\":%.6g,", 1300 + 20 * rand()
            printf "\"share_of_peak\":0.7,\"step_ms\":3150,"
            printf "\"memory_bytes\":2147483648,\"elapsed_sec\":%.6g", 3.15 * i
            if (i % 50 == 0)
                printf ",\"val_loss\":%.7g", mean + 0.2
            print "}"
        }
    }'
}

log 600 1 >"$work/adamw.jsonl"
log 480 2 >"$work/sgd.jsonl"
run 0 plot "$work/adamw.jsonl"
err_empty
out_has "preset:gpt2"
out_has "loss"
out_has "tokens/s"
out_has "adamw.jsonl: step 600, loss 3."
out_has "validated 3.277, 13"
out_has "600  step"
out_lacks "$(printf '\033')"
run 0 plot "$work/adamw.jsonl" "$work/sgd.jsonl" --smooth 20
out_has "loss, mean of 20 steps"
out_has " A adamw.jsonl: step 600"
out_has " B sgd.jsonl: step 480"
out_has "AAA"
run 0 plot "$work/adamw.jsonl" --x tokens
out_has "2.0M"
run 0 plot "$work/adamw.jsonl" --x time --title "my run"
out_has "my run"
out_has "time (min)"

for form in svg png pdf; do
    run 0 plot "$work/adamw.jsonl" "$work/sgd.jsonl" --smooth 20 --log-y \
        -o "$work/curves.$form"
    out_empty
    err_has "wrote $work/curves.$form"
done
same svg "$(head -c 5 "$work/curves.svg")" "<?xml"
same pdf "$(head -c 5 "$work/curves.pdf")" "%PDF-"
same png "$(head -c 4 "$work/curves.png" | tail -c 3)" "PNG"

# Files of one name are told apart by their folders; models may differ.
mkdir "$work/a" "$work/b"
log 3 1 one >"$work/a/log.jsonl"
log 1 2 other >"$work/b/log.jsonl"
run 0 plot "$work/a/log.jsonl" "$work/b/log.jsonl"
out_has "2 trainings"
out_has "A $work/a/log.jsonl: step 3"
out_has "B $work/b/log.jsonl: step 1"

# A run that goes on, or was killed while it wrote.
head -c -30 "$work/sgd.jsonl" >"$work/cut.jsonl"
run 0 plot "$work/cut.jsonl"
out_has "cut.jsonl: step 479"
"$PENSTOCK" plot - <"$work/sgd.jsonl" >"$work/out" 2>"$work/err"
out_has "step 480"

run 1 plot /dev/zero
err_has "/dev/zero is not a regular file but a character device; name a file"
mkfifo "$work/pipe"
run 1 plot "$work/pipe" # must not wait for a writer
err_has "$work/pipe is not a regular file but a named pipe; name a file"
truncate -s 3G "$work/sparse.jsonl"
run 1 plot "$work/sparse.jsonl"
err_has "$work/sparse.jsonl is larger than 2147483648 bytes"
run 1 plot "$work/none.jsonl"
err_has "cannot open $work/none.jsonl"
log 0 1 >"$work/empty.jsonl"
run 1 plot "$work/empty.jsonl"
err_has "no run has a step yet"
run 0 plot "$work/empty.jsonl" "$work/sgd.jsonl"
out_has "empty.jsonl: no step yet"
sed '5s/"loss":[0-9.]*/"loss":"high"/' "$work/sgd.jsonl" >"$work/bad.jsonl"
run 1 plot "$work/sgd.jsonl" "$work/bad.jsonl" -o "$work/bad.svg"
err_has "$work/bad.jsonl: line 5, column 11: loss must be a number or null"
[ ! -e "$work/bad.svg" ] || fail "a refused plot was written"
run 1 plot "$work/sgd.jsonl" -o "$work/curves.doc"
err_has "its name should end in .svg, .png or .pdf"

run 2 plot
err_has "expected RUN..."
run 2 plot "$work/sgd.jsonl" --x epoch
err_has "--x must be step, tokens or time"
run 2 plot "$work/sgd.jsonl" --smooth 0
err_has "--smooth must be a whole number from 1"
run 0 plot --help
out_has "Usage: penstock plot"
out_has "--log-y"
run 0 help plot
out_has "--smooth=N"
finish
