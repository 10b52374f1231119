"""What laws make of rate and replay together: residuals by rate x replay, and the corners from a cross of runs.

    python -m studies rate_and_replay_law             # prints the tables; two minutes of CPU
    python -m studies rate_and_replay_law --write     # keeps them for studies/bench.md

The runs are those of `rate_and_replay` at 46K and 125K, each shift a table of its own. A *cross* is what most tables
have: all replays at the middle rate, all rates at replay .1. The corners, every other replay at the lowest and highest
rate, are then forecast. Beside the laws stand two rules that know nothing of laws, for the same size and length:
differences of log losses add up, and rises over the base model multiply. In the third form what every loss pays for
the raised rate, U of `shared-tokens`, grows as a power of the rate (raised=true).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.fitting.learned.forgetting_and_gain import expected
from studies.forecasts.rate_and_replay import ALIKE, FIRST, SHIFTS, as_study, middle_of, named, outcomes, runs, size_of
from studies.harness import progress, show, write_result

Array = NDArray[np.float64]

LARGEST = 1.5e5  # parameters; above no size has all corners
LAWS = {
    "shared-tokens:mix=rehearsal:rate=progress": "rate as pace",
    "shared-tokens:mix=rehearsal:rate=amplitude": "rate as height",
    "shared-tokens:mix=rehearsal:rate=progress:raised=true": "rate as pace, U lr^u",
}
CROSS = 0.1  # the replay at which all rates are fitted
ROLES = ("source", "target")


def tables_of(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each shift, with its base models, of the smaller sizes and without warm-up."""
    short = (frame["tokens"] > 0) & (frame["tokens"] < 0.95 * FIRST * frame["n_params"])
    kept = frame[(frame["n_params"] < LARGEST) & ~short]
    for shift in SHIFTS:
        rows = kept[(kept["domain"] == shift) | kept["domain"].isna()].drop(columns="domain")
        if (rows["tokens"] > 0).any():
            yield shift, rows.reset_index(drop=True)


def relative(frame: pd.DataFrame) -> pd.Series:
    """Return the rate of each row over the middle rate of its size."""
    trained = frame[frame["tokens"] > 0]
    middle = trained.groupby("n_params")["lr_peak"].agg(middle_of)
    return frame["lr_peak"] / frame["n_params"].map(middle)


