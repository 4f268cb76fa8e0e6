#!/usr/bin/env bash
# Every command of the tutorial about training works as it stands there, on a
# shorter text and for fewer steps, and prints lines of the form shown; what
# README and manual show of the commands that compute has no wrong option.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
tutorial=$root/docs/tutorials/train.md

# Lines that end with a backslash go on in the next.
joined() { sed -e ':again' -e '/\\$/{N;s/\\\n//;t again' -e '}' "$@"; }

# Lines as they are, but for their numbers.
form() { sed -E 's/[0-9][0-9.:]*(e[-+][0-9]+)?/N/g'; }

# shorter TEXT: the same training in a hundredth of the time.
shorter() {
    sed -E 's/--train-iters 500/--train-iters 4/
        s/--lr-warmup-iters 50/--lr-warmup-iters 1/
        s/--micro-batch-size 16/--micro-batch-size 1/
        s/--max-tokens 200/--max-tokens 5/
        s/--log-interval 100/--log-interval 2/
        s/--eval-interval 250/--eval-interval 4/' <<<"$1"
}

cd "$work" || exit 1
cat "$root"/docs/*.md | tr -cd 'A-Za-z .:\n' | head -c 40000 >input.txt
mkdir bard
sed -n '/^    {$/,/^    }$/s/^    //p' "$tutorial" >bard/config.json
about "config.json of the tutorial"
diff bard/config.json "$root/examples/shakespeare/config.json" ||
    fail "the example has another one"

count=0
while IFS= read -r command; do
    eval "words=($(shorter "$command"))"
    # The run that is resumed was not stopped, but short.
    [[ " ${words[*]} " != *" --load "* ]] || words+=(--train-iters 4)
    run 0 "${words[@]}"
    count=$((count + 1))
    case ${words[0]} in
    tokenize | train | eval) cat "$work/out" "$work/err" >>"$work/printed" ;;
    esac
    # The first training ends early; the second one goes on from there.
    if [[ ${words[0]} == train && " ${words[*]} " != *" --load "* ]]; then
        mv run/step-00000004 whole
        eval "words=($(shorter "$command") --train-iters 2 --lr-decay-iters 4)"
        run 0 "${words[@]}"
    fi
done < <(joined "$tutorial" | sed -n 's/^    \$ penstock //p')
same "commands" "$count" 13
about "stopped and resumed"
same "hash" "$("$PENSTOCK" checkpoint hash run | cut -d' ' -f1)" \
    "$("$PENSTOCK" checkpoint hash whole | cut -d' ' -f1)"
[ -s curves.svg ] || fail "there is no picture"
[ -f run/step-00000004/tokenizer.json ] || fail "the tokenizer is not copied"

about "lines of the tutorial"
form <"$work/printed" >"$work/forms"
while IFS= read -r text; do
    grep -qxF -- "$text" "$work/forms" || fail "nothing prints '$text'"
done < <(sed -nE '/^    (penstock: (wrote|[0-9]|going)|step|loss) /s/^    //p' \
    "$tutorial" | form)

# Options of what is shown elsewhere: --help behind them finds the wrong ones.
while IFS= read -r command; do
    eval "words=($command
        )"
    case ${words[0]} in
    train | eval | generate | tokenize | plot | profile | doctor)
        run 0 "${words[@]}" --help
        ;;
    esac
done < <(
    joined "$root/README.md" | sed -n 's/^    penstock //p'
    sed 's/\\e$/\\/' "$root"/docs/man/*.1 | joined |
        sed -nE 's/^([A-Z_]+=[^ ]* )?penstock ([^|&]*).*/\2/p'
)
finish
