"""Tables of real runs, each converted from the file that its authors published to a runs table.

Tables of this project come with the package. Public ones are read from a folder; where each lies in public stands with
it (`TABLES`), and in studies/bench.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cptlaw import examples
from cptlaw.errors import DataError
from cptlaw.runs import Runs, read_runs

# Source losses of the base models of `watts`, trained with AdamW: printed in the repository, not in the file.
WATTS_BASE = {800.0: 3.4466, 1600.0: 3.4263, 3200.0: 3.4098}

BY_BUDGET = {"replay": "replay_ratio", "tokens": "cpt_tokens", "ptpp": "ptpp"}


@dataclass(frozen=True)
class PublicTable:
    """A public table.

    Attributes
    ----------
    file
        Its name in the data folder.
    where
        Repository and path, and its licence.
    columns
        Columns that the file must have.
    convert
        From the file's frame to a runs table.
    """

    file: str
    where: str
    columns: tuple[str, ...]
    convert: Callable[[pd.DataFrame], pd.DataFrame]


def _rows(frame: pd.DataFrame, evals: pd.Series | str, columns: dict[str, str]) -> pd.DataFrame:
    """Return one row per measured loss; `columns` maps names of the runs table to names in the file."""
    known = {name: frame[column].astype(float) for name, column in ({"n_params": "n_params"} | columns).items()}
    return pd.DataFrame({"run": frame["run_id"].astype(str), "eval": evals, **known})


def _static(frame: pd.DataFrame, evals: pd.Series | str) -> pd.DataFrame:
    """Return models from scratch: a run's last loss on each eval, seeds averaged."""
    known = _rows(frame, evals, {"tokens": "tokens", "loss": "loss"}).dropna(subset="loss")
    # Seeds would count a configuration as often as it was repeated.
    return known.groupby(["run", "eval", "n_params", "tokens"], sort=False)["loss"].mean().reset_index()


