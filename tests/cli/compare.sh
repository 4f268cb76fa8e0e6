#!/usr/bin/env bash
# compare orders what can be made and says of the rest why it cannot.
. "$(dirname "$0")/support.bash"

run 0 schedule compare --stages 4 --microbatches 8
err_empty
out_has "4 stages, 8 micro-batches, costs f=1,i=1,w=1,comm=0"
out_has "1f1b"
run 0 schedule compare --stages 4 --microbatches 8 --json
err_empty
same "best first" "$(json '[x["span"] for x in d["schedules"]] ==
    sorted(x["span"] for x in d["schedules"])')" True
same "only synchronous ones" \
    "$(json 'set(x["synchronous"] for x in d["schedules"])')" "{True}"
same "only asynchronous ones apart" \
    "$(json 'any(x["synchronous"] for x in d["asynchronous"])')" False
same "as many batches each" \
    "$(json 'set(x["batches"] for x in d["asynchronous"])')" "{8}"
same "1f1b" "$(json '[(x["makespan"], x["span"], x["peak_activations"],
    x["versions"], x["copies"], x["chunks"], len(x["ranks"]))
    for x in d["schedules"] if x["name"] == "1f1b"]')" \
    "[(33.0, 33.0, 4.0, 1, 1, 1, 4)]"
same "two copies" "$(json '[x["copies"] for x in d["schedules"]
    if x["name"] == "chimera"]')" "[2]"
all=$(json 'len(d["schedules"]) + len(d["asynchronous"]) + len(d["refused"])')
run 0 schedule list --json
same "all but local, which is for other models" "$((all + 1))" \
    "$(json 'len(d["schedules"])')"

run 0 schedule compare --stages 4 --microbatches 8 gpipe 1f1b 1f1b --json
same "the named ones, each once" "$(json '[x["name"] for x in d["schedules"]]')" \
    "['1f1b', 'gpipe']"
run 0 schedule compare --stages 4 --microbatches 8 --memory-limit 5 gpipe 1f1b
out_has "holds up to 8 A, the limit is 5 A"
out_has "memory limit 5 A"
run 0 schedule compare --stages 4 --microbatches 6 interleaved 1f1b
out_has "p to divide m"
run 0 schedule compare --stages 4 --microbatches 8 --chunks 4 --json \
    interleaved 1f1b
same "chunks where they mean something" \
    "$(json '[(x["name"], x["chunks"]) for x in d["schedules"]]')" \
    "[('interleaved', 4), ('1f1b', 1)]"
run 1 schedule compare --stages 4 --microbatches 6 interleaved
out_has "interleaved"
run 2 schedule compare --stages 4 --microbatches 8 1f1c
err_has "did you mean 1f1b"
run 2 schedule compare --stages 4
err_has "--microbatches M is missing"
finish
