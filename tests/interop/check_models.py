"""Compare Penstock's models and weights with transformers and safetensors.

Usage: check_models.py MODEL_FILES CONFIGS WORK   (run_models calls it)
"""

import json
import pathlib
import subprocess
import sys

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import transformers

FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
PROGRAM, CONFIGS, WORK = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
counts = {"passed": 0, "FAILED": 0}


def penstock(*words):
    """Output of the helper program; its message as an exception."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return done.stdout


def case(name, check):
    """Runs one check; what it returns is printed, what it raises is a failure."""
    try:
        verdict, detail = "passed", check()
    except Exception as error:  # every failure is counted and shown
        verdict, detail = "FAILED", f"{type(error).__name__}: {error}"
    counts[verdict] += 1
    print(f"{verdict:<7} {name:<44} {detail}", flush=True)


def expect(is_true, text):
    if not is_true:
        raise ValueError(text)


def our_tensors(source):
    rows = [line.split() for line in penstock("tensors", source).splitlines()]
    return {row[0]: tuple(map(int, row[1:])) for row in rows}


def their_tensors(config):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    return {name: tuple(value.shape) for name, value in model.state_dict().items()
            if name not in tied}


def load_config(path):
    values = json.loads(pathlib.Path(path).read_text())
    return transformers.AutoConfig.for_model(**values)


def check_tensors(source, config):
    ours, theirs = our_tensors(source), their_tensors(config)
    expect(ours == theirs, f"differ: {sorted(set(ours.items()) ^ set(theirs.items()))[:4]}")
    count = sum(int(np.prod(shape)) for shape in ours.values())
    return f"{len(ours)} tensors, {count} parameters"


def check_printed(source, config, path):
    """What Penstock prints is the same configuration to transformers."""
    path.write_text(penstock("config", source))
    ours, theirs = load_config(path).to_dict(), config.to_dict()
    keys = [key for key in json.loads(path.read_text())
            if key not in ("architectures", "torch_dtype", "rope_theta", "rope_scaling")
            and not key.endswith("_pdrop")]
    # Llama 2 and older Qwen files have no head_dim, and no windows mean null.
    keys = [key for key in keys if key in theirs and theirs[key] is not None]
    if not theirs.get("use_sliding_window", True):
        keys = [key for key in keys if "window" not in key]
    keys += [key for key in ("rope_parameters", "layer_types") if key in theirs]
    differ = {key: (ours.get(key), theirs[key]) for key in keys if ours.get(key) != theirs[key]}
    expect(not differ, f"differ: {differ}")
    return f"{len(keys)} keys agree"


def published():
    for path in sorted(CONFIGS.glob("*.config.json")):
        name = path.name.removesuffix(".config.json")
        if json.loads(path.read_text())["model_type"] in FAMILIES:
            yield name, path


def small_configs():
    """Every family, and each switch that changes its tensors or positions."""
    sizes = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48,
             "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
             "max_position_embeddings": 64}
    llama3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    linear = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
    gpt2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
    yield "gpt2", transformers.GPT2Config(**gpt2)
    yield "gpt2-inner-untied", transformers.GPT2Config(
        **gpt2, n_inner=40, tie_word_embeddings=False)
    yield "llama", transformers.LlamaConfig(**sizes)
    yield "llama-biases-tied", transformers.LlamaConfig(
        **sizes, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    yield "llama-llama3", transformers.LlamaConfig(**sizes, rope_parameters=llama3)
    yield "llama-linear", transformers.LlamaConfig(**sizes, rope_parameters=linear)
    yield "mistral-window", transformers.MistralConfig(**sizes, sliding_window=5)
    yield "mistral-no-window", transformers.MistralConfig(**sizes, sliding_window=None)
    yield "mistral-head-dim", transformers.MistralConfig(**sizes, head_dim=12)
    yield "qwen2", transformers.Qwen2Config(**sizes)
    yield "qwen2-tied-window", transformers.Qwen2Config(
        **sizes, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5,
        max_window_layers=1)
    yield "qwen3", transformers.Qwen3Config(**sizes)
    yield "qwen3-biases", transformers.Qwen3Config(**sizes, head_dim=16, attention_bias=True)


def logits_of(directory):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, local_files_only=True, use_safetensors=True, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        expect(not info.get(kind), f"{kind}: {info.get(kind)}")
    tokens = torch.arange(24).reshape(2, 12) * 7 % 97
    with torch.no_grad():
        return model.eval()(input_ids=tokens, use_cache=False).logits


def check_weights(name, config, dtype, shards):
    """Theirs to us, ours to them, single and sharded: the same logits to the bit."""
    theirs, single, sharded = (WORK / f"{name}-{kind}" for kind in ("hf", "single", "sharded"))
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    model.save_pretrained(theirs, **({"max_shard_size": "20KB"} if shards else {}))
    penstock("fits", theirs, theirs)
    for directory, most in ((single, 0), (sharded, 20000)):
        directory.mkdir()
        (directory / "config.json").write_text(penstock("config", theirs))
        penstock("copy", theirs, directory, most)
        expect(torch.equal(logits_of(theirs), logits_of(directory)), f"logits of {directory.name}")
    if not shards:
        expect((theirs / "model.safetensors").read_bytes() ==
               (single / "model.safetensors").read_bytes(), "files differ")
    pieces = len(list(sharded.glob("model-*-of-*.safetensors")))
    expect(pieces > 1, "not sharded")
    return f"{dtype}, {pieces} shards, logits equal"


def check_bytes():
    """A file of every type that numpy and torch know, written as they write it."""
    generator = np.random.default_rng(1)
    names = ("bool", "uint8", "int8", "int16", "uint16", "float16", "bfloat16", "int32",
             "uint32", "float32", "complex64", "float64", "int64", "uint64",
             "float8_e4m3fn", "float8_e5m2")
    tensors = {}
    for index, name in enumerate(names):
        kind = getattr(torch, name)
        shape = tuple(generator.integers(0, 5, index % 4))
        size = int(np.prod(shape)) * kind.itemsize
        raw = generator.integers(0, 2 if name == "bool" else 256, size, dtype=np.uint8)
        tensors[f'{name}."é\\{index}'] = torch.frombuffer(
            bytearray(raw.tobytes() or bytes(kind.itemsize)), dtype=kind
        )[:int(np.prod(shape))].reshape(shape).clone()
    source, copy = WORK / "types.safetensors", WORK / "types"
    safetensors.torch.save_file(tensors, source, metadata={"format": "pt"})
    copy.mkdir()
    penstock("copy", source, copy, 0)
    expect(source.read_bytes() == (copy / "model.safetensors").read_bytes(), "files differ")
    return f"{len(tensors)} types, files equal"


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name, path in published():
        config = load_config(path)
        case(f"{name} tensors", lambda: check_tensors(path, config))
        case(f"{name} config", lambda: check_printed(path, config, WORK / "printed.json"))
    for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"):
        path = WORK / f"{name}.json"
        path.write_text(penstock("config", f"preset:{name}"))
        case(f"preset:{name} tensors", lambda: check_tensors(f"preset:{name}", load_config(path)))
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    for index, (name, config) in enumerate(small_configs()):
        path = WORK / f"{name}.json"
        path.write_text(config.to_json_string())
        case(f"{name} tensors", lambda: check_tensors(path, config))
        case(f"{name} config", lambda: check_printed(path, config, WORK / "printed.json"))
        dtype = dtypes[index % len(dtypes)]
        case(f"{name} weights", lambda: check_weights(name, config, dtype, index % 2 == 1))
    case("all types", check_bytes)
    print(f"{counts['passed']} passed, {counts['FAILED']} failed")
    sys.exit(counts["FAILED"] != 0)


main()
