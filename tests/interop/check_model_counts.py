"""Compare the parameters of every layer with those of transformers.

Usage: check_model_counts.py MODEL_FILES CONFIGS WORK   (run_model_counts calls it)

Models are made on the meta device, from the file where it is transformers' own and otherwise
from the config.json that Penstock writes for it; that one is compared in every case. Of the
files of 2026, in the folder beside CONFIGS, the text part is compared as it is: what Penstock
writes of these is for itself alone. Every other one, odd or even by PEN_SEED; all with
PEN_LONG=1.
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import torch
import transformers
from transformers import modeling_layers

PROGRAM, CONFIGS, WORK = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
PRESETS = ("gpt3-175b mt-nlg-530b gpt-1t llama-3.2-1b llama-3.2-3b qwen2.5-0.5b qwen2.5-3b "
           "qwen2.5-14b qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-14b qwen3-32b qwen3-235b-a22b "
           "gpt-oss-120b opt-350m opt-2.7b opt-30b bloom-1b1 bloom-1b7 bloom-3b bloom-176b "
           "gpt-neox-20b").split()
counts = {"passed": 0, "FAILED": 0}


def penstock(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return done.stdout


def our_layers(source):
    """([parameters, of those experts'] of every layer, [all, active, one more prediction])"""
    rows = [list(map(int, line.split())) for line in penstock("layers", source).splitlines()]
    return rows[:-1], rows[-1]


def make_model(config):
    kind = (transformers.AutoModelForMaskedLM if config.model_type == "bert"
            else transformers.AutoModelForCausalLM)
    with torch.device("meta"):
        return kind.from_config(config)


# Names under which transformers has a type that it does not know by its own.
OTHER_NAMES = {"kimi_k2": "deepseek_v3", "minimax_m3": "minimax_m3_vl_text"}
# Tables and constants that no training changes.
NO_WEIGHTS = ("tid2eid", "layer_scalar")


def layer_of(name, num_blocks):
    """Where a tensor is in Penstock's chain: embedding, blocks, head."""
    block = re.search(r"(?:^|\.)(?:h|layers?|blocks)\.(\d+)\.", name)
    if block:
        return int(block[1]) + 1
    first = ("embed", "wte", "wpe", "project_in")
    is_first = any(word in name for word in first) and "embed_out" not in name
    return 0 if is_first else num_blocks + 1


def their_layers(model, num_blocks):
    """The same of transformers; a tensor with two names counts once."""
    layers = [[0, 0] for _ in range(num_blocks + 2)]
    tied = set(getattr(model, "_tied_weights_keys", None) or {})
    if not model.config.tie_word_embeddings:
        tied = {name for name in tied if name.endswith("bias")}
    for name, value in model.state_dict().items():
        if name in tied or name.endswith(NO_WEIGHTS):
            continue
        layer = layers[layer_of(name, num_blocks)]
        layer[0] += value.numel()
        layer[1] += value.numel() if ".experts." in name else 0
    return layers


def their_prediction(model):
    """One further prediction, without what it has in common with the model; None where
    transformers cannot build one block more: there the count is Penstock's own."""
    base = model.get_decoder()
    try:
        block, norm = type(base.layers[-1]), type(base.norm)
        with torch.device("meta"):
            layer = modeling_layers.MtpLayer(model.config, block, norm, len(base.layers))
    except (IndexError, AttributeError):
        return None
    return sum(value.numel() for value in layer.state_dict().values())


def compare(source, config):
    layers, (total, active, prediction) = our_layers(source)
    model = make_model(config)
    theirs = their_layers(model, len(layers) - 2)
    differ = [(at, ours, other) for at, (ours, other) in enumerate(zip(layers, theirs))
              if ours != other]
    if differ:
        raise ValueError(f"layer, ours, theirs: {differ[:3]} of {len(differ)}")
    if total != sum(count for count, _ in theirs):
        raise ValueError(f"{total} in all, layers have {sum(count for count, _ in theirs)}")
    their = their_prediction(model) if prediction != 0 else None
    if their is not None and prediction != their:
        raise ValueError(f"{prediction} of a prediction, theirs {their}")
    extra = f", {active} for a token" if active != total else ""
    return f"{len(layers)} layers, {total} parameters{extra}"


def load_config(path):
    values = json.loads(pathlib.Path(path).read_text())
    # Weights are counted as they are trained, not as they are packed.
    values.pop("quantization_config", None)
    values["model_type"] = OTHER_NAMES.get(values["model_type"], values["model_type"])
    return transformers.AutoConfig.for_model(**values).get_text_config()


def case(name, source, path):
    try:
        verdict, detail = "passed", compare(source, load_config(path))
    except Exception as error:  # every failure is counted and shown
        verdict, detail = "FAILED", f"{type(error).__name__}: {error}"
    counts[verdict] += 1
    print(f"{verdict:<7} {name:<52} {detail}", flush=True)


def small_configs():
    """Switches that none of the files has on."""
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 5,
             "num_attention_heads": 4, "max_position_embeddings": 64}
    experts = {**sizes, "intermediate_size": 48, "num_key_value_heads": 2}
    latent = {**experts, "num_key_value_heads": 4, "kv_lora_rank": 8, "qk_nope_head_dim": 8,
              "qk_rope_head_dim": 4, "v_head_dim": 12, "n_routed_experts": 8, "n_group": 2,
              "num_experts_per_tok": 2, "topk_group": 1, "moe_intermediate_size": 24}
    yield "opt-biases-off-untied", transformers.OPTConfig(
        **sizes, ffn_dim=48, enable_bias=False, tie_word_embeddings=False)
    yield "opt-narrow-post-norm", transformers.OPTConfig(
        **sizes, ffn_dim=48, word_embed_proj_dim=16, do_layer_norm_before=False)
    yield "bloom-untied", transformers.BloomConfig(
        vocab_size=97, hidden_size=32, n_layer=5, n_head=4, tie_word_embeddings=False)
    yield "gpt-neox-tied-no-bias", transformers.GPTNeoXConfig(
        **sizes, intermediate_size=48, attention_bias=False, tie_word_embeddings=True)
    yield "bert-types", transformers.BertConfig(
        **sizes, intermediate_size=48, type_vocab_size=3)
    yield "mixtral-head-dim", transformers.MixtralConfig(
        **experts, head_dim=16, num_local_experts=4)
    yield "mixtral-tied", transformers.MixtralConfig(
        **experts, num_local_experts=4, tie_word_embeddings=True)
    yield "qwen3-moe-mixed", transformers.Qwen3MoeConfig(
        **experts, head_dim=8, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24,
        decoder_sparse_step=2, mlp_only_layers=[0, 1], attention_bias=True)
    yield "deepseek-v2", transformers.DeepseekV2Config(
        **latent, q_lora_rank=None, n_shared_experts=2, first_k_dense_replace=1)
    yield "deepseek-v3", transformers.DeepseekV3Config(
        **latent, q_lora_rank=16, n_shared_experts=2, first_k_dense_replace=1)
    yield "deepseek-v3-biases-no-query-rank", transformers.DeepseekV3Config(
        **latent, q_lora_rank=None, attention_bias=True, first_k_dense_replace=0)
    yield "deepseek-v3-biases", transformers.DeepseekV3Config(
        **latent, q_lora_rank=16, attention_bias=True, first_k_dense_replace=9)
    yield "gpt-oss-no-bias", transformers.GptOssConfig(
        **experts, head_dim=8, num_local_experts=4, num_experts_per_tok=2, attention_bias=False)


def unbuilt_configs():
    """Patterns that none of the files of 2026 has."""
    sizes = {"vocab_size": 97, "hidden_size": 64, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 16}
    state = {"mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2}
    yield "nemotron-mlp-biases", transformers.NemotronHConfig(
        **sizes, **state, hybrid_override_pattern="M-M*-E", intermediate_size=48, mlp_bias=True,
        use_bias=True, moe_intermediate_size=24, moe_shared_expert_intermediate_size=40,
        moe_latent_size=32, time_step_limit=[0.0, 1e9])
    yield "qwen3-next", transformers.Qwen3NextConfig(
        **sizes, num_hidden_layers=8, num_experts=4, num_experts_per_tok=2, intermediate_size=48,
        moe_intermediate_size=24, shared_expert_intermediate_size=40, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=16)
    yield "glm4-moe-no-norm", transformers.Glm4MoeConfig(
        **sizes, num_hidden_layers=4, intermediate_size=48, moe_intermediate_size=24,
        n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=2, attention_bias=True,
        first_k_dense_replace=2)


def both(name, source, path):
    """The file as it is, and what Penstock makes of it."""
    printed = WORK / "printed.json"
    printed.write_text(penstock("config", source))
    if path is not None:
        case(name, source, path)
        name = "  printed"
    case(name, source, printed)


def every_other(subjects, turn=itertools.count(int(os.environ.get("PEN_SEED", "0")))):
    """Those whose turn it is; the count goes on from one list to the next."""
    return [it for it in subjects if next(turn) % 2 == 0 or os.environ.get("PEN_LONG")]


def main():
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for path in every_other(sorted(CONFIGS.glob("*/*"))):
        both(path.name, path, path if path.parent.name == "hf" else None)
    for path in every_other(sorted((CONFIGS.parent / "configs-2026").glob("*.json"))):
        case(path.name, path, path)
    for name, config in every_other(unbuilt_configs()):
        path = WORK / f"{name}.json"
        path.write_text(config.to_json_string())
        case(name, path, path)
    for name in every_other(PRESETS):
        both(f"preset:{name}", f"preset:{name}", None)
    for name, config in every_other(small_configs()):
        path = WORK / f"{name}.json"
        path.write_text(config.to_json_string())
        both(name, path, path)
    print(f"{counts['passed']} passed, {counts['FAILED']} failed")
    sys.exit(counts["FAILED"] != 0)


main()
