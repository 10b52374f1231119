"""What the callback takes of a training by Hugging Face's Trainer.

    python -m studies callback_share            # about four minutes of one core
    python -m studies callback_share --steps 40 # says nothing about the share of a real run

A decoder of 2.5M parameters learns a random language on the CPU, with two validation sets and sixteen looks. A look has
two parts, the measurement and the forecast.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import numpy as np
import torch
import transformers

from cptlaw_sweep.integrations import TrainerCallback

VOCABULARY, CONTEXT = 512, 128


class Clocked(TrainerCallback):
    """The callback, and the seconds of the training beside those that it takes itself."""

    looks = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Start the clock of the training, behind the measurement of the base model."""
        super().on_train_begin(args, state, control, **given)
        self.begun = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Count a look where a forecast was made."""
        before = self._forecasting
        super().on_step_end(args, state, control, **given)
        self.looks += int(self._forecasting > before)

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds that measurements have taken, and forecasts."""
        return self._measuring, self._forecasting


def text(rows: int, seed: int) -> list[dict[str, list[int]]]:
    """Rows of a language in which each word may be followed by four others."""
    follow = np.random.default_rng(0).integers(0, VOCABULARY, (VOCABULARY, 4))
    draw = np.random.default_rng(seed)
    ids = np.empty((rows, CONTEXT), dtype=int)
    ids[:, 0] = draw.integers(0, VOCABULARY, rows)
    for place in range(1, CONTEXT):
        ids[:, place] = follow[ids[:, place - 1], draw.integers(0, 4, rows)]
    return [{"input_ids": row, "labels": row} for row in ids.tolist()]


def main() -> None:
    """Train, and print the share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=800)
    chosen = parser.parse_args()
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=192,
            intermediate_size=512,
            num_hidden_layers=5,
            num_attention_heads=6,
            max_position_embeddings=CONTEXT,
        )
    )
    callback = Clocked(max_target_loss=2.0, max_forgetting=0.05)
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=chosen.steps,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=32,
            learning_rate=1e-3,
            warmup_steps=20,
            lr_scheduler_type="cosine",
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            logging_steps=10**6,
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model,
            settings,
            train_dataset=text(2_000, 1),
            eval_dataset={"source": text(64, 2), "target": text(64, 3)},
            callbacks=[callback],
        )
        callback.attach(trainer)
        trainer.train()
    whole = time.monotonic() - callback.begun
    print(f"{sum(part.numel() for part in model.parameters()):,} parameters, {chosen.steps} steps in {whole:.0f} s")
    measuring, forecasting = callback.seconds
    print(f"both losses measured {callback.looks} times and more in {measuring:.2f} s: {measuring / whole:.2%}")
    print(f"{callback.looks} forecasts of both losses in {forecasting:.2f} s: {forecasting / whole:.2%}")


if __name__ == "__main__":
    main()
