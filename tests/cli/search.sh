#!/usr/bin/env bash
# search finds a schedule within the limit that is no worse than a published
# one, tells what it found, and says so when nothing fits.
. "$(dirname "$0")/support.bash"

search() { # CODE ARGS...
    local code=$1
    shift
    run "$code" schedule search --stages 4 --microbatches 8 "$@"
}

search 0 --placement linear --costs f=1,i=1,w=1 --memory-limit 5 -o "$work/f"
out_empty
err_has "span 26 s"
err_has "lower bound for this placement"
err_has "best published: zb-h1, span 27 s"
err_has "wrote $work/f: "
run 0 schedule check --memory-limit 5 "$work/f"
run 0 schedule time --json "$work/f"
same span "$(json 'd["span"]')" "26.0"
search 0 --placement linear --costs f=1,i=1,w=1 --memory-limit 5
cmp -s "$work/out" "$work/f" || fail "the same line gives another schedule"
for placement in loop v any; do
    search 0 --placement $placement --costs f=1,i=1,w=1,comm=0.1 \
        --memory-limit 4 --memory f=1,i=-0.5,w=-0.5 --seconds 2 -o "$work/f"
    run 0 schedule check --memory-limit 4 --memory f=1,i=-0.5,w=-0.5 "$work/f"
done

search 1 --placement linear --costs f=1,i=1,w=1 --memory-limit 0.5
out_empty
err_has "0.5"
search 2 --placement round --costs f=1,i=1,w=1 --memory-limit 5
err_has "--placement round: expected linear, loop, v or any"
# What is not given is chosen and said, and gives what the same words give.
search 0 --placement any --costs f=1,i=1,w=1 --memory-limit 4 -o "$work/given"
search 0 -o "$work/chosen"
err_has "--memory-limit not given: 4, the memory of 1f1b"
same "schedule" "$(cat "$work/chosen")" "$(cat "$work/given")"
run 2 schedule search
err_has "--stages P is missing"
err_has "--microbatches M is missing"
finish
