# What the tests of training on many ranks share: tiny models, tokens for them,
# and trainings of 20 steps whose bits are compared.
# Needs `build`, the build folder. PEN_MPIRUN is the launcher with its options.
build=$(cd "$build" && pwd) || exit 1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PENSTOCK=$build/penstock
. "$here/../cli/support.bash"
read -ra mpirun <<<"${PEN_MPIRUN:-mpirun.openmpi --allow-run-as-root \
--oversubscribe --bind-to none}"
if [ ! -x "$build/penstock-train" ]; then
    echo "penstock-train is not built; skipped"
    exit 77
fi
if ! command -v "${mpirun[0]}" >/dev/null; then
    echo "${mpirun[0]} is missing; skipped"
    exit 77
fi
export OMP_NUM_THREADS=1
# What a killed Open MPI leaves behind is gone with the work folder.
mkdir "$work/tmp"
export TMPDIR=$work/tmp OMPI_MCA_btl_vader_backing_directory=$work/tmp

# Tokens without a pattern, the same everywhere: 64 sequences of 16.
awk 'BEGIN {
    for (i = 0; i < 64; i++)
        for (j = 0; j <= 16; j++) {
            x = (x * 1103 + 12347) % 65536
            printf "%d%s", int(x / 64) % 97, j < 16 ? " " : "\n"
        }
}' >"$work/ids.txt"

# The configuration of a model with so many layers between embedding and head.
# In bf16, oneDNN computes models narrower than 64 ten times slower.
config_of() { # gpt2|llama|mixtral|deepseek_v3|gpt_oss LAYERS
    local file=$work/$1-$2.json
    [ -e "$file" ] || sed "s/LAYERS/$2/" "$here/$1.json.in" >"$file"
    echo "$file"
}

# Leaves stdout and stderr in the work folder.
train_alone() { # MODEL LAYERS OPTIONS...
    in_time 300 "${reference:-$build}/penstock" train \
        --model "$(config_of "$1" "$2")" "${same_steps[@]}" "${@:3}" \
        >"$work/out" 2>"$work/err"
}
train_together() { # RANKS MODEL LAYERS OPTIONS...
    in_time 300 "${mpirun[@]}" -n "$1" "$PENSTOCK" train \
        --model "$(config_of "$2" "$3")" "${same_steps[@]}" "${@:4}" \
        >"$work/out" 2>"$work/err"
}
same_steps=(--token-ids "$work/ids.txt" --micro-batch-size 1 --train-iters 20
    --lr 1e-2 --threads 1 --log-interval 100 --peak-tflops 0.05)

# The hash of a finished training, or nothing.
final_hash() { # DIR
    [ ! -d "$1/step-00000020" ] || hash_of "$1/step-00000020"
}
