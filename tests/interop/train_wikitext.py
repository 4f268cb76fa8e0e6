#!/usr/bin/env python3
"""Trains a small GPT-2 on files of token ids as `penstock train` does, in PyTorch.

  train_wikitext.py make DIR                           random start weights and config.json
  train_wikitext.py train DIR TRAIN VALID STEPS BATCH  prints the validation loss

TRAIN and VALID have one sequence of ids per line. Hyper-parameters are those of run_wikitext.
"""
import math
import sys

import torch
import torch.nn.functional as F
import transformers

LR, MIN_LR, WARMUP, DECAY, CLIP = 1e-3, 1e-4, 20, 0.1, 1.0


def make(where):
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=50257, n_positions=128, n_embd=128, n_layer=4, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    transformers.GPT2LMHeadModel(config).save_pretrained(where)


def read(path):
    with open(path) as lines:
        return torch.tensor([[int(word) for word in line.split()] for line in lines])


def loss_of(model, batch):
    logits = model(input_ids=batch[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))


def rate(done, steps):
    if done <= WARMUP:
        return LR * done / WARMUP
    share = (done - WARMUP) / (steps - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * share)) * (LR - MIN_LR)


def train(where, train_path, valid_path, steps, batch):
    model = transformers.GPT2LMHeadModel.from_pretrained(where, local_files_only=True)
    model.train()
    sequences, valid = read(train_path), read(valid_path)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.95), eps=1e-8)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        rows = [(step * batch + i) % len(sequences) for i in range(batch)]
        optimizer.zero_grad()
        loss_of(model, sequences[rows]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [loss_of(model, part) * len(part) for part in valid.split(batch)]
    print(f"{sum(losses).item() / len(valid):.6f}")


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        train(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))


if __name__ == "__main__":
    main()
