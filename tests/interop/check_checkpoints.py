"""Let transformers open checkpoints that several processes wrote.

  check_checkpoints.py PENSTOCK SHARE_FILES WORK

Random weights of tiny models are saved by transformers, written as a step in
one to five shares, cut anew by `penstock checkpoint reshard` and taken out by
`penstock checkpoint export`. Every directory is loaded, no tensor may be
missing or surplus, and the logits must be those of the original, bit for bit;
in bfloat16 those of the original in bfloat16.
"""

import os
import subprocess
import sys

import torch
from transformers import (AutoModelForCausalLM, GPT2Config, GptOssConfig,
                          LlamaConfig, MixtralConfig, Qwen3Config,
                          Qwen3MoeConfig)

MODELS = {
    "gpt2": GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=64,
                       vocab_size=101, bos_token_id=None, eos_token_id=None),
    "llama": LlamaConfig(hidden_size=32, num_hidden_layers=3,
                         num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=48, vocab_size=101,
                         max_position_embeddings=64),
    "qwen3": Qwen3Config(hidden_size=32, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2,
                         head_dim=8, intermediate_size=48, vocab_size=101,
                         max_position_embeddings=64),
    "mixtral": MixtralConfig(hidden_size=32, num_hidden_layers=2,
                             num_attention_heads=4, num_key_value_heads=2,
                             intermediate_size=24, num_local_experts=3,
                             num_experts_per_tok=2, vocab_size=101,
                             max_position_embeddings=64),
    "qwen3_moe": Qwen3MoeConfig(hidden_size=32, num_hidden_layers=2,
                                num_attention_heads=4, num_key_value_heads=2,
                                head_dim=8, intermediate_size=48,
                                moe_intermediate_size=16, num_experts=5,
                                num_experts_per_tok=2, mlp_only_layers=[0],
                                vocab_size=101, max_position_embeddings=64),
    "gpt_oss": GptOssConfig(hidden_size=32, num_hidden_layers=2,
                            num_attention_heads=4, num_key_value_heads=2,
                            head_dim=8, intermediate_size=16,
                            num_local_experts=3, num_experts_per_tok=2,
                            sliding_window=8, vocab_size=101,
                            max_position_embeddings=64),
}
TOKENS = torch.arange(60).reshape(3, 20) * 7 % 101


def logits(directory, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, local_files_only=True, use_safetensors=True,
        attn_implementation="eager", output_loading_info=True)
    for kind, names in info.items():
        if names:
            raise SystemExit(f"{directory}: {kind}: {names}")
    with torch.no_grad():
        return model.eval()(input_ids=TOKENS, use_cache=False).logits


def run(*words):
    return subprocess.run(words, check=True, capture_output=True,
                          text=True).stdout.strip()


def main():
    penstock, share_files, work = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    count = 0

    def compare(directory, expected, dtype=torch.float32):
        nonlocal count
        if not torch.equal(logits(directory, dtype), expected):
            raise SystemExit(f"{directory}: other logits")
        count += 1

    for name, config in MODELS.items():
        source = os.path.join(work, name)
        AutoModelForCausalLM.from_config(config).save_pretrained(source)
        exact = logits(source, torch.float32)
        narrow = logits(source, torch.bfloat16)
        hashes = set()
        for shares in (1, 2, 5):
            to = f"{source}-{shares}"
            run(share_files, source, to, str(shares))
            compare(to + "/step-00000001", exact)
            hashes.add(run(penstock, "checkpoint", "hash", to).split()[0])
            step = run(penstock, "checkpoint", "reshard", to, "-o",
                       to + "-small", "--max-shard-size", "9kB")
            compare(step, exact)
            hashes.add(run(penstock, "checkpoint", "hash", step).split()[0])
            compare(run(penstock, "checkpoint", "export", to, "-o",
                        to + "-out"), exact)
            compare(run(penstock, "checkpoint", "export", step, "-o",
                        to + "-bf16", "--dtype", "bf16", "--max-shard-size",
                        "9kB"), narrow, torch.bfloat16)
        if len(hashes) != 1:
            raise SystemExit(f"{name}: hashes {hashes}")
    print(f"{count} directories opened in transformers, logits equal")


if __name__ == "__main__":
    main()
