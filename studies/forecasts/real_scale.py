"""What holds at real scale: replay, rate, budget, size and corpus in public runs of 20M to 10B, beside ours.

    python -m studies real_scale             # prints the tables: seconds; public ones are looked for in ../shared/data
    python -m studies real_scale --write     # keeps them for docs/what_we_found.md; docs/real_scale.py draws

Replay: Ibrahim et al. 2024 (arXiv:2403.08763), Que et al. 2024 (arXiv:2406.01375, Table 5), the marin project. Rate,
budget, size and corpus: all rows of Watts et al. 2026 (arXiv:2605.02105). Optima: what the papers' own plans are when
`answer` makes them without any run, and without what was learned from these papers.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import forgetting_and_gain as studies
from studies.forecasts import what_holds
from studies.harness import Array, data_file, show, write_result
from studies.learning import learn_studies

MATHS = ("gsm8k", "stackmathqa")
POWERS = ["lr_peak", "ptpp", "n"]
REPLAY = "published_cpt_tables.csv"
# Series of the table: its run ids, pre-training tokens, tokens of CPT, source
PRINTED = {
    "405M, Pile to German": ("ger405_r", "300B", "200B", "arXiv:2403.08763"),
    "405M, Pile to SlimPajama": ("sp405_r", "300B", "300B", "arXiv:2403.08763"),
    "1.8B, Dolma to chemistry": ("dcpt_chem_rd", "2.2T", "10B", "arXiv:2406.01375"),
    "10B, Pile to SlimPajama": ("sp10b_r", "300B", "300B", "arXiv:2403.08763"),
}
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
LADDER_EVALS = ("math_val_raw", "math_val_decon_j075")
CHEMISTRY = "dolma-to-chemistry-1.8b"


# -- replay ------------------------------------------------------------------------------------------------------------


def printed(path: Path) -> Iterator[tuple[str, float, pd.Series]]:
    """Yield the printed tables of replay: series, base model's source loss, source loss by replay."""
    rows = pd.read_csv(path)
    rows = rows[rows["role"] == "source"]
    for series, (prefix, *_) in PRINTED.items():
        name = prefix.rsplit("_", 1)[0]
        base = rows.loc[rows["run_id"] == f"{name}_base", "loss"].iloc[0]
        mixes = rows[rows["run_id"].str.fullmatch(rf"{prefix}[\d.]+")]
        yield series, float(base), mixes.set_index("replay_ratio")["loss"].sort_index()


def measured() -> Iterator[tuple[str, Array, Array]]:
    """Yield our runs by group of sizes: share of the forgetting that stays, by replay, budgets 31 and 62."""
    ends = what_holds.ends(what_holds.ladder())
    for group, (low, high) in what_holds.GROUPS.items():
        rise = what_holds.of_size(ends, "source")("rise", low, high).loc[(slice(None), [31, 62]), :]
        left = rise.div(rise[0.0], axis=0).mean().dropna()
        left = left[(left.index < 1)]
        yield group, left.index.to_numpy(dtype=float), left.to_numpy()


