#!/usr/bin/env bash
# docs/papers.md has 63 rows, and every file, test, command, option, schedule
# and method that it names exists.
. "$(dirname "$0")/support.bash"

root=$(cd "$(dirname "$0")/../.." && pwd)
page=$root/docs/papers.md

has_test() { # FOLDER/NAME
    local folder=${1%/*} name=${1#*/}
    compgen -G "$root/tests/$folder/$name.*" >/dev/null ||
        [ -e "$root/tests/$folder/run_$name" ]
}

for list in schedule sync; do
    "$PENSTOCK" "$list" list >"$work/$list"
done

is_there() { # WORD
    case $1 in
    "--schedule "* | "--sync "*)
        local list=${1%% *}
        grep -q -- "^${1#* } " "$work/${list#--}" ;;
    --*) grep -qE -- "(^|[^a-z-])$1([^a-z-]|$)" "$root/docs/commands.md" ;;
    "penstock reproduce "*)
        grep -q -- "^    penstock reproduce \[OPTION...\] ${1##* }$" "$root/docs/commands.md" ;;
    "penstock "*) grep -qx -- "## ${1#* }" "$root/docs/commands.md" ;;
    src/* | docs/* | bench/*) [ -e "$root/$1" ] ;;
    unit/* | mpi/* | property/* | optimum/* | cli/*) has_test "$1" ;;
    *) [ "$1" = plan ] ;;
    esac
}

for id in T{1..3} {P,W,M}{1..20}; do
    same "rows of $id" "$(grep -c "^| $id |" "$page")" 1
done
same "rows with a state" \
    "$(grep -cE '^\| [TPWM][0-9]+ .*\| (full|part|absent|out) \|$' "$page")" 63

checked=0
while IFS= read -r word; do
    checked=$((checked + 1))
    is_there "$word" || fail "docs/papers.md names '$word', which is not there"
done < <(grep -E '^\| [TPWM][0-9]+ ' "$page" | grep -oE '`[^`]+`' | tr -d '`' | sort -u)
[ "$checked" -gt 60 ] || fail "only $checked names were checked"

while IFS= read -r link; do
    [ -e "$root/docs/$link" ] || fail "docs/papers.md links to $link"
done < <(grep -oE '\]\([^)#]+' "$page" | cut -c3- | sort -u)

# The check refuses what is not there.
for word in src/planner/oracle.c --no-such-option "--sync telepathy" \
    unit/telepathy "penstock levitate" "penstock reproduce levitation"; do
    ! is_there "$word" 2>"$work/err" || fail "the check lets $word pass"
done
finish