def chinchilla(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the 240 models that the replication fits: without the five of fewest tokens per parameter."""
    kept = frame.iloc[np.sort(np.argsort((frame["tokens"] / frame["n_params"]).to_numpy())[5:])]
    return _static(kept, "loss")


def gadre(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the over-trained models, short names for the evals."""
    return _static(frame, frame["domain"].str.replace("val_tok_mult/", "", regex=False))


def olmo(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ladder of models without its rerun."""
    once = frame[~frame["run_id"].str.contains("rerun")]
    return _static(once, once["domain"])


def dmsl(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one mixture in five of those at three sizes, one eval each for two of the losses."""
    sizes = frame.groupby("mix_id")["n_params"].nunique()
    # Each mixture is a law of its own: a fifth of them says as much of the laws at a fifth of the time.
    kept = sorted(sizes[sizes == 3].index)[::5]
    parts = [
        _static(frame[frame["mix_id"] == mix].assign(loss=frame[f"{loss}_loss"]), f"mix{mix} {loss}")
        for mix in kept
        for loss in ("c4", "github")
    ]
    return pd.concat(parts, ignore_index=True)


def watts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return CPT runs of both optimisers, one pair of evals each, with the base models' losses where they are known."""
    columns = BY_BUDGET | {"lr_peak": "cpt_peak_lr", "lr_pretrain": "pretrain_lr"}
    parts = [
        _rows(rows, role, {**columns, "loss": f"{role}_loss"}).assign(domain=str(optimiser))
        for optimiser, rows in frame.groupby("optimizer")
        for role in ("source", "target")
    ]
    bases = [
        {"run": f"base-{ptpp:g}", "eval": "source", "n_params": 6e7, "tokens": 0.0, "ptpp": ptpp, "loss": loss}
        for ptpp, loss in WATTS_BASE.items()
    ]
    return pd.concat([*parts, pd.DataFrame(bases).assign(domain="adamw")], ignore_index=True)


def delphi(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ladder of CPT runs, in tokens proportional to pre-training and constant; target losses by name."""
    rows = frame[frame["series"].isin(("k0p20", "isotoken_1B"))]
    return _rows(rows, rows["domain"], BY_BUDGET | {"lr_peak": "lr_factor", "loss": "loss"})


def mixlaws_ct(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of Pythia-70M on Pile and Python: Python is the target, the rest of the Pile the source."""
    rows = frame[frame["domain"].isin(("python", "PILE_weighted"))]
    roles = rows["domain"].map({"python": "target", "PILE_weighted": "source"})
    result = _rows(rows, roles, {"replay": "replay_ratio", "step": "step", "loss": "loss"})
    pretrained, per_step = rows["pt_tokens"].astype(float), rows["pt_tokens"] / rows["pt_steps"]
    return result.assign(tokens=per_step * result["step"], ptpp=pretrained / result["n_params"])


TABLES = {
    "chinchilla": PublicTable(
        "chinchilla_epoch.csv",
        "epoch-research/analyzing-chinchilla: data/svg_extracted_data.csv (as N, D, loss); no licence stated",
        ("run_id", "n_params", "tokens", "loss"),
        chinchilla,
    ),
    "gadre": PublicTable(
        "gadre_overtraining_c4.csv",
        "mlfoundations/scaling: exp_data/models/*.json (c4_original; one row per model and eval); MIT",
        ("run_id", "n_params", "tokens", "domain", "loss"),
        gadre,
    ),
    "olmo": PublicTable(
        "olmo_ladder.csv",
        "allenai/OLMo-ladder: src/scripts/paper/data/ (last step of each run, one row per eval); Apache-2.0",
        ("run_id", "n_params", "tokens", "domain", "loss"),
        olmo,
    ),
    "dmsl": PublicTable(
        "dmsl_slimpajama.csv",
        "meiqwq/Explaining-Data-Mixing-Scaling-Laws (61 mixtures x 3 sizes x 11 token counts); no licence stated",
        ("run_id", "mix_id", "n_params", "tokens", "c4_loss", "github_loss"),
        dmsl,
    ),
    "watts": PublicTable(
        "watts_musicpile_60m.csv",
        "WattsIshaan/sharpness-aware-pretraining (60M, music, losses at the end of CPT); Apache-2.0",
        ("run_id", "optimizer", "n_params", "cpt_tokens", "ptpp", "cpt_peak_lr", "source_loss", "target_loss"),
        watts,
    ),
    "delphi": PublicTable(
        "delphi_midtrain.csv",
        "marin-community/marin, pages of the delphi mid-training ladder; Apache-2.0 / MIT",
        ("run_id", "n_params", "cpt_tokens", "replay_ratio", "ptpp", "lr_factor", "series", "domain", "loss"),
        delphi,
    ),
    "mixlaws-ct": PublicTable(
        "mixlaws_ct_pythia70m.csv",
        "yegcjs/mixinglaws: data/ct/70M.txt; no licence stated",
        ("run_id", "n_params", "pt_steps", "pt_tokens", "replay_ratio", "step", "domain", "loss"),
        mixlaws_ct,
    ),
}
OWN = tuple(examples.EXAMPLES)


def load(study: str, folder: str | Path | None = None) -> Runs | None:
    """Return the runs of a study, or None where its public file is not in the folder.

    Raises
    ------
    DataError
        If the file lacks a column.
    """
    if study in OWN:
        return examples.load(study)
    known = TABLES[study]
    path = None if folder is None else Path(folder) / known.file
    if path is None or not path.exists():
        return None
    frame = pd.read_csv(path)
    missing = [name for name in known.columns if name not in frame.columns]
    if missing:
        raise DataError(
            f"{path}: column {missing[0]!r} is missing. Expected the table of {known.where}, with the columns "
            f"{', '.join(known.columns)}."
        )
    return read_runs(known.convert(frame))
