# PyTorch's pipeline runtime as a judge that is started once and asked many times: run_torch_schedule.py.

start_judge() { # PYTHON LOG
    local script
    script=$(dirname "${BASH_SOURCE[0]}")/run_torch_schedule.py
    coproc TORCH { OMP_NUM_THREADS=1 exec "$1" "$script" 2>"$2"; }
}

# Asks with a line; leaves `verdict`, passed or FAILED, and `figures`, the numbers or the reason. True when it passed.
ask() { # WORD...
    echo "$*" >&"${TORCH[1]}"
    read -r verdict figures <&"${TORCH[0]}" || { echo "the judge has ended" >&2; exit 1; }
    [ "$verdict" = passed ]
}

judge() { # FILE RANKS STAGES PLACEMENT MICROBATCHES SECONDS
    ask "$1" --ranks "$2" --stages "$3" --placement "$4" --microbatches "$5" --timeout "$6"
}

# Waits for its end, so that its seconds are counted.
end_judge() {
    local process=$TORCH_PID
    exec {TORCH[1]}>&-
    wait "$process"
}
