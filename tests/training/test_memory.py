"""Memory: micro-batches that divide, a cross-entropy in pieces, recomputed activations, the estimate of a dry run."""

import json
import subprocess
import sys

import pytest
import torch
import transformers
import yaml
from facts import refused
from small_sweep import RECIPE, prepared, results, train_here

from cptlaw.errors import DataError, install_command
from cptlaw_sweep import loop, models, sizes
from cptlaw_sweep.load_sweep import load_sweep

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


def test_a_micro_batch_divides_or_is_refused(recipe):
    with refused(DataError, "micro_batch 4", "10 rows", "1, 2, 5, 10"):
        load_sweep(recipe(batch=10, micro_batch=4))
    with refused(DataError, "batch 3", "2 processes"):
        load_sweep(recipe(batch=3, resources={"processes": 2}))
    with refused(DataError, "2 rows"):
        load_sweep(recipe(batch=4, micro_batch=4, resources={"processes": 2}))


def decoder(family):
    config = {
        "llama": lambda: transformers.LlamaConfig(
            hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, vocab_size=300,
        ),
        "gpt2": lambda: transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=300, n_positions=64),
        "gemma2": lambda: transformers.Gemma2Config(
            hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=4, vocab_size=300,
        ),
    }[family]()  # fmt: skip
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_loss_in_pieces_has_the_value_and_the_gradient_of_the_whole(family, monkeypatch):
    monkeypatch.setattr(models, "piece_tokens", lambda vocabulary: 7)
    model = decoder(family).eval()
    rows = torch.randint(300, (3, 21))
    whole = models.mean_loss(model, rows)
    whole.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    assert models.enable_loss_in_pieces(model)
    found = models.loss_in_pieces(model, rows)
    found.backward()
    assert found.item() == pytest.approx(whole.item(), rel=1e-6)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, expected[name], rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        assert float(models.loss_in_pieces(model, rows, "sum")) == pytest.approx(whole.item() * 60, rel=1e-5)
    assert model(input_ids=rows).logits.shape == (3, 21, 300)  # it is still an ordinary model


def test_a_model_whose_logits_are_capped_keeps_its_own_way():
    model = decoder("gemma2")
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(1000)  # so that the cap is felt
    assert not models.enable_loss_in_pieces(model)


def test_no_tensor_of_all_logits_is_made(monkeypatch):
    monkeypatch.setattr(models, "piece_tokens", lambda vocabulary: 16)
    model = decoder("llama")
    assert models.enable_loss_in_pieces(model)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.ndim and out.shape[-1] == 300:
                largest = max(largest, out.numel())
            return out

    with Watch():
        models.loss_in_pieces(model, torch.randint(300, (4, 65))).backward()
    assert largest == 16 * 300


def test_recomputed_activations_and_pieces_change_no_loss(recipe, tmp_path, monkeypatch):
    sweep, plain = prepared(recipe(), tmp_path / "plain")
    train_here(sweep, plain)
    again, saved = prepared(recipe(activation_checkpointing=True), tmp_path / "saved")
    assert [job.id for job in again.jobs] == [job.id for job in sweep.jobs]
    monkeypatch.setattr(loop, "LOGITS", 1)
    monkeypatch.setattr(models, "piece_tokens", lambda vocabulary: 50)
    assert not train_here(again, saved).failures
    ours, theirs = results(again, saved), results(sweep, plain)
    for name in theirs:
        for one, other in zip(ours[name].splitlines(), theirs[name].splitlines(), strict=True):
            assert json.loads(one)["loss"] == pytest.approx(json.loads(other)["loss"], rel=1e-4)


