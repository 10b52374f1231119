"""Base models that people continue, by name, Hugging Face id or config.json: size, pre-training tokens, peak rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

import pandas as pd

from cptlaw.errors import UsageError, did_you_mean, require_type
from cptlaw.findings import Finding
from cptlaw.planning.options import label, positive
from cptlaw.reading import read_json
from cptlaw.runs.known_models import bases, known_model
from cptlaw.units import format_quantity

# What people call the same: rounded (8B is 8.03B, 7B is 7.62B), and counted without embeddings (.36B of .49B).
NEAR = 1.5


KNOWN = ("n_params", "n_active", "ptpp", "lr_pretrain")


@dataclass(frozen=True)
class BaseModel:
    """What is known of a base model that a question names.

    Parameters
    ----------
    known
        What of a question it answers: n_params, n_active where experts idle, ptpp, lr_pretrain, as far as they are
        published.
    text_is_secret
        Whether nobody can have the text of its pre-training.
    loaded_as
        What a trainer loads it by: its id on Hugging Face, or its folder.
    findings
        What to heed, as where the name is that of a post-trained model.
    """

    known: Mapping[str, float]
    text_is_secret: bool
    loaded_as: str
    findings: tuple[Finding, ...] = ()


def base(name: str, given: Mapping[str, object] | None = None, *, needs_tokens: bool = True) -> BaseModel:
    """Return a base model by its name here, its id on Hugging Face, or the path of its config.json.

    Parameters
    ----------
    name
        Such as ``"llama-3.1-8b"``, ``"meta-llama/Llama-3.1-8B"`` or ``"out/config.json"`` (or its folder).
    given
        What the question says of it: n_params and ptpp, where they are given.
    needs_tokens
        Whether tokens per parameter must be known in the end.

    Raises
    ------
    UsageError
        If there is none of this name, its tokens are not published and not given, or it is not of the size or the
        tokens that are given.
    """
    require_type(name, (str, Path), "base (--base)", "the name of a model, or its config.json")
    listed, path = bases(), Path(name)
    is_config = path.suffix == ".json" or isfile(path / "config.json")  # no name is too long to be asked about
    row, findings = (_of_config(path, listed), ()) if is_config else _of_name(name, listed)
    known = {key: float(row[key]) for key in KNOWN if pd.notna(row.get(key))}
    if known.get("n_active") == known["n_params"]:
        del known["n_active"]  # a dense model
    asked = {key: value for key, value in (given or {}).items() if key in KNOWN[:3] and value is not None}
    for key, value in asked.items():
        _refuse_another(name, key, positive(value, key, "8B"), known.get(key))
    if needs_tokens and "ptpp" not in {*known, *asked}:
        where = "said in its config" if is_config else "published"
        example = f"--ptpp {2e12 / known['n_params']:.4g} for 2T tokens"
        raise UsageError(
            f"base (--base): {name} has {format_quantity(known['n_params'])} parameters, and how many tokens it was "
            f"pre-trained on is not {where}. Give tokens per parameter: {example}."
        )
    # An id that was named is meant, also one that is not the base model's own.
    loaded_as = name if "/" in name else str(row["hugging_face"]).split()[0]
    if is_config:
        loaded_as = str(path.parent if path.suffix == ".json" else path)
    return BaseModel(known, row.get("public_text") == "no", loaded_as, findings)


def _refuse_another(name: str, key: str, asked: float, known: float | None) -> None:
    if known is None or max(asked / known, known / asked) <= NEAR:
        return
    what = {"n_active": "active parameters", "ptpp": "pre-training tokens per parameter"}.get(key, "parameters")
    said, has = (f"{value:,.4g}" if key == "ptpp" else format_quantity(value, 3) for value in (asked, known))
    raise UsageError(
        f"{label(key)}: {said} {what} are asked about, and {name} (--base) has {has}. Leave {label(key)} out, or name "
        "the base model that you mean; of a model without a name here give n_params and ptpp (--n-params 8B --ptpp "
        "1875) without base."
    )


def _of_name(name: str, listed: pd.DataFrame) -> tuple[Mapping[str, Any], tuple[Finding, ...]]:
    """Return the row that a name means, and what is to be heeded."""
    known = known_model(name, listed)
    if known is None:
        near = did_you_mean(name.strip().lower().rpartition("/")[2], listed["name"].tolist())
        raise UsageError(
            f"base (--base): {name!r} is not a known base model.{near} `cptlaw bases` lists them. Of any other give "
            "the path of its config.json, or its size and its tokens per parameter: --n-params 8B --ptpp 1875."
        )
    row, is_base = known
    return row, () if is_base else (_post_trained(name, str(row["hugging_face"]).split()[0]),)


def _post_trained(name: str, model: str) -> Finding:
    return Finding(
        "warning",
        "not-a-base-model",
        f"{name} is post-trained: size and pre-training tokens are those of its base model, {model}, and what "
        "post-training did to its losses is not in the estimate.",
        f"Continue {model}, or measure the losses of the model that you continue.",
        data={"name": name, "base": model},
    )


def _of_config(path: Path, listed: pd.DataFrame) -> Mapping[str, Any]:
    """Return what a config.json tells: its parameters, and the rest where it names a model that is known."""
    from cptlaw.importing.model_size import parameters_of_config  # with all readers of logs, which few answers need

    file = path if path.suffix == ".json" else path / "config.json"
    config = read_json(file)
    count = parameters_of_config(config) if isinstance(config, dict) else None
    if count is None:
        raise UsageError(
            f"base (--base): {file} does not tell the size of a model. Expected hidden_size, num_hidden_layers, "
            "num_attention_heads and vocab_size, as Hugging Face writes them; or give --n-params and --ptpp."
        )
    named = known_model(str(config.get("_name_or_path") or ""), listed)
    row = {} if named is None else dict(named[0])
    # Tokens per parameter are of the size that was published: a model that was cut or grown has others.
    is_same = bool(row) and abs(count / float(row["n_params"]) - 1.0) < 0.05
    return {**(row if is_same else {}), "n_params": count, "n_active": parameters_of_config(config, active=True)}
