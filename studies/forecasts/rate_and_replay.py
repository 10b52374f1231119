"""How replay and the rate of CPT trade off in what the source forgets and what the target gains, as trained.

    python -m studies rate_and_replay             # prints the tables; seconds
    python -m studies rate_and_replay --write     # keeps them for studies/bench.md; a test compares

Runs: studies/measured/rate_and_replay.csv, four replays at three peak rates over a decade, constant, two shifts.
Forgetting is the rise of the source loss over the base model's, the gain the fall of the target loss. Ranges are 90 %
of a bootstrap over runs, for the losses of one run are not independent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cptlaw as cl
from studies.harness import HOME, MEASURED, show, write_result

Array = NDArray[np.float64]

TABLE = MEASURED / "rate_and_replay.csv"
SEALED = HOME / "sealed"
FIRST = 2.0  # tokens per parameter from which on no run is in its warm-up
ALIKE = 4.0  # tokens per parameter that all runs reach
LEAST = 0.02  # nats: the logarithm of a smaller change is noise
DRAWS = 400
KAPPAS = np.linspace(-0.5, 4.0, 91)  # weights of the log rate beside the log replay
SHIFTS = {"french": "English to French", "python": "English to Python"}
KINDS = {"french": "language", "python": "code"}


def runs() -> pd.DataFrame:
    """Return the rows of the table."""
    return cl.read_runs(TABLE, n_params_kind="total").frame


def outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run and length: both losses, what the source loss rose by and the target loss fell by, nats.

    ``rate`` is the peak rate over the middle one of its size, ``per`` the tokens per parameter.
    """
    base = frame[frame["tokens"] == 0]
    of_source = base[base["eval"] == "source"].groupby("base", observed=True)["loss"].first()
    of_target = base[base["eval"] == "target"].groupby(["base", "domain"], observed=True)["loss"].first()
    keys = ["run", "base", "domain", "n_params", "ptpp", "replay", "lr_peak", "lr_pretrain", "tokens"]
    trained = frame[frame["tokens"] > 0]
    wide = trained.pivot_table(index=keys, columns="eval", values="loss", observed=True).reset_index()
    pairs = pd.MultiIndex.from_frame(wide[["base", "domain"]])
    middle = wide.groupby("n_params")["lr_peak"].transform(middle_of)
    return wide.assign(
        rise=wide["source"] - of_source.reindex(wide["base"]).to_numpy(dtype=float),
        gain=of_target.reindex(pairs).to_numpy(dtype=float) - wide["target"],
        per=wide["tokens"] / wide["n_params"],
        rate=wide["lr_peak"] / middle,
    )


def middle_of(rates: pd.Series) -> float:
    """Return the middle one of some peak rates, in logs."""
    return float(np.exp(np.median(np.log(rates.unique()))))


def named(rate: float) -> str:
    """Return the name of a rate, relative to the middle one: a third of it, itself, three times it."""
    return "low rate" if rate < 0.6 else "high rate" if rate > 1.6 else "middle rate"


def as_study(found: pd.DataFrame) -> pd.DataFrame:
    """Return outcomes as answers without runs are learned from (`studies.learning.learn_studies.own_rows`)."""
    kept = found[found["tokens"] >= found["n_params"]]  # before stand the first steps of warm-up
    return kept.assign(
        study="docs-to-" + kept["domain"].astype(str),
        shift=kept["domain"].astype(str).map(KINDS),
        base_source=kept["source"] - kept["rise"],
        base_target=kept["target"] + kept["gain"],
        constant=1.0,
        unread=0.0,
        paper="ours",
        source_of="this project",
    )


def size_of(n_params: float) -> str:
    """Return a size as tables have it."""
    return f"{n_params / 1e3:.0f}K"


