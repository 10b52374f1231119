"""The law of both losses along a merge, from studies/measured/merging.csv: chosen by leaving shifts and sizes out.

Between base loss L0 and adapted loss L1 the loss at weight w is L0 + (L1 - L0) f(w), f the cubic with f(0) = 0,
f(1) = 1 and the slopes a and b at its ends, both linear in logarithms of tokens per parameter and size, for each loss.

    python -m studies merge_law                  # what each form errs by on a shift and a size that it has not seen
    python -m studies merge_law --seal FILE      # forecasts of merges at 204K, ends as en-fr-ladder measured them
    python -m studies merge_law --score FILE     # holds them against studies/measured/merging_204k.csv
    python -m studies merge_law --write          # cptlaw/answering/alternatives.json, docs/how_to/merge_or_replay.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, ROOT, Array, write_result

TABLE, HELD = MEASURED / "merging.csv", MEASURED / "merging_204k.csv"
TARGET = ROOT / "cptlaw" / "answering" / "alternatives.json"
FORMS: dict[str, tuple[str, ...] | None] = {
    "line": None,
    "cubic": (),
    "tokens": ("tpp",),
    "tokens and size": ("tpp", "size"),
}
CHOSEN = "tokens and size"  # since the seal at 204K was scored, which the form without size missed
SHARE = 0.9  # of the rows on a size that was left out that intervals are made to hold
AT = {"tpp": 16.0, "size": 1e5}  # where the logarithms are 0


def rows_of(*paths: Path) -> pd.DataFrame:
    """Return the merges between the ends, each with the losses of its ends (`start`, `end`)."""
    frame = pd.concat([pd.read_csv(path) for path in paths or (TABLE,)], ignore_index=True)
    key = ["run", "tokens", "eval"]
    base = frame[frame["merge_weight"] == 0].groupby(["run", "eval"])["loss"].first()
    adapted = frame[frame["merge_weight"] == 1].set_index(key)["loss"]
    ends = {
        "start": [base.get(each) for each in zip(frame["run"], frame["eval"], strict=True)],
        "end": [adapted.get(each) for each in zip(*(frame[name] for name in key), strict=True)],
    }
    frame = frame.assign(**ends, tpp=frame["tokens"] / frame["n_params"])
    return frame[frame["merge_weight"].between(0.01, 0.99)].reset_index(drop=True)


def covariates(rows: pd.DataFrame, names: tuple[str, ...]) -> Array:
    """Return what slopes are linear in, (n, 1 + names)."""
    columns = {"tpp": rows["tpp"], "size": rows["n_params"]}
    logs = [np.log(columns[name].to_numpy(dtype=float) / AT[name]) for name in names]
    return np.stack([np.ones(len(rows)), *logs], axis=1)


def shape(weight: Array, slopes: Array) -> Array:
    """Return f(w), the share of the change of the loss, from its slopes at both ends (n, 2)."""
    w, (a, b) = weight, slopes.T
    return np.asarray(w**2 * (3 - 2 * w) + a * w * (1 - w) ** 2 - b * w**2 * (1 - w))


def fitted(rows: pd.DataFrame, names: tuple[str, ...]) -> Array:
    """Return the numbers behind both slopes (2, 1 + names), by least squares of relative errors."""
    w, x = rows["merge_weight"].to_numpy(dtype=float), covariates(rows, names)
    change = ((rows["end"] - rows["start"]) / rows["loss"]).to_numpy(dtype=float)
    measured = ((rows["loss"] - rows["start"]) / rows["loss"]).to_numpy(dtype=float)
    design = np.concatenate([x * (w * (1 - w) ** 2)[:, None], -x * (w**2 * (1 - w))[:, None]], axis=1)
    found = np.linalg.lstsq(design * change[:, None], measured - change * w**2 * (3 - 2 * w), rcond=None)[0]
    return np.asarray(found.reshape(2, -1))


def forecast(rows: pd.DataFrame, names: tuple[str, ...] | None, numbers: Array | None) -> Array:
    """Return the losses that a form forecasts; no names mean the straight line between the ends."""
    w = rows["merge_weight"].to_numpy(dtype=float)
    f = w if names is None or numbers is None else shape(w, covariates(rows, names) @ numbers.T)
    return np.asarray(rows["start"] + (rows["end"] - rows["start"]) * f)


def left_out(rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Yield which rows are not fitted: those of a corpus, and those of the largest size."""
    for name in rows["domain"].unique():
        yield f"shift to {name}", rows["domain"] == name
    yield "largest size", rows["n_params"] == rows["n_params"].max()


def errors(rows: pd.DataFrame, held: pd.Series, names: tuple[str, ...] | None) -> Array:
    """Return the relative errors of the rows that were left out."""
    numbers = None if names is None else fitted(rows[~held], names)
    return np.asarray(forecast(rows[held], names, numbers) / rows.loc[held, "loss"] - 1.0)


def comparison() -> pd.DataFrame:
    """Return the mean absolute error of each form in per cent of the loss, by what was left out."""
    found = []
    for role, rows in rows_of().groupby("eval"):
        for form, names in FORMS.items():
            missed = {what: 100 * np.abs(errors(rows, held, names)).mean() for what, held in left_out(rows)}
            found.append({"loss": role, "form": form, **missed})
    return pd.DataFrame(found)


def half_width(rows: pd.DataFrame, names: tuple[str, ...]) -> float:
    """Return the relative half-width at w = .5 that holds most of what was left out; it shrinks as 4 w (1 - w)."""
    wide = []
    for _, held in left_out(rows):
        w = rows.loc[held, "merge_weight"].to_numpy(dtype=float)
        wide += list(np.abs(errors(rows, held, names)) / (4 * w * (1 - w)))
    return float(np.quantile(wide, SHARE))


