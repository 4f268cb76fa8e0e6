#!/usr/bin/env bash
# doctor --engine examines every operation of a model on an engine, and finds a
# product that is wrong, one that is not repeated, and a number that is lost. PEN_SEED
# chooses one of three models for each engine of devices; PEN_LONG=1 has all.
. "$(dirname "$0")/support.bash"
build=$(dirname "$PENSTOCK")
if [ ! -x "$build/penstock-train" ]; then
    echo "penstock-train was not built; skipped"
    exit 77
fi
mkdir -p "$build/pocl"
export OMP_NUM_THREADS=1 POCL_CACHE_DIR=$build/pocl POCL_MAX_PTHREAD_COUNT=1
sizes='"vocab_size": 97, "hidden_act": "silu", "rms_norm_eps": 1e-5, "num_hidden_layers": 1'
echo '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 97, "n_positions": 32, "n_embd": 64, "n_layer": 1,
    "n_head": 2, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true}' >"$work/gpt2.json"
echo '{"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], '"$sizes"', "max_position_embeddings": 64, "hidden_size": 64,
    "intermediate_size": 72, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rope_theta": 10000.0}' >"$work/qwen3.json"
echo '{"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], '"$sizes"', "max_position_embeddings": 32, "hidden_size": 64,
    "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
    "rope_theta": 10000.0}' >"$work/mixtral.json"
echo '{"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "vocab_size": 97, "max_position_embeddings": 32,
    "hidden_size": 64, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}' >"$work/gpt_oss.json"

engines=(onednn)
if "$PENSTOCK" doctor --engine opencl --model "$work/gpt2.json" >"$work/out" 2>"$work/err"; then
    engines+=(opencl)
else
    err_has "pocl-opencl-icd"
fi
about "no libcuda at all, or no kernels"
if LD_LIBRARY_PATH= "$PENSTOCK" doctor --engine cuda:none-such --model "$work/gpt2.json" >"$work/out" 2>"$work/err"; then
    fail "it was examined"
fi
grep -qE 'needs libcuda.so.1, which|has no kernels for CUDA|no device has this number|knows no device' "$work/err" ||
    fail "nothing says what is missing"
[ "$(wc -l <"$work/err")" = 1 ] || fail "more than one line"
# The libcuda of the tests interprets kernels.
export LD_LIBRARY_PATH=$build/tests/cuda
if [ -e "$LD_LIBRARY_PATH/libcuda.so.1" ] && ! grep -q 'has no kernels' "$work/err"; then
    engines+=(cuda)
fi
for engine in "${engines[@]}"; do
    for options in "--model $work/gpt2.json" "--model $work/qwen3.json --bf16 --micro-batch-size 2" "--model $work/mixtral.json"; do
        [ "$engine" = onednn ] || drawn 3 || continue
        run 0 doctor --engine "$engine" $options --output "$work/report.json" --json
        err_empty
        same "good" "$(json 'd["good"], all(o["good"] and o["same_bits"] and o["sec"] > 0 for o in d["operations"])')" "(True, True)"
        same "operations" "$(json 'len(d["operations"]) >= 22')" True
        names=$(json '[(o["name"], o["good"]) for o in d["operations"]]')
        cp "$work/report.json" "$work/out"
        same "report" "$(json '[(o["name"], o["good"]) for o in d["operations"]]')" "$names"
    done
done
run 0 doctor --engine reference --model "$work/qwen3.json"
for name in embedding norm "queries, keys, values, input" rotary attention swiglu "head, weight" "cross entropy" adamw; do
    out_has "$name"
done

run 0 doctor --engine reference --model "$work/gpt_oss.json"
for name in router "rows of experts" "first of an expert, weight" "clamped gates" "second of an expert, input" sinks muon; do
    out_has "$name"
done

# One product of oneDNN is spoilt: a wrong number, a small one, and no number.
shim=$build/tests/libbad_number.so
if [ -e "$shim" ]; then
    for value in 1e3 nan; do
        about "a product with the number $value"
        BAD_RANK=0 BAD_CALL=1 BAD_VALUE=$value LD_PRELOAD=$shim "$PENSTOCK" doctor --engine onednn \
            --model "$work/gpt2.json" --json >"$work/out" 2>"$work/err" && fail "nothing was found"
        same "bits of wrong operations" "$(json '[o["same_bits"] for o in d["operations"] if not o["good"]]')" "[False]"
        same "good" "$(json 'd["good"]')" False
    done
fi

run 2 doctor --engine onednn
err_has "--model is required"
run 2 doctor --model "$work/gpt2.json"
err_has "need --engine NAME"
run 2 doctor --engine distant --model "$work/gpt2.json"
err_has "--engine must be onednn, reference, opencl[:DEVICE] or cuda[:DEVICE], not 'distant'"
run 2 doctor --engine reference --bf16 --model "$work/gpt2.json"
err_has "--bf16 needs --engine onednn, opencl or cuda"
run 1 doctor --engine onednn --model preset:mnist-mlp
err_has "is for images"
run 1 doctor --engine onednn --model "$work/gpt2.json" --seq-length 33
err_has "the model has 32 positions"
finish
