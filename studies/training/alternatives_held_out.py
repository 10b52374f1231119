"""The order of alternatives to replay on shifts and a size that they were not learned from.

    python -m studies alternatives_held_out            # the table
    python -m studies alternatives_held_out --write    # and its file for pages

Three cases: the shift to Python and the shift to French each learned from the other, and the largest size that has
both merges and adapters, learned from the smaller one. Whole training without replay is measured; of its merges (w from
.2 to .8) and adapters (each rank at its best rate) both losses are forecast as `answer` does. Judged: the error, the
share within the 90 % intervals, and the order of each pair of alternatives whose intervals do not overlap.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from studies.harness import show, write_result
from studies.training import adapters, merge_law

CASES = (("shift to python", "python", 45936, 124.0), ("shift to french", "french", 45936, 124.0),
         ("125K, from 46K", "french", 124672, 31.0))  # fmt: skip
WEIGHTS = (0.2, 0.4, 0.6, 0.8)
NAMES = merge_law.FORMS[merge_law.CHOSEN] or ()


def of_case(rows: pd.DataFrame, name: str, domain: str, n_params: float) -> pd.Series:
    """Return which rows a case may not learn from: those of its shift, or of its size and above."""
    return rows["domain"] == domain if name.startswith("shift") else rows["n_params"] >= n_params


def merges(name: str, domain: str, n_params: float, ptpp: float) -> Iterator[dict[str, object]]:
    """Yield the merges of a case's run without replay, forecast and measured."""
    for role, rows in merge_law.rows_of().groupby("eval"):
        held = of_case(rows, name, domain, n_params)
        asked = rows[(rows["domain"] == domain) & (rows["n_params"] == n_params) & (rows["ptpp"] == ptpp)]
        asked = asked[(asked["replay"] == 0) & (asked["seed"] == 0) & (asked["lr_schedule"] == "constant")]
        asked = asked[(asked["tokens"] == asked["tokens"].max()) & asked["merge_weight"].round(2).isin(WEIGHTS)]
        said = merge_law.forecast(asked, NAMES, merge_law.fitted(rows[~held], NAMES))
        w = asked["merge_weight"].to_numpy(dtype=float)
        wide = said * merge_law.half_width(rows[~held], NAMES) * 4 * w * (1 - w)
        for weight, loss, off, measured in zip(w, said, wide, asked["loss"], strict=True):
            ends = {"lo": loss - off, "loss": loss, "hi": loss + off, "measured": measured}
            yield {"case": name, "eval": role, "what": f"merged at {weight:g}", **ends}


def low_rank(name: str, domain: str, n_params: float, ptpp: float) -> Iterator[dict[str, object]]:
    """Yield the adapters of a case, forecast and measured."""
    best, whole = adapters.best_rates(), adapters.whole_training()
    known = adapters.learned(best[~of_case(best, name, domain, n_params)])
    at = (whole["domain"] == domain) & (whole["n_params"] == n_params) & (whole["ptpp"] == ptpp)
    ends = whole[at].sort_values("tokens")
    base, full = ends.iloc[0], ends.iloc[-1]
    asked = best[(best["domain"] == domain) & (best["n_params"] == n_params) & (best["ptpp"] == ptpp)]
    for row in asked.to_dict("records"):
        over = row["lora_rank"] / adapters.WIDTHS[int(n_params)]
        entry = min(known, key=lambda each: abs(np.log(each["rank_over_width"] / over)))
        for role, share in (("target", "gain"), ("source", "forgetting")):
            change = full[role] - base[role]
            low, loss, high = np.sort(base[role] + change * np.asarray(entry[share]))
            measured = base[role] + change * row[share]
            found = {"lo": low, "loss": loss, "hi": high, "measured": measured}
            yield {"case": name, "eval": role, "what": f"adapter of rank {row['lora_rank']:g}", **found}


def forecasts() -> pd.DataFrame:
    """Return every alternative of the three cases, forecast and measured."""
    return pd.DataFrame([row for case in CASES for make in (merges, low_rank) for row in make(*case)])


def judged(rows: pd.DataFrame) -> dict[str, float]:
    """Return how many pairs are told apart, how many of them in the right order, errors and coverage."""
    pairs = list(combinations(rows.to_dict("records"), 2))
    apart = [(one, two) for one, two in pairs if one["hi"] < two["lo"] or two["hi"] < one["lo"]]
    right = [(one["loss"] < two["loss"]) == (one["measured"] < two["measured"]) for one, two in apart]
    return {
        "alternatives": len(rows),
        "pairs": len(pairs),
        "apart": len(apart),
        "right": sum(right),
        "error": 100 * float((rows["loss"] / rows["measured"] - 1).abs().mean()),
        "inside": 100 * float(rows["measured"].between(rows["lo"], rows["hi"]).mean()),
    }


def order() -> pd.DataFrame:
    """Return the judgement of each case and loss, and of all pairs together, as pages show it."""
    found = [
        {"case": case, "loss": role, **judged(rows)}
        for (case, role), rows in forecasts().groupby(["case", "eval"], sort=False)
    ]
    every = pd.DataFrame(found)
    sums = every[["alternatives", "pairs", "apart", "right"]].sum()
    means = every[["error", "inside"]].mean()
    every = pd.concat([every, pd.DataFrame([{"case": "all", "loss": "both", **sums, **means}])], ignore_index=True)
    counts = ["alternatives", "pairs", "apart", "right"]
    shown = every.assign(error=every["error"].map("{:.1f} %".format), inside=every["inside"].map("{:.0f} %".format))
    shown[counts] = shown[counts].astype(int)
    return shown.rename(columns={"apart": "told apart", "right": "in the right order", "inside": "inside 90 %"})


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return forecasts()


def main() -> None:
    """Print the table, or write it for pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    tables = {"order": order()}
    if parser.parse_args().write:
        write_result("alternatives_held_out", tables)
    print(show(tables))


if __name__ == "__main__":
    main()
