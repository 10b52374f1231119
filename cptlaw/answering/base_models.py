"""Open base models that people continue, by name: size, pre-training tokens, and peak rate where it is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.errors import UsageError, did_you_mean


def bases() -> pd.DataFrame:
    """Return the known open base models, one a row.

    Returns
    -------
    DataFrame
        name, n_params (all), pt_tokens, ptpp, lr_pretrain (NaN where none is published), public_text (whether anybody
        can have its text: yes or no), source.

    Examples
    --------
    >>> float(bases().set_index("name").loc["llama-3.1-8b", "lr_pretrain"])
    0.0003
    """
    listed = pd.read_csv(Path(__file__).with_name("bases.csv"))
    listed.insert(3, "ptpp", listed["pt_tokens"] / listed["n_params"])
    return listed


def base(name: str) -> dict[str, Any]:
    """Return a base model by name: what of `bases` a question asks for and is published.

    Raises
    ------
    UsageError
        If there is none of this name.
    """
    known = bases().set_index("name")
    if name.lower() not in known.index:
        raise UsageError(
            f"base (--base): {name!r} is not a known base model.{did_you_mean(name.lower(), list(known.index))} "
            "`cptlaw bases` lists them; of any other say its parameters and its tokens per parameter."
        )
    return dict(known.loc[name.lower(), ["n_params", "ptpp", "lr_pretrain", "public_text"]].dropna())