def replay(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what replay takes off the forgetting, as a table and as points of a figure."""
    lines, points = [], []
    for series, base, loss in printed(path):
        left = (loss - base) / (loss[0.0] - base)
        _, before, after, source = PRINTED[series]
        line = {"runs": series, "pre-training": before, "CPT": after, "nats without replay": f"{loss[0.0] - base:.2f}"}
        line |= {f"replay {share:g}": f"{100 * (1 - left[share]):.0f} %" if share in left else "-" for share in SHARES}
        lines.append(line | {"source": source})
        points += [{"panel": "replay", "series": series, "x": share, "y": value} for share, value in left.items()]
    for group, shares, left in measured():
        line = {"runs": f"{group}, English to French", "pre-training": "31, 62 N", "CPT": "16 N"}
        taken = dict(zip(shares, left, strict=True))
        line["nats without replay"] = f"{_without_replay(group):.2f}"
        line |= {f"replay {each:g}": f"{100 * (1 - taken[each]):.0f} %" if each in taken else "-" for each in SHARES}
        lines.append(line | {"source": "ours"})
        points += [{"panel": "replay", "series": f"{group}, ours", "x": x, "y": y} for x, y in taken.items()]
    return pd.DataFrame(lines), pd.DataFrame(points)


def _without_replay(group: str) -> float:
    ends = what_holds.ends(what_holds.ladder())
    rise = what_holds.of_size(ends, "source")("rise", *what_holds.GROUPS[group])[0.0]
    return float(rise.loc[:, [31, 62]].groupby("n_params").mean().mean())


def gains(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return k of gain = G (1 - replay)^k by size, public and ours, as a table and as points."""
    rows = pd.read_csv(path)
    rows["gain"] = rows["base_loss"] - rows["loss"]
    wide = rows.pivot_table(index=["n_params", "lr_factor"], columns="replay_ratio", values="gain").dropna()
    k = np.log(wide[0.5] / wide[0.33]) / np.log(0.5 / 0.67)
    lines, points = [], []
    found = [(size, "marin, mathematics, replay 0.33 to 0.5", each) for size, each in k.groupby("n_params")]
    gain = what_holds.of_size(what_holds.ends(what_holds.ladder()), "target")("rise", 0.0, 2e6)
    ours = what_holds.kept(-gain, 0.0, 0.25).dropna()
    found += [(size, "ours, French, replay 0 to 0.25", each) for size, each in ours.groupby("n_params")]
    for size, series, each in sorted(found, key=lambda one: one[0]):
        spread = f"{each.min():.2f} to {each.max():.2f}"
        lines.append(
            {"parameters": what_holds.size_text(size), "runs": series, "k": f"{each.mean():.2f}", "range": spread}
        )
        points.append({"panel": "gain", "series": series.split(",")[0], "x": size, "y": each.mean()})
    return pd.DataFrame(lines), pd.DataFrame(points)


# -- rate, budget, size, corpus ----------------------------------------------------------------------------------------


def rises(paths: list[Path]) -> pd.DataFrame:
    """Return plain rows of all corpora: tuned pre-training rates, 10M tokens, rises of .01 to 1 nats."""
    return pd.concat([what_holds.watts(str(path)) for path in paths], ignore_index=True)


def power(rows: pd.DataFrame, names: list[str]) -> tuple[Array, float, bool]:
    """Return exponents of a power law of the rise, the scatter about it in logs, and whether the rows tell them."""
    x, y = columns(rows, names), np.log(rows["rise"].to_numpy())
    place, *_ = np.linalg.lstsq(x, y, rcond=None)
    missed = y - x @ place
    scatter = math.sqrt(float(missed @ missed) / (len(y) - x.shape[1]))
    return place[-len(names) :], scatter, bool(np.linalg.matrix_rank(x) == x.shape[1])


def columns(rows: pd.DataFrame, names: list[str]) -> Array:
    """Return a constant, what a decayed base model adds where both kinds are there, and logs."""
    x = what_holds.design(rows, names)
    return x if np.ptp(x[:, 1]) else np.delete(x, 1, axis=1)


def exponents(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return exponents of the rise by corpus, as a table, and those of rate and budget by corpus and size.

    The exponent of size is not told where all base models of one size were decayed and those of the other were not.
    """
    found = []
    for (corpus, size), part in rows.groupby(["cpt_dataset", "n"]):
        if len(part) > 9 and part["ptpp"].nunique() > 2:
            found.append((corpus, size, *power(part, POWERS[:2])[0]))
    each = pd.DataFrame(found, columns=["corpus", "n", "rate", "budget"])
    lines = []
    for corpus, own in each.groupby("corpus"):
        part = rows[rows["cpt_dataset"] == corpus]
        (rate, budget, size), scatter, told = power(part, POWERS)
        line = {"corpus": corpus, "runs": str(len(part)), "sizes": ", ".join(map(what_holds.size_text, own["n"]))}
        line |= {"rate, all": f"{rate:.2f}", "rate, by size": _list(own["rate"])}
        line |= {"budget, all": f"{budget:.2f}", "budget, by size": _list(own["budget"])}
        lines.append(line | {"size, all": f"{size:.2f}" if told else "-", "scatter": f"{100 * scatter:.0f} %"})
    return pd.DataFrame(lines), each


def _list(values: pd.Series) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def predicted(each: pd.DataFrame) -> pd.DataFrame:
    """Return what predicts the exponents over corpora and sizes: mathematics or not, and size."""
    lines = []
    for name in ("rate", "budget"):
        maths = each["corpus"].isin(MATHS).to_numpy(dtype=float)
        x = np.column_stack([np.ones(len(each)), maths, np.log10(each["n"] / 6e7)])
        y = each[name].to_numpy()
        place, *_ = np.linalg.lstsq(x, y, rcond=None)
        r2 = 1 - float(np.sum((y - x @ place) ** 2) / np.sum((y - y.mean()) ** 2))
        lines.append(
            {
                "exponent of": name,
                "corpora and sizes": str(len(each)),
                "least to most": f"{y.min():.2f} to {y.max():.2f}",
                "other corpora at 60M": f"{place[0]:.2f}",
                "questions of mathematics": f"{place[1]:+.2f}",
                "ten times the size": f"{place[2]:+.2f}",
                "R2": f"{r2:.2f}",
            }
        )
    return pd.DataFrame(lines)


def pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how well one corpus's exponents and one run on another forecast the other's rises, all ordered pairs.

    Each run of the asked corpus is the probe in turn; cells are medians over probes and runs of the factor of error.
    """
    known = [name for name, part in rows.groupby("cpt_dataset") if part["n"].nunique() > 1]
    lines = []
    for fitted in known:
        place, *_ = np.linalg.lstsq(
            what_holds.design(rows[rows["cpt_dataset"] == fitted], POWERS),
            np.log(rows.loc[rows["cpt_dataset"] == fitted, "rise"]),
            rcond=None,
        )
        line: dict[str, str] = {"exponents from": fitted}
        for asked in known:
            part = rows[rows["cpt_dataset"] == asked]
            missed = np.log(part["rise"].to_numpy()) - what_holds.design(part, POWERS) @ place
            apart = np.abs(missed[:, None] - missed)[~np.eye(len(part), dtype=bool)]
            line[f"asked: {asked}"] = f"{math.exp(float(np.median(apart))):.2f}"
        lines.append(line)
    return pd.DataFrame(lines)


# -- the papers' optima ------------------------------------------------------------------------------------------------


def scales_ahead(path: Path) -> pd.DataFrame:
    """Return how the sizes above are forecast on a ladder whose tokens grow with its size, from its smallest ones.

    Nothing tells size from tokens there, and the interval must know it: at one peak rate, or at all four.
    """
    rows = pd.read_csv(path)
    rows = rows[(rows["series"] == "k0p20") & np.isclose(rows["replay_ratio"], 0.33)]
    names = {"run_id": "run", "cpt_tokens": "tokens", "replay_ratio": "replay", "lr_factor": "lr_peak"}
    columns = ["run", "eval", "loss", "n_params", "tokens", "ptpp", "replay"]
    lines = []
    for on, rates in itertools.product(LADDER_EVALS, (1, 4)):
        own = rows[(rows["domain"] == on) & (rates > 1 or np.isclose(rows["lr_factor"], 0.5))].assign(eval="target")
        table = own.rename(columns=names)[[*columns, *(["lr_peak"] if rates > 1 else [])]]
        sizes = np.unique(table["n_params"])
        for count in (3, 4, 5):
            known, ahead = (part for _, part in table.groupby(table["n_params"] > sizes[count - 1]))
            got = cl.fit("auto", cl.read_runs(known, n_params_kind="total"), on="target").forecast(ahead)
            truth, line = np.log(ahead["loss"]), np.polyfit(np.log(known["n_params"]), np.log(known["loss"]), 1)
            log = {name: np.log(got[name].to_numpy()) - truth.to_numpy() for name in ("loss", "lo", "hi")}
            straight = np.polyval(line, np.log(ahead["n_params"])) - truth
            lines.append(
                {
                    "eval": on,
                    "peak rates": rates,
                    "sizes fitted": count,
                    "asked": f"{len(sizes) - count} above",
                    "error": _root_mean_square(log["loss"]),
                    "straight line": _root_mean_square(straight),
                    "half-width": f"{50 * np.mean(log['hi'] - log['lo']):.1f}",
                    "inside 90 %": f"{np.mean((log['lo'] <= 0) & (log['hi'] >= 0)):.2f}",
                }
            )
    return pd.DataFrame(lines)


def _root_mean_square(errors: Array) -> str:
    return f"{100 * np.sqrt(np.mean(np.square(errors))):.1f}"


def optima(folder: Path) -> pd.DataFrame:
    """Return the least replay that keeps the papers' limits, by them and without any run."""
    asked = {"n_params": 8.1e9, "ptpp": 279, "tokens": 72e9, "shift": "language", "max_forgetting": 0.02}
    plans = [_share(cl.answer(**asked, risk=risk).replay) for risk in (0.5, 0.8)]
    french = "8.1B at 279, 72B tokens of French, forgetting 2 %"
    lines = [[french, "arXiv:2510.23198", "34 %", *plans, "its runs are not public"]]
    forgetting, gain = learn_studies.without(learn_studies.everything(folder), CHEMISTRY)
    shares = np.geomspace(0.005, 0.6, 400)
    chemistry = "1.8B at 1,222, 10B tokens of chemistry, forgetting 3 %"
    for unread, told in ((False, ""), (True, ", told that its base has not read the old corpus")):
        mixes = [(share, 10e9) for share in shares]
        frame = studies.rows_of("domain", 1.8e9, 1222.0, mixes, None, None, unread=unread)
        said = studies.expected("forgetting", frame, forgetting, gain)
        kept = [_share(float(shares[np.argmax(said.quantile(p) <= 0.03)])) for p in (0.5, 0.8)]
        lines.append([f"{chemistry}{told}", "arXiv:2406.01375", "7.6 %", *kept, "its study"])
    return pd.DataFrame(lines, columns=["question", "paper", "its plan", "even odds", "with 80 %", "left out"])


def _share(value: float | None) -> str:
    return "no plan" if value is None else f"{100 * value:.2g} %"


def tables(folder: str | None) -> dict[str, pd.DataFrame]:
    """Return all tables; skips the study where the public ones are absent."""
    taken, points = replay(data_file(REPLAY, folder))
    kept, more = gains(data_file("delphi_mixes.csv", folder))
    rows = rises([data_file(name, folder) for name in what_holds.WATTS])
    by_corpus, each = exponents(rows)
    for name, row in itertools.product(("rate", "budget"), each.itertuples()):
        series = f"{row.corpus}, {name}"
        more.loc[len(more)] = ["exponents", series, row.n, getattr(row, name)]
    drawn = pd.concat([points, more], ignore_index=True)
    drawn = drawn.assign(x=drawn["x"].map("{:.4g}".format), y=drawn["y"].map("{:.3f}".format))
    made = {"replay": taken, "gain": kept, "exponents": by_corpus, "predicts": predicted(each), "pairs": pairs(rows)}
    made["ahead"] = scales_ahead(data_file("delphi_midtrain.csv", folder))
    return made | {"optima": optima(data_file(REPLAY, folder).parent), "points": drawn}


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    rows = rises([data_file(name, None) for name in what_holds.WATTS])
    each = exponents(rows)[1]
    forgetting, gain = (studies.learned(outcome) for outcome in ("forgetting", "gain"))
    frame = studies.rows_of("domain", 1.8e9, 1222.0, [(share, 10e9) for share in SHARES], None, None)
    return [each, studies.expected("forgetting", frame, forgetting, gain).quantile(0.8)]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    made = tables(asked.data)
    print(show(made))
    if asked.write:
        write_result("real_scale", made)


if __name__ == "__main__":
    main()
