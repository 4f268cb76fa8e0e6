# Runs steps beside each other: each is a shell function that starts when the ones
# it waits for have passed. Two that keep both of two cores busy run at a time, or one
# and two that are light, with a process that computes or several that wait for each
# other, or four light ones: some of them always wait. The output of a step is printed
# when it ends; a step that fails stops those that wait for it, and no other: one run
# shows all that is wrong. A table of seconds comes last.
#
#   add NAME "WORDS" [AFTER...]    a function NAME, and what it shows
#   light NAME "WORDS" [AFTER...]  the same for one that leaves a core free
#   keep [NAME...]                 leaves out all others, if there are names; what these wait for is taken as done
#   run_steps                      runs all that were added, in that order where there is a choice; fails if one did
#
# Needs `logs`, a folder.

begin=$SECONDS
order=()
failed=()
most=4 # of all weights together that run at a time
declare -A words after state process weight
trap 'stop_steps' EXIT

add() { # NAME WORDS [AFTER...]
    order+=("$1")
    words[$1]=$2
    after[$1]=${*:3}
    state[$1]=waits
    weight[$1]=2
}

light() { # NAME WORDS [AFTER...]
    add "$@"
    weight[$1]=1
}

keep() { # [NAME...]
    local name kept=()
    [ $# -gt 0 ] || return 0
    for name; do
        [ -n "${words[$name]:-}" ] || { echo "there is no step '$name'; there are: ${order[*]}" >&2; exit 2; }
    done
    for name in "${order[@]}"; do
        if [[ " $* " = *" $name "* ]]; then kept+=("$name"); else state[$name]=passed; fi
    done
    order=("${kept[@]}")
}

stop_steps() {
    local name
    for name in "${order[@]}"; do
        [ "${state[$name]}" != runs ] || kill -- "-${process[$name]}" 2>/dev/null || true
    done
}

is_ready() { # NAME
    local other
    for other in ${after[$1]}; do
        [ "${state[$other]:?}" = passed ] || return 1
    done
}

# A step that waits for one that did not pass will never start.
is_lost() { # NAME
    local other
    for other in ${after[$1]}; do
        case ${state[$other]} in failed | lost) return 0 ;; esac
    done
    return 1
}

# In a session of its own, so that all it started can be ended.
start() { # NAME
    state[$1]=runs
    echo $((SECONDS - begin)) >"$logs/$1.start"
    set -m
    (
        TIMEFORMAT='%R %U %S'
        time { (set -euo pipefail; "$1") >"$logs/$1.log" 2>&1; }
    ) 2>"$logs/$1.time" &
    process[$1]=$!
    set +m
}

# Waits for the end of one, and prints what it said.
finish_one() {
    local ended code=0 name
    wait -n -p ended || code=$?
    for name in "${order[@]}"; do
        [ "${process[$name]:-}" = "$ended" ] || continue
        state[$name]=$([ $code = 0 ] && echo passed || echo failed)
        printf '\n=== %s: %s (after %d s)\n' "$name" "${words[$name]}" $((SECONDS - begin))
        cat "$logs/$name.log"
        [ $code = 0 ] || { echo "FAILED: $name (exit code $code)"; failed+=("$name"); }
    done
}

print_table() {
    local name real user system
    printf '\n%-14s %7s %8s %6s  %s\n' step seconds 'of cores' start what
    for name in "${order[@]}"; do
        [ -s "$logs/$name.time" ] || continue
        read -r real user system < <(tail -n1 "$logs/$name.time")
        printf '%-14s %7.0f %8.0f %6d  %s\n' "$name" "$real" "$(awk -v a="$user" -v b="$system" 'BEGIN { print a + b }')" \
            "$(cat "$logs/$name.start")" "${words[$name]}"
    done
    printf '%-14s %7d\n' all $((SECONDS - begin))
}

run_steps() {
    local name running waiting
    while :; do
        running=0 waiting=0
        for name in "${order[@]}"; do
            if [ "${state[$name]}" = waits ] && is_lost "$name"; then
                state[$name]=lost
                failed+=("$name (not started)")
            fi
            case ${state[$name]} in
            runs) running=$((running + ${weight[$name]})) ;;
            waits) waiting=$((waiting + 1)) ;;
            esac
        done
        [ $((running + waiting)) -gt 0 ] || break
        for name in "${order[@]}"; do
            if [ "${state[$name]}" = waits ] && [ $((running + ${weight[$name]})) -le $most ] && is_ready "$name"; then
                start "$name"
                running=$((running + ${weight[$name]}))
            fi
        done
        [ "$running" -gt 0 ] || { echo "steps that wait for each other"; return 1; }
        finish_one
    done
    print_table
    [ ${#failed[@]} = 0 ] || { printf 'FAILED: %s\n' "${failed[@]}"; return 1; }
}
