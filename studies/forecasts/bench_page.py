"""Write the table of studies/bench.md from a run of the bench: with ``--write`` between the marks of the page."""

from __future__ import annotations

import argparse

import pandas as pd

from cptlaw.benching import bench
from studies.harness import HOME

PAGE = HOME / "bench.md"
BEGIN, END = "<!-- begin: python -m studies bench_page --write -->", "<!-- end -->"


def table(rows: pd.DataFrame) -> str:
    """Return the table as Markdown: one line per split, means over its losses."""
    lines = [
        "| study | forecast | losses | auto | nearest run | inside 90 % | half-width | regret | CPU s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
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
        lines.append(f"| {study} | {split} | {len(auto)} | {' | '.join(told)} |")
    return "\n".join(lines)


def _errors(rows: pd.DataFrame) -> str:
    """Return errors in percent: each of two losses, which are two questions; of more the mean and its range."""
    errors = 100 * rows["mae_rel"]
    if len(errors) <= 2:
        return ", ".join(f"{on} {value:.1f}" for on, value in zip(rows["on"], errors, strict=True))
    return f"{errors.mean():.1f} ({errors.min():.1f} to {errors.max():.1f})"


def by_study(rows: pd.DataFrame) -> str:
    """Return coverage of intervals by study as Markdown, 90 % and (50 %)."""
    auto = rows[rows["law"] == "auto"].groupby("study", sort=False)[["coverage_90", "coverage_50"]].mean()
    cells = [f"{row.coverage_90:.2f} ({row.coverage_50:.2f})" for row in auto.itertuples()]
    return "\n".join((f"| {' | '.join(auto.index)} |", "|---" * len(cells) + "|", f"| {' | '.join(cells)} |"))


def with_table(page: str, made: str, begin: str = BEGIN) -> str:
    """Return the page with the table between its marks."""
    before, rest = page.split(begin)
    return f"{before}{begin}\n{made}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Run the bench with law auto, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of public tables")
    parser.add_argument("--write", action="store_true", help="write the table into studies/bench.md")
    asked = parser.parse_args()
    found = bench(asked.data, "auto", progress=print).frame
    inside = "Share of held-out points inside the 90 % (50 %) interval:"
    made = f"\n{table(found)}\n\n{inside}\n\n{by_study(found)}\n"
    print(made)
    if asked.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