def chosen_numbers() -> dict[str, Any]:
    """Return the numbers of the chosen form for each loss, with their doubt and the change of loss they rest on."""
    names = FORMS[CHOSEN] or ()
    found: dict[str, Any] = {}
    for role, rows in rows_of(TABLE, HELD).groupby("eval"):
        numbers = fitted(rows, names)
        found[str(role)] = {
            "slopes": numbers.round(4).tolist(),
            "half_width": round(half_width(rows, names), 4),
        }
    return found


def tables() -> dict[str, pd.DataFrame]:
    """Return what replay gives beside the run without it merged back to the same source loss."""
    frame = pd.concat([pd.read_csv(path) for path in (TABLE, HELD) if path.exists()])
    frame = frame[(frame["seed"] == 0) & (frame["lr_schedule"] == "constant")]
    last = frame[frame["tokens"] == frame.groupby("run")["tokens"].transform("max")]
    key = ["domain", "n_params", "ptpp"]
    ends = last.pivot_table(index=[*key, "replay", "merge_weight"], columns="eval", values="loss").reset_index()
    cells = []
    for name, mine in ends.groupby(key):
        without = mine[mine["replay"] == 0].sort_values("merge_weight")
        base = float(without["source"].iloc[0])
        rising = without[without["merge_weight"] >= without["merge_weight"].iloc[int(without["source"].argmin())]]
        for replay, run in mine[(mine["merge_weight"] == 1) & (mine["replay"] > 0)].groupby("replay"):
            source, target = float(run["source"].iloc[0]), float(run["target"].iloc[0])
            weight = np.interp(source, rising["source"], rising["merge_weight"])
            merged = np.interp(weight, without["merge_weight"], without["target"])
            cells.append(
                [f"{name[0]}, {name[1] / 1e3:.0f}K, budget {name[2]:.0f}", f"{replay:g}",
                 f"{100 * (source / base - 1):.0f} %", f"{target:.3f}", f"{weight:.2f}", f"{merged:.3f}",
                 f"{100 * (merged / target - 1):+.1f} %"]
            )  # fmt: skip
    heads = ["run", "replay", "forgetting", "target loss", "merge at", "target loss", "merge against replay"]
    return {"replay": pd.DataFrame(cells, columns=heads)}


def sealed() -> dict[str, Any]:
    """Return forecasts of the merges at 204K: ends measured in en-fr-ladder, both forms with slopes."""
    frame = cl.examples.load("en-fr-ladder").frame
    here = frame[frame["n_params"].between(2e5, 2.1e5) & (frame["ptpp"] == 31) & (frame["seed"] == 0)]
    base = here[here["tokens"] == 0].set_index("eval")["loss"]
    found = []
    for replay in (0.0, 0.25):
        runs = here[(here["replay"] == replay) & (here["lr_schedule"] == "constant") & (here["tokens"] > 0)]
        for role, rows in runs.groupby("eval", observed=True):
            last = rows.loc[rows["tokens"].idxmax()]
            at = pd.DataFrame({"merge_weight": np.arange(1, 10) / 10}).assign(
                start=base[role], end=last["loss"], n_params=last["n_params"], tpp=last["tokens"] / last["n_params"]
            )
            fit = rows_of()[lambda each, role=role: each["eval"] == role]
            for form in ("tokens", "tokens and size"):
                names = FORMS[form] or ()
                at["loss"] = forecast(at, names, fitted(fit, names))
                w = at["merge_weight"]
                wide = half_width(fit, names) * 4 * w * (1 - w)
                for place, row in at.iterrows():
                    point = {"domain": "french", "replay": replay, "merge_weight": round(float(row["merge_weight"]), 1)}
                    ends = {
                        name: round(float(row["loss"] * (1 + sign * wide[place])), 4)
                        for name, sign in (("lo", -1), ("hi", 1))
                    }
                    found.append(
                        {"form": form, "eval": str(role), **point, "loss": round(float(row["loss"]), 4), **ends}
                    )
    return {"what": "losses along merges at 204K, 31 tokens per parameter, English to French, 16 tokens per parameter",
            "ends": "measured: en-fr-ladder, the same recipe", "forecasts": found}  # fmt: skip


def scored(path: Path) -> pd.DataFrame:
    """Return what the sealed forecasts missed by, by form and loss: mean absolute error in per cent, share inside."""
    forecasts = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["forecasts"])
    measured = pd.read_csv(HELD)
    measured = measured[measured["tokens"] == measured.groupby("run")["tokens"].transform("max")]
    both = forecasts.merge(
        measured[["domain", "replay", "eval", "merge_weight", "loss"]],
        on=["domain", "replay", "eval", "merge_weight"], suffixes=("", "_measured"),
    )  # fmt: skip
    both["error"] = 100 * (both["loss"] / both["loss_measured"] - 1)
    both["inside"] = both["loss_measured"].between(both["lo"], both["hi"])
    parts = both.groupby(["form", "eval", "replay"])
    return parts.agg(
        points=("error", "size"),
        error=("error", lambda each: each.abs().mean()),
        bias=("error", "mean"),
        inside=("inside", "mean"),
    ).reset_index()


def probe() -> Array:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return fitted(rows_of(), FORMS[CHOSEN] or ())


def main() -> None:
    """Print the comparison, or seal, score or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seal", type=Path)
    parser.add_argument("--score", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.seal:
        asked.seal.write_text(json.dumps(sealed(), indent=1) + "\n", encoding="utf-8")
    elif asked.score:
        print(scored(asked.score).round(2).to_string(index=False))
    elif asked.write:
        known = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
        known["merge"] = chosen_numbers()
        TARGET.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        write_result("merge_law", tables())
    else:
        print(comparison().round(2).to_string(index=False))


if __name__ == "__main__":
    main()
