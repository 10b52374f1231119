"""Forecasts of CPT on more tokens than any run had: from one level of tokens, half, twice and four times as many.

    python -m studies tokens_ahead --data ../shared/data            # the tables; half a minute of CPU
    python -m studies tokens_ahead --data ../shared/data --write    # and into studies/bench.md

A grid of sizes, budgets, mixes and rates at one level of tokens is what many teams run. Of each table the rows at one
level are fitted, once of tokens per parameter and once of tokens, with the base models; nothing in them says what more
tokens change. Beside law auto stands the same run at the tokens that were fitted. So for runs of another team on music.
What was learned from a table is left out where it is forecast.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.auto.rows import collapsed_runs
from cptlaw.fitting.learned import leaving_out, studies
from studies.harness import data_file, progress, show, write_result

TABLES = ("docs-to-code", "code-to-prose", "docs-to-manuals", "en-fr-ladder", "domains")
CORPUS = "domain == 'c' or (tokens == 0 and eval == 'source')"  # of the table of several, with its own base losses
PER_PARAMETER = 2.83  # tokens, in the middle of our runs
CLOSE = {"tokens per parameter": 0.04, "tokens": 0.2}  # in logs, that count as one level
TIMES = (0.5, 2.0, 4.0)
MUSIC = "watts_sizes.csv"
OF_MUSIC = "domain == 'musicpile' and optimizer == 'adamw'"
FITTED, ASKED = 10e6, {2.0: 20e6, 5.0: 50e6, 10.0: 100e6}


def level(frame: pd.DataFrame, design: str, value: float) -> pd.DataFrame:
    """Return the rows of CPT at one level, of each run and eval the nearest."""
    counted = frame["tokens"] / (frame["n_params"] if design == "tokens per parameter" else 1.0)
    away = np.log(counted.where(counted > 0) / value).abs()
    near = away[away < CLOSE[design]]
    rows: pd.DataFrame = frame.loc[near.groupby([frame["run"], frame["eval"]], observed=True).idxmin()]
    return rows.assign(tokens=value) if design == "tokens" else rows


def cuts(name: str) -> Iterator[tuple[str, pd.DataFrame, dict[float, pd.DataFrame]]]:
    """Yield a design, the rows to fit, and those to forecast by how many times the tokens they had."""
    runs = cl.examples.load(name)
    frame = (runs.where(CORPUS) if name == "domains" else runs).frame
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("category"), object))
    base = frame[frame["tokens"] == 0]
    for design in CLOSE:
        value = (
            PER_PARAMETER if design == "tokens per parameter" else float(frame["tokens"][frame["tokens"] > 0].median())
        )
        fitted = pd.concat([base, level(frame, design, value)], ignore_index=True)
        yield design, fitted, {times: level(frame, design, times * value) for times in TIMES}


def of_music(path: str) -> tuple[pd.DataFrame, dict[float, pd.DataFrame]]:
    """Return the runs on music to fit, and those to forecast, without the collapsed ones."""
    runs = cl.read_runs(path)
    frame = runs.where(OF_MUSIC).frame
    frame = frame[~frame["run"].isin(collapsed_runs(runs.frame, set(frame["run"])))]
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("category"), object))
    return (
        frame[frame["tokens"] == FITTED].reset_index(drop=True),
        {times: frame[frame["tokens"] == tokens] for times, tokens in ASKED.items()},
    )


def forecasts(
    told: dict[str, str], fitted: pd.DataFrame, asked: dict[float, pd.DataFrame], of_study: str | None
) -> Iterator[dict[str, object]]:
    """Yield the errors of each loss and number of tokens, in per cent."""
    for on in ("target", "source"):
        progress(f"{', '.join(told.values())}, {on}")
        rows_of = {times: rows[rows["eval"] == on] for times, rows in asked.items()}
        with leaving_out(of_study):
            fit = cl.fit("auto", fitted, on)
            ends = {times: fit.log_quantiles(rows, [0.05, 0.5, 0.95]) for times, rows in rows_of.items()}
        measured = fitted[(fitted["eval"] == on) & (fitted["tokens"] > 0)].set_index("run")["loss"]
        for times, rows in rows_of.items():
            loss = np.log(rows["loss"].to_numpy(dtype=float))
            low, middle, high = ends[times]
            same = np.log(rows["run"].map(measured).to_numpy(dtype=float))
            yield {
                **told,
                "loss": on,
                "times the tokens": f"{times:g}",
                "error": 100 * float(np.abs(middle - loss).mean()),
                "same run": 100 * float(np.abs(same - loss).mean()),
                "inside 90 %": float(np.mean((low <= loss) & (loss <= high))),
                "half-width": 50 * float(np.median(high - low)),
            }


def means(found: pd.DataFrame, errors: list[str]) -> pd.DataFrame:
    """Return the geometric means of errors, and the means of inside and half-width, by loss and tokens."""
    logs = {name: np.log(found[name]) for name in errors}
    groups = found.assign(**logs).groupby(["loss", "times the tokens"], sort=False)
    told: pd.DataFrame = groups[[*errors, "inside 90 %", "half-width"]].mean()
    for name in told:
        values = np.exp(told[name]) if name in errors else told[name]
        told[name] = values.map(("{:.2f}" if name == "inside 90 %" else "{:.1f}").format)
    return told.reset_index()


def probe() -> dict[str, object]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    _, fitted, asked = next(cuts("docs-to-manuals"))
    few = {times: rows[rows["n_params"] < 50_000] for times, rows in asked.items()}
    return next(forecasts({}, fitted[fitted["n_params"] < 50_000], few, None))


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    path = data_file(MUSIC, asked.data)
    own = pd.DataFrame(
        row
        for name in TABLES
        for design, fitted, rows in cuts(name)
        for row in forecasts({"table": name, "one level of": design}, fitted, rows, name if name in studies() else None)
    )
    music = pd.DataFrame(forecasts({"table": MUSIC}, *of_music(str(path)), "watts"))
    most = own[own["times the tokens"] == f"{TIMES[-1]:g}"]
    most = most.assign(
        told=[f"{one:.1f} ({other:.1f})" for one, other in zip(most["error"], most["same run"], strict=True)]
    )
    made = {
        "tokens": means(own, ["error", "same run"]),
        "tables": most.pivot(index="table", columns=["loss", "one level of"], values="told")
        .loc[list(TABLES)]
        .reset_index(),
        "music": means(music, ["error"]),
    }
    made["tables"].columns = [", ".join(filter(None, names)) for names in made["tables"].columns]
    print(show(made))
    if asked.write:
        write_result("tokens_ahead", made, "python -m studies tokens_ahead --data ../shared/data --write")


if __name__ == "__main__":
    main()
