# bash completion for penstock. The names of schedules come from the program;
# tests/cli/manual.sh compares the options with --help.
# shellcheck disable=SC2207

_penstock_schedule_options() {
    case $1 in
    list) echo --json ;;
    make)
        echo --stages --microbatches --chunks --slices --batches \
            --group-size --vertical-sync --costs --memory --memory-limit \
            --output
        ;;
    search)
        echo --stages --microbatches --chunks --placement --costs --memory \
            --memory-limit --seconds --seed --output
        ;;
    check) echo --memory --memory-limit --send-window ;;
    time) echo --costs --memory --send-window --all-ranks --json ;;
    draw) echo --costs --memory --send-window --output ;;
    compare)
        echo --stages --microbatches --chunks --slices --batches --costs \
            --memory --memory-limit --json
        ;;
    esac
}

_penstock_tokenize_options() {
    echo --tokenizer --output --format --append-eod --lines --json-key --threads
}

_penstock_checkpoint_options() {
    case $1 in
    ls) echo --json ;;
    hash) echo --weights ;;
    esac
}

_penstock_schedule_names() {
    penstock schedule list 2>/dev/null | awk 'NF == 0 { exit } NR > 2 { print $1 }'
}

_penstock_tokenize() { # WORD BEFORE
    if [ "$2" = --format ]; then
        COMPREPLY=($(compgen -W "megatron llmc nanogpt" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_tokenize_options) --help --usage" -- "$1"))
    else
        COMPREPLY=($(compgen -f -- "$1"))
    fi
}

_penstock_checkpoint() { # WORD COMMAND
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "ls verify hash --help" -- "$1"))
    elif [[ $1 == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_checkpoint_options "$2") --help --usage" -- "$1"))
    else
        COMPREPLY=($(compgen -d -- "$1"))
    fi
}

_penstock() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="list make search check time draw compare convert"
    local command=${COMP_WORDS[2]-}
    COMPREPLY=()
    if [ "${COMP_WORDS[1]}" = help ]; then
        case $COMP_CWORD in
        2) COMPREPLY=($(compgen -W "schedule tokenize checkpoint" -- "$word")) ;;
        3)
            [ "$command" = checkpoint ] && commands="ls verify hash"
            COMPREPLY=($(compgen -W "$commands" -- "$word"))
            ;;
        esac
        return
    fi
    case $COMP_CWORD in
    1)
        COMPREPLY=($(compgen -W "schedule tokenize checkpoint help --help --version" -- "$word"))
        return
        ;;
    esac
    if [ "${COMP_WORDS[1]}" = tokenize ]; then
        _penstock_tokenize "$word" "$before"
        return
    fi
    if [ "${COMP_WORDS[1]}" = checkpoint ]; then
        _penstock_checkpoint "$word" "$command"
        return
    fi
    if [ "$COMP_CWORD" = 2 ]; then
        COMPREPLY=($(compgen -W "$commands --help" -- "$word"))
        return
    fi
    case $before in
    --placement)
        COMPREPLY=($(compgen -W "linear loop v any" -- "$word"))
        return
        ;;
    -o | --output | --costs)
        COMPREPLY=($(compgen -f -- "$word"))
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W \
            "$(_penstock_schedule_options "$command") --help --usage" \
            -- "$word"))
        return
    fi
    case $command in
    make | compare)
        COMPREPLY=($(compgen -W "$(_penstock_schedule_names)" -- "$word"))
        ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}

complete -o filenames -F _penstock penstock
