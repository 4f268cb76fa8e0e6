#!/usr/bin/env bash
# --help, the man page and the completion speak of the same commands and
# options: whoever adds an option to one is told of the others.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
page=$root/docs/man/penstock-schedule.1
. "$root/tools/completion/penstock.bash"

run 0 schedule --help
commands=$(awk '/^  [a-z]/ { print $1 }' "$work/out")
same "commands of the man page" \
    "$(awk '/^\.Nm penstock schedule/ { getline; print $2 }' "$page" | sort)" \
    "$(sort <<<"$commands")"

# Options in the synopsis of one command, in the long form.
in_synopsis() {
    awk -v command="$1" '
        /^\.Sh DESCRIPTION/ { exit }
        /^\.Nm penstock schedule/ { getline; is_on = $2 == command }
        is_on && match($0, /Fl [-a-z]+/) {
            name = substr($0, RSTART + 3, RLENGTH - 3)
            print name == "o" ? "--output" : "-" name
        }' "$page" | sort
}

for command in $commands; do
    run 0 schedule "$command" --help
    options=$(grep -oE '^ +(-., )?--[a-z-]+' "$work/out" |
        grep -oE -- '--[a-z-]+' | grep -vE '^--(help|usage)$' | sort)
    same "man page" "$(in_synopsis "$command")" "$options"
    same "completion" \
        "$(_penstock_schedule_options "$command" | tr ' ' '\n' | sort | sed '/^$/d')" \
        "$options"
    echo "$options" >>"$work/all"
done
same "options described in the man page" \
    "$(sed -n '/^\.Sh OPTIONS/,/^\.Ss/s/^\.It Fl \(o , \)\{0,1\}-\([a-z-]*\).*/--\2/p' "$page" |
        grep -v '^--help$' | sort)" \
    "$(sort -u "$work/all" | sed '/^$/d')"

# The same of commands that have no commands behind them.
compare_options() { # COMMAND
    page=$root/docs/man/penstock-$1.1
    run 0 "$1" --help
    options=$(grep -oE '^ +(-., )?--[a-z0-9-]+' "$work/out" |
        grep -oE -- '--[a-z0-9-]+' | grep -vE '^--(help|usage)$' | sort)
    same "options in the man page" \
        "$(sed -n '/^\.Sh OPTIONS/,/^\.Sh [^O]/s/^\.It Fl \(o , \)\{0,1\}-\([a-z0-9-]*\).*/--\2/p' "$page" |
            grep -v '^--help$' | sort)" "$options"
    same "completion" "$("_penstock_$1_options" | tr ' ' '\n' | sort)" "$options"
}
compare_options tokenize
compare_options plot
compare_options view
compare_options partition
compare_options export
compare_options plan
compare_options predict
if [ -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    for command in train eval generate profile doctor; do
        compare_options "$command"
        # Words that the completion offers are words that the program takes.
        for option in $options; do
            for word in $(_penstock_words "$option"); do
                run 0 "$command" "$option=$word" --help
                grep -qwF -- "$word" "$page" ||
                    fail "man page lacks $word of $option"
            done
        done
    done
fi

# The page of all has every command, in the order of --help.
run 0 --help
same "commands of penstock.1" \
    "$(sed -n 's/^\.It Cm //p' "$root/docs/man/penstock.1" | grep -vx help)" \
    "$(awk '/^  [a-z]/ { print $1 }' "$work/out")"
for command in $(awk '/^  [a-z]/ { print $1 }' "$work/out"); do
    grep -q "^\.Sy penstock-$command Ns (1)" "$root/docs/man/penstock.1" ||
        fail "penstock.1 does not name the page of $command"
done

# The commands and options of checkpoint.
page=$root/docs/man/penstock-checkpoint.1
run 0 checkpoint --help
commands=$(awk '/^  [a-z]/ { print $1 }' "$work/out")
same "commands of the man page" \
    "$(awk '/^\.Nm penstock checkpoint/ { getline; print $2 }' "$page" | sort)" \
    "$(sort <<<"$commands")"
for command in $commands; do
    run 0 checkpoint "$command" --help
    options=$(grep -oE '^ +(-., )?--[a-z-]+' "$work/out" |
        grep -oE -- '--[a-z-]+' | grep -vE '^--(help|usage)$' | sort)
    same "completion of checkpoint" \
        "$(_penstock_checkpoint_options "$command" | tr ' ' '\n')" "$options"
    for option in $options; do
        grep -qF ".Fl -${option#--}" "$page" || fail "man page lacks $option"
    done
done

# The commands and options of cluster; detect is penstock-train's.
page=$root/docs/man/penstock-cluster.1
run 0 cluster --help
commands=$(awk '/^  [a-z]/ { print $1 }' "$work/out")
same "commands of the man page" \
    "$(awk '/^\.Nm penstock cluster/ { getline; print $2 }' "$page" | sort)" \
    "$(sort <<<"$commands")"
[ -x "$(dirname "$PENSTOCK")/penstock-train" ] ||
    commands=$(grep -vx detect <<<"$commands")
for command in $commands; do
    run 0 cluster "$command" --help
    options=$(grep -oE '^ +(-., )?--[a-z-]+' "$work/out" |
        grep -oE -- '--[a-z-]+' | grep -vE '^--(help|usage)$')
    same "completion of cluster" \
        "$(_penstock_cluster_options "$command" | tr ' ' '\n')" "$options"
    for option in $options; do
        grep -qE "^\.It Fl (o , )?-${option#--}" "$page" ||
            fail "man page lacks $option"
    done
done

# The commands and options of sync.
page=$root/docs/man/penstock-sync.1
run 0 sync --help
commands=$(awk '/^  [a-z]/ { print $1 }' "$work/out")
same "commands of the man page" \
    "$(awk '/^\.Nm penstock sync/ { getline; print $2 }' "$page" | sort)" \
    "$(sort <<<"$commands")"
for command in $commands; do
    run 0 sync "$command" --help
    options=$(grep -oE '^ +(-., )?--[a-z-]+' "$work/out" |
        grep -oE -- '--[a-z-]+' | grep -vE '^--(help|usage)$')
    same "completion of sync" \
        "$(_penstock_sync_options "$command" | tr ' ' '\n')" "$options"
    for option in $options; do
        grep -qE "^\.It Fl -${option#--}" "$page" ||
            fail "man page lacks $option"
    done
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
same "first word" "$(complete_line penstock sch)" "schedule"
same "command" "$(complete_line penstock schedule comp)" "compare"
same "name" "$(complete_line penstock schedule make interl)" "interleaved"
same "option" "$(complete_line penstock schedule make 1f1b --st)" "--stages"
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
same "profile" "$(complete_line penstock profile --model m --rou)" "--rounds"
same "partition" "$(complete_line penstock partition g.txt --ba)" "--bandwidth"
same "plan" "$(complete_line penstock plan --model m --targ)" "--target"
same "its target" "$(complete_line penstock predict --target t)" "torchtitan"
same "doctor" "$(complete_line penstock doctor --j)" "--json"
same "help" "$(complete_line penstock help schedule ti)" "time"
finish
