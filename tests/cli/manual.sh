#!/usr/bin/env bash
# --help, the man page and the completion speak of the same commands and
# options: whoever adds an option to one is told of the others. Needs all
# programs.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/completion/penstock.bash"
list_commands

# Options of one command in --help, aliases too, and in its part of the
# completion.
compare_completion() { # COMMAND [VERB]
    local offer=_penstock_$1_options
    about "penstock $*"
    options=$(grep -P "^$*\t--" "$work/options" | cut -f2 | sort)
    same completion "$("$offer" "${2-}" | tr ' ' '\n' | sort | sed '/^$/d')" \
        "$options"
}

# Those that a man page describes.
described() { # PAGE
    sed -n '/^\.Sh OPTIONS/,/^\.Sh [^O]/s/^\.It Fl//p' "$1" |
        grep -oE ' -[a-z0-9-]+' | sed 's/^ /-/' | grep -vxE -- '--(help|usage)' | sort
}

# Of commands that have no commands behind them.
compare_options() { # COMMAND
    page=$root/docs/man/penstock-$1.1
    compare_completion "$1"
    same "options in the man page" "$(described "$page")" "$options"
    # Words that the completion offers are words that the program takes.
    for option in $options; do
        for word in $(_penstock_words "$option" "$1"); do
            run 0 "$1" "$option=$word" --help
            grep -qwF -- "$word" "$page" ||
                fail "man page lacks $word of $option"
        done
    done
}

# Options in the synopsis of a command behind a command, in the long form.
in_synopsis() { # COMMAND VERB
    awk -v command="$1" -v verb="$2" '
        /^\.Sh DESCRIPTION/ { exit }
        $1 == ".Nm" && $3 == command { getline; is_on = $2 == verb }
        is_on && match($0, /Fl [-a-z]+/) {
            name = substr($0, RSTART + 3, RLENGTH - 3)
            print name == "o" ? "--output" : "-" name
        }' "$page" | sort
}

# Of commands that have some.
compare_verbs() { # COMMAND VERB...
    local command=$1
    shift
    page=$root/docs/man/penstock-$command.1
    about "man penstock-$command"
    same "commands of the man page" \
        "$(awk -v name="$command" '
            $1 == ".Nm" && $3 == name { getline; print $2 }' "$page" | sort)" \
        "$(printf '%s\n' "$@" | sort)"
    for verb in "$@"; do
        compare_completion "$command" "$verb"
        same "synopsis in the man page" "$(in_synopsis "$command" "$verb")" \
            "$options"
    done
    if grep -q '^\.Sh OPTIONS' "$page"; then
        about "man penstock-$command"
        same "options in the man page" "$(described "$page")" \
            "$(grep -P "^$command .*\t--" "$work/options" | cut -f2 | sort -u)"
    fi
}

for command in $(cut -d' ' -f1 "$work/commands" | uniq); do
    verbs=$(sed -n "s/^$command //p" "$work/commands")
    if [ -n "$verbs" ]; then
        compare_verbs "$command" $verbs
    else
        compare_options "$command"
    fi
done

# The page of all has every command, in the order of --help.
run 0 --help
same "commands of penstock.1" \
    "$(sed -n 's/^\.It Cm //p' "$root/docs/man/penstock.1" | grep -vx help)" \
    "$(awk '/^  [a-z]/ { print $1 }' "$work/out")"
for command in $(awk '/^  [a-z]/ { print $1 }' "$work/out"); do
    grep -q "^\.Sy penstock-$command Ns (1)" "$root/docs/man/penstock.1" ||
        fail "penstock.1 does not name the page of $command"
done

# The completion itself.
PATH=$(dirname "$PENSTOCK"):$PATH
complete_line() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _penstock
    echo "${COMPREPLY[*]}"
}
about completion
same "first word" "$(complete_line penstock sch)" "schedule schema"
same "command" "$(complete_line penstock schedule comp)" "compare"
same "name" "$(complete_line penstock schedule make interl)" "interleaved"
same "option" "$(complete_line penstock schedule make 1f1b --sl)" "--slices"
same "placement" "$(complete_line penstock schedule search --placement l)" \
    "linear loop"
same "tokenize" "$(complete_line penstock tokenize t.txt --form)" "--format"
same "format" "$(complete_line penstock tokenize --format n)" "nanogpt"
same "train" "$(complete_line penstock tr)" "train"
same "its option" "$(complete_line penstock train --model m --global)" \
    "--global-batch-size"
same "its style" "$(complete_line penstock train --lr-decay-style c)" \
    "constant cosine"
same "eval" "$(complete_line penstock eval --model m --j)" "--json"
same "generate" "$(complete_line penstock generate --top)" "--top-p"
same "plot" "$(complete_line penstock plot a.jsonl --x to)" "tokens"
same "checkpoint" "$(complete_line penstock checkpoint ver)" "verify"
same "its option" "$(complete_line penstock checkpoint hash --w)" "--weights"
same "its help" "$(complete_line penstock help checkpoint l)" "ls"
same "cluster" "$(complete_line penstock cluster sh)" "show"
same "its option" "$(complete_line penstock cluster detect --th)" "--threads"
same "its help" "$(complete_line penstock help cluster de)" "detect"
same "sync" "$(complete_line penstock sync comp)" "compare"
same "its option" "$(complete_line penstock sync compare --fac)" "--factors"
same "its method" "$(complete_line penstock sync compare dil)" "diloco"
same "ring" "$(complete_line penstock ring dr)" "draw"
same "its option" "$(complete_line penstock ring draw 7 --be)" "--begin"
same "profile" "$(complete_line penstock profile --model m --rou)" "--rounds"
same "partition" "$(complete_line penstock partition g.txt --ba)" "--bandwidth"
same "plan" "$(complete_line penstock plan --model m --targ)" "--target"
same "its target" "$(complete_line penstock predict --target t)" "torchtitan"
same "doctor" "$(complete_line penstock doctor --j)" "--json"
same "help" "$(complete_line penstock help schedule ti)" "time"
finish