def parts(found: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the runs of each shift and size."""
    for (shift, size), part in found.groupby(["domain", "n_params"], observed=True):
        yield str(shift), size_of(float(size)), part


def over_runs(rows: pd.DataFrame, estimate: Callable[[pd.DataFrame], Array]) -> tuple[Array, Array, Array]:
    """Return an estimate and the ends of 90 % of its bootstrap over runs."""
    rng = np.random.default_rng(0)
    places = list(rows.reset_index(drop=True).groupby("run", observed=True).indices.values())
    drawn = [
        estimate(rows.iloc[np.concatenate([places[i] for i in rng.integers(len(places), size=len(places))])])
        for _ in range(DRAWS)
    ]
    low, high = np.nanquantile(np.array(drawn), [0.05, 0.95], axis=0)
    return estimate(rows), low, high


def ranged(value: float, low: float, high: float, digits: int = 2) -> str:
    """Print a number with its range."""
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


# -- what was measured -------------------------------------------------------------------------------------------------


def measured(found: pd.DataFrame) -> pd.DataFrame:
    """Return rise and gain at one length, a line per shift, size and replay, a column per rate."""
    here = found[np.isclose(found["per"], ALIKE, rtol=0.05)]
    lines = []
    for (shift, size, replay), part in here.groupby(["domain", "n_params", "replay"], observed=True):
        cells = {named(row.rate): f"{row.rise:+.3f}, {row.gain:.3f}" for row in part.itertuples(index=False)}
        lines.append({"shift": SHIFTS[shift], "size": size_of(size), "replay": f"{replay:g}", **cells})
    heads = ["shift", "size", "replay", "low rate", "middle rate", "high rate"]
    return pd.DataFrame(lines, columns=heads).fillna("-")


# -- exponents ---------------------------------------------------------------------------------------------------------


def slopes(rows: pd.DataFrame, outcome: str) -> Array:
    """Return the slopes of the log of an outcome over log rate, log mix and log tokens, their product, and the scatter.

    The mix is the replay for what the source forgets, the share of new text for what the target gains.
    """
    mix = rows["replay"] / 0.1 if outcome == "rise" else (1.0 - rows["replay"]) / 0.9
    rate, mix, per = (np.log(one.to_numpy(dtype=float)) for one in (rows["rate"], mix, rows["per"] / ALIKE))
    design = np.column_stack([np.ones(len(rows)), rate, mix, per, rate * mix])
    y = np.log(rows[outcome].to_numpy(dtype=float))
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    scatter = np.sqrt(np.sum((y - design @ solution) ** 2) / max(len(y) - design.shape[1], 1))
    return np.array([*solution[1:], scatter])


def exponents(found: pd.DataFrame) -> pd.DataFrame:
    """Return the slopes of forgetting and gain by shift and size."""
    lines = []
    for outcome, name in (("rise", "forgetting"), ("gain", "gain")):
        for shift, size, part in parts(found):
            fair = part[(part["per"] >= 0.95 * FIRST) & ((part["replay"] > 0) | (outcome == "gain"))]
            rows = fair[fair[outcome] >= LEAST]
            if rows["replay"].nunique() < 2 or rows["rate"].nunique() < 2:
                continue
            value, low, high = over_runs(rows, lambda drawn, outcome=outcome: slopes(drawn, outcome))
            cells = [ranged(*one) for one in zip(value, low, high, strict=True)]
            heads = ("rate", "mix", "tokens", "rate x mix")
            lines.append(
                {"of": name, "shift": SHIFTS[shift], "size": size, "losses": f"{len(rows)} of {len(fair)}"}
                | dict(zip(heads, cells, strict=False))
                | {"scatter": f"{value[-1]:.2f}"}
            )
    return pd.DataFrame(lines)


# -- one public report: the source loss is a quadratic in log replay - log rate ----------------------------------------


def misfits(rows: pd.DataFrame, kappas: Array) -> Array:
    """Return the squares that a quadratic in log replay - kappa log rate leaves of the source loss at each length."""
    mix, rate = (np.log(rows[name].to_numpy(dtype=float)) for name in ("replay", "rate"))
    per, y = rows["per"].to_numpy(dtype=float).round(1), rows["source"].to_numpy(dtype=float)
    left = np.zeros(len(kappas))
    for length in np.unique(per):
        same = per == length
        index = mix[same, None] - kappas * rate[same, None]
        design = np.stack([np.ones_like(index), index, index**2], axis=-1).transpose(1, 0, 2)
        solution = np.linalg.pinv(design) @ y[same]
        left += np.sum((y[same] - np.einsum("kij,kj->ki", design, solution)) ** 2, axis=1)
    return left


def best_kappa(rows: pd.DataFrame) -> Array:
    """Return the weight of the log rate that leaves least."""
    return np.array([KAPPAS[np.argmin(misfits(rows, KAPPAS))]])


def alike(found: pd.DataFrame) -> pd.DataFrame:
    """Return how much log rate weighs beside log replay, and what weighing them alike leaves, by shift and size."""
    lines = []
    for shift, size, part in parts(found):
        rows = part[(part["per"] >= 0.95 * FIRST) & (part["replay"] > 0)]
        if rows["replay"].nunique() < 2 or rows["rate"].nunique() < 3:
            continue
        value, low, high = over_runs(rows, best_kappa)
        total = rows["source"] - rows.groupby(rows["per"].round(1))["source"].transform("mean")
        left = dict(zip(("alike", "free"), misfits(rows, np.array([1.0, value[0]])), strict=True))
        lines.append(
            {"shift": SHIFTS[shift], "size": size, "losses": len(rows)}
            | {"weight of the log rate": ranged(value[0], low[0], high[0])}
            | {f"explained, {name}": f"{100 * (1 - one / float(np.sum(total**2))):.0f} %" for name, one in left.items()}
        )
    return pd.DataFrame(lines)


# -- pairs that forget alike -------------------------------------------------------------------------------------------


def rate_that_forgets(part: pd.DataFrame, rise: float) -> float:
    """Return the log of the rate, over the middle one, at which the runs of one replay forget so much; NaN outside."""
    ordered = part.sort_values("rate")
    rises, rates = ordered["rise"].to_numpy(dtype=float), np.log(ordered["rate"].to_numpy(dtype=float))
    if np.any(np.diff(rises) <= 0) or not 0 < rises[0] <= rise <= rises[-1]:
        return float("nan")
    return float(np.interp(np.log(rise), np.log(rises), rates))


def pairs(found: pd.DataFrame) -> pd.DataFrame:
    """Return what more replay pays for: the rate at which it forgets as much as less replay at the lowest rate.

    Between measured rates along straight lines in logs. The weight is that of log rate beside log replay by which both
    forget alike.
    """
    lines = []
    for shift, size, part in parts(found[np.isclose(found["per"], ALIKE, rtol=0.05)]):
        for less, more in pairwise(np.sort(part["replay"].unique())):
            lowest = part[np.isclose(part["replay"], less)].nsmallest(1, "rate").iloc[0]
            same = part[np.isclose(part["replay"], more)].sort_values("rate")
            rate = rate_that_forgets(same, float(lowest["rise"]))
            if np.isnan(rate):
                continue
            factor = rate - np.log(lowest["rate"])
            lines.append(
                {
                    "shift": SHIFTS[shift],
                    "size": size,
                    "replay": f"{less:g} -> {more:g}",
                    "forgets": f"{lowest['rise']:+.3f}",
                    "rate times": f"{np.exp(factor):.2f}",
                    "weight of the log rate": f"{np.log(more / less) / factor:.2f}" if less > 0 and factor > 0 else "-",
                    "gain": f"{lowest['gain']:.3f} -> {np.interp(rate, np.log(same['rate']), same['gain']):.3f}",
                }
            )
    return pd.DataFrame(lines)


# -- forecast and sealed before training -------------------------------------------------------------------------------


def sealed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what the sealed forecasts missed by, a line per question and law; those not trained yet are left out."""
    table = cl.read_runs(frame, n_params_kind="total")
    lines = []
    for path in sorted(SEALED.glob("rate_and_replay_*.json")):
        size, shift, _ = path.stem.removeprefix("rate_and_replay_").split("_")
        if not np.isclose(frame["n_params"], float(cl.load_seal(path).points[0]["n_params"]), rtol=0.005).any():
            continue
        one = cl.score([path], table.where(f"domain == '{shift}' and tokens > 0")).frame
        for (law, on), part in one.groupby(["law", "on"], sort=False):
            lines.append(
                {"shift": SHIFTS[shift], "size": size.upper(), "loss": on, "law": str(law).partition(":")[0]}
                | {"losses": str(len(part)), "error": f"{100 * part['error'].abs().mean():.1f}"}
                | {"mean error": f"{100 * part['error'].mean():+.1f}"}
                | {"90 % intervals that held": f"{int(part['inside'].sum())} of {len(part)}"}
            )
    return pd.DataFrame(lines)


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables."""
    frame = runs()
    found = outcomes(frame)
    return {
        "measured": measured(found),
        "exponents": exponents(found),
        "alike": alike(found),
        "pairs": pairs(found),
        "sealed": sealed(frame),
    }


def probe() -> list[Array]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    found = outcomes(runs())
    return [slopes(part[(part["rise"] > LEAST) & (part["replay"] > 0)], "rise") for _, _, part in parts(found)]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    if parser.parse_args().write:
        write_result("rate_and_replay", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