def residuals(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the errors of fits to all rows, a row per loss, and the exponents of the rate that were fitted."""
    found, exponents = [], []
    for shift, rows in tables_of(frame):
        for role in ROLES:
            own = rows[(rows["eval"] == role) & (rows["tokens"] > 0)]
            for law, name in LAWS.items():
                progress(f"{shift}, {role}: {name}")
                fit = cl.fit(law, rows, role)
                error = np.log(fit.predict(own) / own["loss"].to_numpy(dtype=float))
                found.append(own.assign(shift=shift, law=name, error=100 * error, rate=relative(rows).loc[own.index]))
                known = {letter: f"{fit.params[letter]:.2f}" for letter in ("h", "u") if letter in fit.params}
                exponents.append({"shift": SHIFTS[shift], "loss": role, "law": name, **known})
    return pd.concat(found, ignore_index=True), pd.DataFrame(exponents).fillna("-")


def by_rate_and_replay(found: pd.DataFrame) -> pd.DataFrame:
    """Return the mean error by law, loss, replay and rate, in percent, over shifts, sizes and lengths."""
    lines = []
    for (law, role, replay), part in found.groupby(["law", "eval", "replay"], sort=False, observed=True):
        means = part.groupby(part["rate"].map(named))["error"].mean()[["low rate", "middle rate", "high rate"]]
        cells = {str(rate): f"{mean:+.2f}" for rate, mean in means.items()}
        lines.append({"law": law, "loss": role, "replay": f"{replay:g}", **cells})
    ordered = pd.DataFrame(lines)
    return ordered.sort_values(["law", "loss", "replay"], key=lambda one: one.map(_order), kind="stable")


def _order(value: str) -> float:
    for known in (list(LAWS.values()), list(ROLES)):
        if value in known:
            return float(known.index(value))
    return float(value)


def sizes(found: pd.DataFrame) -> pd.DataFrame:
    """Return the mean absolute error of the same fits by law, loss, shift and size."""
    means = found.groupby(["law", "eval", "shift", "n_params"], sort=False, observed=True)["error"]
    table = means.agg(lambda each: f"{each.abs().mean():.2f}").unstack("law")[list(LAWS.values())].reset_index()
    table = table.assign(shift=table["shift"].map(SHIFTS), n_params=table["n_params"].map(size_of))
    return table.rename(columns={"eval": "loss", "n_params": "size"})


# -- corners from a cross ----------------------------------------------------------------------------------------------


def by_rules(frame: pd.DataFrame, role: str) -> pd.DataFrame:
    """Return what the two rules make of every run off the cross, at each size and length: columns sum and product."""
    wide = outcomes(frame.assign(domain="here")) if "domain" not in frame else outcomes(frame)
    base = wide[role] - wide["rise"] if role == "source" else wide[role] + wide["gain"]
    wide = wide.assign(base=base)
    found = []
    for _, part in wide.groupby(["n_params", wide["tokens"]]):
        of_replay = part[np.isclose(part["rate"], 1.0)].set_index("replay")[role]
        of_rate = part[np.isclose(part["replay"], CROSS)].set_index("lr_peak")[role]
        centre = float(of_replay.loc[CROSS])
        corners = part[~np.isclose(part["rate"], 1.0) & ~np.isclose(part["replay"], CROSS)]
        one, other = of_replay.loc[corners["replay"]].to_numpy(), of_rate.loc[corners["lr_peak"]].to_numpy()
        start = corners["base"].to_numpy()
        product = start + (one - start) * (other - start) / (centre - start)
        found.append(corners[["run", "tokens"]].assign(sum=one * other / centre, product=product))
    return pd.concat(found, ignore_index=True)


def corners(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of forecasts of the corners from the cross, a row per loss and law or rule."""
    found = []
    for shift, rows in tables_of(frame):
        rate = relative(rows)
        off = (rows["tokens"] > 0) & ~np.isclose(rate, 1.0) & ~np.isclose(rows["replay"], CROSS)
        named = rows.assign(domain=rows["run"].map(lambda _, shift=shift: shift))
        for role in ROLES:
            asked = rows[off & (rows["eval"] == role)].assign(rate=rate)
            measured = asked["loss"].to_numpy(dtype=float)
            rules = asked.merge(by_rules(named, role), on=["run", "tokens"], how="left", validate="one_to_one")
            said: dict[str, tuple[Array, Array | None, Array | None]] = {
                name: (rules[column].to_numpy(dtype=float), None, None)
                for column, name in (("sum", "log losses add up"), ("product", "rises multiply"))
            }
            for law, name in LAWS.items():
                progress(f"corners of {shift}, {role}: {name}")
                try:
                    fit = cl.fit(law, rows[~off], role)
                except CptlawError as problem:
                    progress(f"not fitted: {problem}")
                    continue
                low, middle, high = np.exp(fit.log_quantiles(asked, [0.05, 0.5, 0.95]))
                said[name] = (middle, low, high)
            for name, (loss, low, high) in said.items():
                inside = np.nan if low is None else (low <= measured) & (measured <= high)
                error = 100 * np.log(np.maximum(loss, 0.1) / measured)
                found.append(asked.assign(shift=shift, law=name, error=error, inside=inside))
    return pd.concat(found, ignore_index=True)


def of_corners(found: pd.DataFrame) -> pd.DataFrame:
    """Return error, mean error by corner and the share inside by law and loss."""
    lines = []
    for (role, law), part in found.groupby(["eval", "law"], sort=False, observed=True):
        high, more = part["rate"] > 1, part["replay"] > CROSS
        corner = {
            f"{a} rate, {b} replay": f"{part.loc[one & two, 'error'].mean():+.1f}"
            for a, one in (("low", ~high), ("high", high))
            for b, two in (("less", ~more), ("more", more))
        }
        inside = part["inside"].dropna()
        lines.append(
            {"loss": role, "law": law, "losses": len(part), "error": f"{part['error'].abs().mean():.2f}"}
            | corner
            | {"inside 90 %": f"{inside.astype(float).mean():.2f}" if len(inside) else "-"}
        )
    return pd.DataFrame(lines)


# -- answers without runs ----------------------------------------------------------------------------------------------


def without_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what is forecast of forgetting and gain before any run, less what was measured, in points, at `ALIKE`.

    The numbers that the package ships were learned from tables of the same corpora, but none of rate with replay.
    """
    rows = as_study(outcomes(frame))
    rows = rows[np.isclose(rows["per"], ALIKE, rtol=0.05) & (rows["n_params"] < LARGEST)]
    rows = rows.assign(novelty=np.log(rows["base_target"] / rows["base_source"]))
    forgotten = rows["source"] / rows["base_source"] - 1.0
    gained = 1.0 - rows["target"] / rows["base_target"]
    both = (
        ("forgetting", forgotten, expected("forgetting", rows).quantile(0.5)),
        ("gain", gained, expected("gain", rows).fall(0.5)),
    )
    lines = []
    for outcome, measured, said in both:
        error = pd.DataFrame(
            {"replay": rows["replay"], "rate": rows["rate"].round(2), "error": 100 * (said - measured)}
        )
        for replay, part in error.groupby("replay"):
            cells = {
                f"rate x {rate:.2g}": f"{mean:+.1f}" for rate, mean in part.groupby("rate")["error"].mean().items()
            }
            lines.append({"of": outcome, "replay": f"{replay:g}", **cells})
    return pd.DataFrame(lines)


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    shift, rows = next(tables_of(runs()))
    fit = cl.fit(next(iter(LAWS)), rows, "source")
    return [fit.predict(fit.data), by_rules(rows.assign(domain=shift), "source")]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    frame = runs()
    fitted, exponents = residuals(frame)
    made = {
        "residuals": by_rate_and_replay(fitted),
        "sizes": sizes(fitted),
        "exponents": exponents,
        "corners": of_corners(corners(frame)),
        "without-runs": without_runs(frame),
    }
    print(show(made))
    if asked.write:
        write_result("rate_and_replay_law", made)


if __name__ == "__main__":
    main()
