#!/usr/bin/env bash
# Help and version go to stdout and exit with 0; a wrong line exits with 2 and
# says what would be right.
. "$(dirname "$0")/support.bash"

run 0 --version
same version "$(cat "$work/out")" "penstock $PEN_VERSION"
for words in --help help; do
    run 0 $words
    out_has "Usage: penstock"
    out_has "schedule"
    err_empty
done
run 0 help schedule
for command in list make search check time draw compare convert; do
    out_has "Usage: penstock schedule $command"
done
run 0 help schedule make
out_has "--stages=P"
run 0 schedule make --help
out_has "--stages=P"
err_empty
run 0 schedule --help
out_has "compare"

# Commands that compute: the same option has the same words in each.
words_of() { # OPTION COMMAND
    "$PENSTOCK" help $2 | awk -v option="--$1" '
        /^ +(-., )?--/ { is_on = $1 ~ "^" option "(=|$)"; $1 = "" }
        /^$/ { is_on = 0 }
        is_on { for (i = 1; i <= NF; i++) printf "%s ", $i }'
}
same_words() { # OPTION COMMAND COMMAND
    local words
    words=$(words_of "$1" "$2")
    about "--$1 of $2 and $3"
    [ -n "$words" ] || fail "there are no words"
    same words "$(words_of "$1" "$3")" "$words"
}
if [ -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    for command in train eval generate profile doctor; do
        run 0 help "$command"
        out_has "Usage: penstock $command [OPTION...]"
        run 0 "$command" --help
        out_has "Usage: penstock $command [OPTION...]"
        err_empty
    done
    for option in token-ids seq-length micro-batch-size threads; do
        same_words $option train eval
    done
    for option in seq-length engine threads; do
        same_words $option eval profile
    done
    same_words threads train generate
    same_words threads train "cluster detect"
    same_words seed train generate
    same_words model eval generate
    same_words json eval doctor
fi

run 2
out_empty
err_has "Usage: penstock"
run 2 schedul
err_has "did you mean schedule"
run 2 help schedul
err_has "did you mean schedule"
run 2 schedule
err_has "Usage: penstock schedule"
run 2 schedule chek
err_has "did you mean schedule check"
run 2 schedule gnu
err_has "there is no command 'schedule gnu'"
err_lacks "did you mean"
run 2 help schedule tim
err_has "did you mean schedule time"
run 2 schedule list extra
err_has "unexpected argument 'extra'"
run 2 schedule list --jsn
err_has "--jsn"
run 2 schedule time
err_has "expected FILE"
finish