def saved_bytes(model, rows):
    """Return what autograd keeps for the backward pass, weights left out, each piece of storage once."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = (storage.nbytes(), storage)  # held, so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=rows, use_cache=False)
    return sum(size for size, _ in seen.values())


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_estimate_of_activations_is_what_autograd_keeps(family, checkpointing):
    config = {
        "llama": lambda: transformers.LlamaConfig(
            hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
            vocab_size=64, max_position_embeddings=256,
        ),
        "gpt2": lambda: transformers.GPT2Config(
            n_embd=128, n_layer=4, n_head=8, vocab_size=64, n_positions=256, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0,
        ),
    }[family]()  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    if checkpointing:
        models.recompute_activations(model)
    found = saved_bytes(model, torch.randint(64, (4, 256)))
    shape = sizes.DecoderShape.of(config.to_dict())
    n = sum(p.numel() for p in model.parameters())
    told = sizes.memory_of(n, n, shape, rows=4, context=256, options={"checkpointing": checkpointing})
    if checkpointing:  # while one layer is computed again, its own activations stand beside what was kept
        layer = saved_bytes_of_a_layer(config)
        found += layer
    assert 0.9 * found <= told["activations"] <= 1.35 * found


def saved_bytes_of_a_layer(config):
    value = config.to_dict()
    single = type(config)(**{**value, "num_hidden_layers": 1, "n_layer": 1})
    return saved_bytes(transformers.AutoModelForCausalLM.from_config(single).train(), torch.randint(64, (4, 256)))


def test_an_8b_model_is_priced_as_those_who_train_it_know():
    config = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    }  # fmt: skip
    shape, n = sizes.DecoderShape.of(config), 8_030_261_248
    options = {"precision": "bf16", "checkpointing": True, "shards": 8}
    told = sizes.memory_of(n, n, shape, rows=1, context=4096, options=options)
    # 18 bytes a parameter over eight processes, and logits never whole: 4,096 x 128,256 x 14 bytes would be 7.4 GB.
    assert sum(told[name] for name in ("weights", "gradients", "optimizer")) == pytest.approx(18 * n / 8, rel=1e-6)
    assert told["logits"] < 1e9
    assert told["activations"] < 6e9
    lora = sizes.memory_of(n, 40_000_000, shape, rows=1, context=4096, options={"precision": "bf16"})
    assert lora["weights"] + lora["gradients"] + lora["optimizer"] == pytest.approx(2 * n + 18 * 40e6, rel=0.01)


WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "accelerate", "fsspec", "datasets", "huggingface_hub"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refuse())
from cptlaw.cli import main
main(["sweep", "sweep.yaml", *sys.argv[1:]])
"""


def test_a_dry_run_needs_no_torch_and_tells_memory(recipe, tmp_path):
    from tiny_model import save_tiny

    save_tiny(tmp_path / "models" / "base", steps=1)
    models_ = {**RECIPE["models"], "base": {"pretrained": "models/base"}}
    recipe(models=models_, tokenizer="bytes")
    command = [sys.executable, "-c", WITHOUT]
    ended = subprocess.run([*command, "--dry-run", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert {run["kind"] for run in found["runs"]} == {"trunk", "base", "adapt"}
    assert all(run["memory_bytes"] > 7e8 for run in found["runs"])
    assert "weights" in found["memory"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert install_command("cptlaw[training]") in ended.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {"a": {"width": 12, "layers": "1e12", "heads": 2}}}, "at most 10000 layers"),
        ({"models": {"a": {"config": {"model_type": "llama", "num_hidden_layers": 10**12}}}}, "No decoder has so many"),
        ({"adapt": {**RECIPE["adapt"], "tokens_per_param": "1e15"}}, "optimiser steps. Expected 100,000,000 or fewer"),
        ({"pretrain": {**RECIPE["pretrain"], "ptpp": "1e15"}}, "optimiser steps. Expected 100,000,000 or fewer"),
        ({"context": 10**9, "batch": 10**6}, "tokens per step are too many"),
    ],
)
def test_sizes_beyond_all_bounds_are_refused_at_once(recipe, change, message):
    with pytest.raises(DataError, match=message):
        load_sweep(recipe(**change))


def test_a_recipe_of_thousands_of_runs_is_read_in_linear_time(recipe):
    """Counted by calls, not by the clock: twice the runs, twice the work."""
    import cProfile
    import pstats

    def calls(n):
        path = recipe(adapt={**RECIPE["adapt"], "orders": list(range(n))})
        yaml.safe_load(path.read_text())
        profile = cProfile.Profile()
        profile.runcall(load_sweep, path)
        return pstats.Stats(profile).total_calls

    few, many, more = calls(100), calls(200), calls(300)
    assert more - many == pytest.approx(many - few, rel=0.02)
