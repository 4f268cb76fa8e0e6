#!/usr/bin/env bash
# One voice: every command answers --help with one screen, and a wrong option, a
# number that is none and a file that is not there in the same way; an option
# has the same argument wherever it is; every page has examples that the
# programs take and exit codes of one list; docs/commands.md has them all; and
# no text that a user sees, and no comment but in folders that
# tests/cli/voice.py lists, has words that it finds unclear.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
pages=$root/docs/man
list_commands
about tools/commands-table
[ "$(wc -l <"$work/commands")" -ge 36 ] || fail "commands are missing"
[ "$(wc -l <"$work/options")" -ge 230 ] || fail "options are missing"

has_verbs() { grep -q "^$1 " "$work/commands"; }

options_in() { # FILE
    grep -oE '^ +(-., )?--[a-z0-9-]+' "$1" | grep -vE -- '--(help|usage)$'
}

# ---- help, and what is wrong with a line
while read -r command; do
    run 0 $command --help
    err_empty
    [[ $(head -1 "$work/out") == "Usage: penstock $command "* ]] ||
        fail "the first line is no usage"
    [ "$(wc -L <"$work/out")" -le 80 ] || fail "a line is too long"
    lines=50
    case $command in plan | train) lines=24 ;; esac
    [ "$(wc -l <"$work/out")" -le $lines ] || fail "more than one screen"
    if ! has_verbs "$command"; then
        cp "$work/out" "$work/short"
        run 0 help $command
        [ "$(options_in "$work/out")" = "$(options_in "$work/short")" ] ||
            tr -s ' \n' ' ' <"$work/short" |
            grep -q "All options: penstock $command --help-all\." ||
            fail "--help is shorter and does not say so"
        cp "$work/out" "$work/whole"
        run 0 $command --help-all
        same "--help-all" "$(options_in "$work/out")" "$(options_in "$work/whole")"
        err_empty
    fi
    run 2 $command --gnu
    out_empty
    err_has "--gnu"
    if has_verbs "$command"; then
        err_has "Usage: penstock $command"
        run 2 $command
        out_empty
        err_has "Usage: penstock $command"
        run 2 $command gnu
        out_empty
        err_has "there is no command '$command gnu'"
    else
        err_has "penstock $command --help"
    fi
done <"$work/commands"
run 2 gnu
err_has "Usage: penstock"

# ---- a value that is no number
while IFS=$'\t' read -r command option argument _; do
    case $argument in
    A | K | M | N | P | S | T | V | X)
        run 2 $command "$option=gnu"
        out_empty
        err_has "$option"
        err_has "gnu"
        ;;
    esac
done < <(grep -P '\t--' "$work/options")

# ---- a file that is not there
nowhere=$work/nowhere/file
for words in "schedule check" "schedule time" "schedule draw" "cluster show" \
    "cluster check" "checkpoint ls" "checkpoint verify" "checkpoint hash" \
    "plot" "view" "report" "partition" "plan check" "simulate --plan" \
    "eval --token-ids ids --model" "generate --prompt a --model"; do
    run 1 $words "$nowhere"
    out_empty
    err_has "penstock: error: "
    err_has "$nowhere"
done

# ---- one argument for one option; a list of it is the same
about "arguments of options"
# What is written is a file, a folder or a run; a schedule has no bytes.
argument_of() { # OPTION ARGUMENT
    case "$1=$2" in
    --output=DIR | --output=PREFIX | --output=RUN) echo FILE ;;
    -o=DIR | -o=PREFIX | -o=RUN) echo FILE ;;
    --memory-limit=A) echo BYTES ;;
    *) sed -E 's/\[,.*\.\.\.\]$|\.\.\.$//' <<<"$2" ;;
    esac
}
declare -A first argument_of_first
while IFS=$'\t' read -r command option argument _; do
    argument=$(argument_of "$option" "$argument")
    same "$option of $command and ${first[$option]-}" "$argument" \
        "${argument_of_first[$option]-$argument}"
    first[$option]=${first[$option]-$command}
    argument_of_first[$option]=${argument_of_first[$option]-$argument}
done <"$work/options"

# ---- one word for one thing
about "words of help"
while IFS=$'\t' read -r command option _ meaning; do
    [[ $meaning != *director* && $meaning != *default* ]] ||
        fail "$option of $command: folder, when not given: '$meaning'"
done <"$work/options"

# ---- no word that has to be read twice
about "plain words"
python3 "${0%.sh}.py" "$root" "$work/options" >"$work/out" ||
    fail "texts are unclear; tests/cli/voice.py has the rules"
mkdir -p "$work/planted/docs"
printf '%s\n' '| `behind` | Who comes first |' '' '- `told`, and it' '  goes on' '' \
    '```' 'told' '```' '    told' >"$work/planted/docs/page.md"
python3 "${0%.sh}.py" "$work/planted" "$work/options" >"$work/out"
same "planted words" "$(grep -oE '^docs/page.md:[0-9]+: [a-z ]+' "$work/out")" \
    "docs/page.md:1: name the subject
docs/page.md:3: resume or continue"

# ---- what lists things can list them for programs
while read -r command; do
    grep -qP "^$command\t--json\t" "$work/options" ||
        fail "$command has no --json"
done < <(grep -E ' (list|ls|compare)$|^(plan|predict|view|report)$' "$work/commands")

# ---- pages: examples that are taken, exit codes of one list
section() { # PAGE TITLE
    sed -n "/^\.Sh $2\$/,/^\.Sh /p" "$1" | grep -v '^\.Sh'
}
codes() { # PAGE
    section "$1" "EXIT STATUS" | sed -E 's/^\.It //' |
        grep -oE '^[0-9]+|, [0-9]+:' | grep -oE '[0-9]+' | sort -u
}
about "exit codes of penstock.1"
codes "$pages/penstock.1" >"$work/codes"
same "codes of the sources" "$(cat "$work/codes")" \
    "$(grep -rhoE 'PEN__?EXIT_[A-Z_]+ = [0-9]+' "$root/src" |
        grep -oE '[0-9]+$' | sort -u)"
while read -r command; do
    about "man penstock-${command%% *}"
    page=$pages/penstock-${command%% *}.1
    [ -f "$page" ] || fail "there is no page"
    same "codes that penstock.1 does not have" \
        "$(codes "$page" | comm -23 - "$work/codes")" ""
    section "$page" EXAMPLES | sed ':a; /\\e$/{N; s/\\e\n */ /; ba}' \
        >"$work/examples"
    grep -qE "(^|[ |])penstock $command( |\$)" "$work/examples" ||
        fail "no example of $command"
    while read -r option; do
        grep -qP "^$command\t$option\t" "$work/options" ||
            fail "an example has $option, which $command does not"
    done < <(grep -oE "penstock $command .*" "$work/examples" |
        sed 's/ [|>&].*//' | grep -oE -- ' --?[a-z][a-z0-9-]*' | tr -d ' ')
done < <(while read -r command; do
    has_verbs "$command" || echo "$command"
done <"$work/commands")

# ---- the table of all
about "docs/commands.md"
"$root/tools/commands-table" "$PENSTOCK" >"$work/out"
diff -u "$root/docs/commands.md" "$work/out" >"$work/err" ||
    fail "is old; tools/commands-table says how to make it"
finish
