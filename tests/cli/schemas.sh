#!/usr/bin/env bash
# 60 random outputs of all commands with --json, and files (200 with PEN_LONG=1),
# keep the schemas that `penstock schema` prints, read strictly.
. "$(dirname "$0")/support.bash"
here=$(cd "$(dirname "$0")" && pwd)

run 0 schema
out_has "plan-file"
run 0 schema plan
same "complete" "$(json '(d["$schema"], "prediction" in d["$defs"])')" \
    "('https://json-schema.org/draft/2020-12/schema', True)"
run 2 schema pln
err_has "there is no schema 'pln'; did you mean plan"
run 2 schema defs
count=60
[ -z "${PEN_LONG:-}" ] || count=200
for seed in $(seeds_of schemas); do
    about "schemas.py, seed $seed"
    mkdir -p "$work/$seed"
    in_time 300 python3 "$here/schemas.py" "$PENSTOCK" "$work/$seed" "$count" "$seed" ||
        fail "see above"
done
finish
