"""Open base models that people continue, by name: size, pre-training tokens, and peak rate where it is published."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from cptlaw.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Base:
    """One open base model.

    Parameters
    ----------
    name
        As ``answer`` takes it.
    n_params, pt_tokens
        Total parameters, and tokens of pre-training.
    lr_pretrain
        Peak rate of pre-training; ``None`` where none is published.
    source
        Where these numbers stand.
    """

    name: str
    n_params: float
    pt_tokens: float
    lr_pretrain: float | None
    source: str

    @property
    def ptpp(self) -> float:
        """Pre-training tokens per parameter."""
        return self.pt_tokens / self.n_params


LLAMA_2, LLAMA_3 = "Touvron et al. 2023, arXiv:2307.09288", "Grattafiori et al. 2024, arXiv:2407.21783"
PYTHIA, OLMO_2 = "Biderman et al. 2023, arXiv:2304.01373", "OLMo et al. 2025, arXiv:2501.00656"
QWEN_2_5 = "Qwen et al. 2024, arXiv:2412.15115"
BASES = (
    Base("llama-2-7b", 6.74e9, 2e12, 3e-4, LLAMA_2),
    Base("llama-2-13b", 13.0e9, 2e12, 3e-4, LLAMA_2),
    Base("llama-2-70b", 69.0e9, 2e12, 1.5e-4, LLAMA_2),
    Base("llama-3.1-8b", 8.03e9, 15e12, 3e-4, LLAMA_3),
    Base("llama-3.1-70b", 70.6e9, 15e12, 1.5e-4, LLAMA_3),
    Base("llama-3.1-405b", 405e9, 15.6e12, 8e-5, LLAMA_3),
    Base("olmo-2-7b", 7.3e9, 4.05e12, 3e-4, OLMO_2),
    Base("olmo-2-13b", 13.7e9, 5.6e12, 9e-4, OLMO_2),
    Base("pythia-70m", 70.4e6, 300e9, 1e-3, PYTHIA),
    Base("pythia-410m", 405e6, 300e9, 3e-4, PYTHIA),
    Base("pythia-1.4b", 1.41e9, 300e9, 2e-4, PYTHIA),
    Base("pythia-6.9b", 6.86e9, 300e9, 1.2e-4, PYTHIA),
    Base("qwen2.5-1.5b", 1.54e9, 18e12, None, QWEN_2_5),
    Base("qwen2.5-7b", 7.61e9, 18e12, None, QWEN_2_5),
    Base("qwen2.5-72b", 72.7e9, 18e12, None, QWEN_2_5),
)


def bases() -> pd.DataFrame:
    """Return the known open base models, one a row.

    Returns
    -------
    DataFrame
        name, n_params, pt_tokens, ptpp, lr_pretrain (NaN where none is published), source.

    Examples
    --------
    >>> float(bases().set_index("name").loc["llama-3.1-8b", "lr_pretrain"])
    0.0003
    """
    rows = [(base.name, base.n_params, base.pt_tokens, base.ptpp, base.lr_pretrain, base.source) for base in BASES]
    columns = ["name", "n_params", "pt_tokens", "ptpp", "lr_pretrain", "source"]
    return pd.DataFrame(rows, columns=columns).astype({"lr_pretrain": float})


def base(name: str) -> Base:
    """Return a base model by name.

    Raises
    ------
    UsageError
        If there is none of this name.
    """
    known = {each.name: each for each in BASES}
    if name.lower() not in known:
        raise UsageError(
            f"base (--base): {name!r} is not a known base model.{did_you_mean(name.lower(), known)} `cptlaw bases` "
            "lists them; of any other say its parameters and its tokens per parameter."
        )
    return known[name.lower()]
