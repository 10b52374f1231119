"""The bench with law auto, one line per split; ``--write`` keeps it for studies/bench.md."""

from __future__ import annotations

import argparse

import pandas as pd

from cptlaw_published.benching import bench
from studies.harness import data_file, show, write_result

HEADS = ["study", "forecast", "losses", "auto", "nearest run", "inside 90 %", "half-width", "regret", "CPU s"]


def by_split(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line per split, means over its losses."""
    lines = []
    for (study, split), part in rows.groupby(["study", "split"], sort=False):
        auto = part[part["law"] == "auto"]
        plain = part[part["law"] == "nearest-run"]
        if auto.empty:
            continue
        told = [_errors(one) for one in (auto, plain)]
        regret = auto["regret"].dropna()
        told += [
            f"{auto['coverage_90'].mean():.2f}",
            f"{100 * auto['width_90'].mean():.1f}",
            f"{100 * regret.mean():.2f}" if len(regret) else "-",
            f"{auto['cpu_s'].mean():.1f}",
        ]
        lines.append([study, split, len(auto), *told])
    return pd.DataFrame(lines, columns=HEADS)


def _errors(rows: pd.DataFrame) -> str:
    """Return errors in percent: each of two losses, which are two questions; of more the mean and its range."""
    errors = 100 * rows["mae_rel"]
    if len(errors) <= 2:
        return ", ".join(f"{on} {value:.1f}" for on, value in zip(rows["on"], errors, strict=True))
    return f"{errors.mean():.1f} ({errors.min():.1f} to {errors.max():.1f})"


def by_study(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage of intervals by study, 90 % and (50 %)."""
    auto = rows[rows["law"] == "auto"].groupby("study", sort=False)[["coverage_90", "coverage_50"]].mean()
    cells = [f"{row.coverage_90:.2f} ({row.coverage_50:.2f})" for row in auto.itertuples()]
    return pd.DataFrame([cells], columns=list(auto.index))


def of_parts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what source losses are missed by, in percent, and what their base models and the shifts from them are."""
    told = rows[(rows["law"] == "auto") & (rows["on"] == "source") & rows["base_rel"].notna()]
    names = {"mae_rel": "source loss", "base_rel": "base model", "shift_rel": "shift"}
    return told[["study", "split"]].assign(
        **{one: (100 * told[name]).map("{:.1f}".format) for name, one in names.items()}
    )


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    folder = data_file("watts_musicpile_60m.csv", None).parent
    return bench(folder, "auto", "watts/budget 3200 from 800, 1600 (adamw)").frame.drop(columns="cpu_s")


def main() -> None:
    """Run the bench with law auto, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the tables to studies/results")
    asked = parser.parse_args()
    found = bench(asked.data, "auto", progress=print).frame
    tables = {"splits": by_split(found), "inside": by_study(found), "parts": of_parts(found)}
    print(show(tables))
    if asked.write:
        write_result("bench_page", tables, "python -m studies bench_page --data ../shared/data --write")


if __name__ == "__main__":
    main()
