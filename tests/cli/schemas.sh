#!/usr/bin/env bash
# 200 random outputs of all commands with --json, and files, keep the schemas
# that `penstock schema` prints, read strictly.
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
for seed in $(seeds_of schemas); do
    about "schemas.py, seed $seed"
    mkdir -p "$work/$seed"
    in_time 300 python3 "$here/schemas.py" "$PENSTOCK" "$work/$seed" 200 "$seed" ||
        fail "see above"
done
finish
