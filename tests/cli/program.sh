#!/usr/bin/env bash
# penstock hands the commands that compute to penstock-train, and the one that
# simulates to penstock-simulate: the words, the exit code and the help arrive;
# without them, the message says what to install.
. "$(dirname "$0")/support.bash"
beside=$(dirname "$PENSTOCK")
commands="train eval generate profile doctor"

# A sibling that tells its words and exits with 7.
sibling() { # FOLDER
    local name
    mkdir -p "$1"
    for name in penstock-train penstock-simulate; do
        printf '#!/bin/sh\nprintf "<%%s>" "$@"\nexit 7\n' >"$1/$name"
        chmod +x "$1/$name"
    done
}
mkdir "$work/bin"
cp "$PENSTOCK" "$work/bin/penstock"
PENSTOCK=$work/bin/penstock

for command in $commands; do
    run 1 "$command" --some thing
    out_empty
    err_has "penstock-train is not installed"
    err_has "libdnnl-dev"
    run 1 help "$command"
    err_has "penstock-train is not installed"
done
for words in simulate "help simulate"; do
    run 1 $words
    out_empty
    err_has "penstock-simulate is not installed"
    err_has "apt install libsimgrid-dev"
done
run 1 cluster detect
err_has "penstock-train is not installed"
run 0 cluster check preset:h200
run 2 trian
err_has "did you mean train"

sibling "$work/libexec/penstock"
run 7 train --lr 6e-4 "two words" ""
same "words" "$(cat "$work/out")" "<train><--lr><6e-4><two words><>"
err_empty
run 7 help train
same "words of help" "$(cat "$work/out")" "<help><train>"
run 7 cluster detect -o c.yaml
same "words" "$(cat "$work/out")" "<cluster><detect><-o><c.yaml>"
run 7 help cluster detect
same "words of help" "$(cat "$work/out")" "<help><cluster><detect>"
run 7 simulate --plan "a plan.json"
same "words" "$(cat "$work/out")" "<simulate><--plan><a plan.json>"
run 7 help simulate
same "words of help" "$(cat "$work/out")" "<help><simulate>"
ln -s "$PENSTOCK" "$work/link"
"$work/link" doctor >"$work/out"
same "through a link" "$(cat "$work/out")" "<doctor>"

# How the allocator of a training is set, unless the user says it himself.
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$GLIBC_TUNABLES"\n' \
    >"$work/libexec/penstock/penstock-train"
run 0 train
same "allocator" "$(cat "$work/out")" "glibc.malloc.tcache_count=0"
GLIBC_TUNABLES=glibc.malloc.arena_max=1 run 0 train
same "the user's" "$(cat "$work/out")" "glibc.malloc.arena_max=1"

sibling "$work/bin"
printf '#!/bin/sh\necho wrong\n' >"$work/libexec/penstock/penstock-train"
run 7 eval
same "beside comes first" "$(cat "$work/out")" "<eval>"
chmod -x "$work/bin/penstock-train"
run 1 eval
err_has "cannot run $work/bin/penstock-train: Permission denied"

# The program itself, where it was built.
PENSTOCK=$beside/penstock
for name in penstock-train penstock-simulate; do
    [ -x "$beside/$name" ] || continue
    run 0 --help
    mv "$work/out" "$work/all"
    "$beside/$name" --help >"$work/out"
    about "$name --help"
    out_has "Usage: $name"
    while IFS= read -r text; do
        grep -qxF -- "$text" "$work/all" || fail "penstock --help lacks '$text'"
    done < <(grep '^  [a-z]' "$work/out")
done
if [ -x "$beside/penstock-train" ]; then
    run 0 help doctor
    out_has "Usage: penstock doctor"
    run 2 doctor --jsn
    err_has "--jsn"
fi
finish
