"""A tiny decoder that tests train for a moment and save as a folder of Hugging Face, in either weight format."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import torch
import transformers

from cptlaw_sweep.tokenizers import as_pretrained

LLAMA = {
    "hidden_size": 16,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 64,
}


def save_tiny(folder, **how):
    """Train a tiny decoder for some steps and save it, once for each way of doing so; return the folder."""
    shutil.copytree(_trained(**how), folder, dirs_exist_ok=True)
    return folder


@cache
def _trained(*, weights="safetensors", family="llama", seed=0, dropout=0.0, steps=20, tokenizer=True, text=None):
    folder = Path(tempfile.mkdtemp(prefix="cptlaw-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    torch.manual_seed(seed)
    if family == "llama":
        config = transformers.LlamaConfig(**LLAMA, attention_dropout=dropout)
    else:
        config = transformers.GPT2Config(
            n_embd=16, n_layer=2, n_head=2, vocab_size=256, n_positions=64, resid_pdrop=dropout, embd_pdrop=dropout,
            attn_pdrop=dropout, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.tensor(list((text or "the old tongue is known to all. " * 100).encode()))
    for step in range(steps):
        start = (step * 37) % (len(ids) - 200)
        rows = ids[start : start + 4 * 33].reshape(4, 33)
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if weights == "safetensors":
        model.save_pretrained(str(folder))
    else:
        folder.mkdir(parents=True, exist_ok=True)
        model.config.save_pretrained(str(folder))
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    if tokenizer:
        as_pretrained({"kind": "bytes"}, None, None).save_pretrained(str(folder))
    return folder
