"""Usages 1 to 3 of the D-CPT law (Que et al. 2024, arXiv:2406.01375, tables 5, 6): planned, trained and measured.

The law L3 is fitted to five of the nine ratios of the example `domains` at 45,936 parameters, and asked

- usage 1: at 16 tokens per parameter, which share of English keeps the general loss within 10 % of the base model's?
- usage 2: with 4 tokens of the domain per parameter and no end of English, which share of the domain gives the lowest
  domain loss? As published, fitted where a run has read less than 2 tokens of the domain per parameter.
- usage 3: for a compute budget at even shares, which size? Held against the best of the sizes measured.

The mixes of usages 1 and 2 are trained for themselves, and lie between measured ones:

    python -m studies dcpt_usages plan   # writes measured/usages.csv and sweeps/domains_planned.yaml
    cptlaw sweep studies/recipes/domains_planned.yaml -o runs/en-fr --workers 1
    python -m studies collect_runs studies/recipes/domains_planned.yaml --store runs/en-fr \\
        -o studies/measured/domains.csv
    python -m studies dcpt_usages        # what they measured, beside the nine ratios

Usage 2 has an optimum within the ratios on Python, at four sizes of `domains`. A second seed of base models and runs
was trained for it, at the ratio that L3 names from the first, and at five others:

    cptlaw sweep studies/recipes/domains_python_again.yaml -o runs/usages --workers 1
    python -m studies collect_runs studies/recipes/domains_python_again.yaml --store runs/usages \\
        -o studies/measured/domains_again.csv
    python -m studies dcpt_usages --write
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.harness import MEASURED, SWEEPS, show, write_result
from studies.papers.dcpt_real_runs import PLANNED_FROM, held

PLANS = MEASURED
SIZE, LIMIT, ATPP, DOMAIN_ATPP, FITTED_ATPP = 45936, 0.10, 16.0, 4.0, 2.0
DOMAINS = ("c", "french", "german", "python")
SHARES = np.linspace(0.25, 1.0, 301)  # of the domain; less would be longer than any measured run
BUDGETS = (4e10, 8e10, 1.6e11)  # FLOPs of usage 3: within the runs of three or four sizes

HEAD = """# The mixes of usages 1 and 2 of the study dcpt_usages, trained for themselves.
name: domains-planned
text:
  english: {files: ../../corpora/english/*.jsonl, group: group, validation: 1%}
  french: {files: ../../corpora/french/*.jsonl, group: group, validation: 1%}
  german: {files: ../../corpora/german/*.jsonl, group: group, validation: 1%}
  python: {files: ../../corpora/python/*.jsonl, group: group, validation: 1%}
  c: {files: ../../corpora/c/*.jsonl, group: group, validation: 1%, max_tokens: 200M}
tokenizer: bytes
context: 128
batch: 8
eval_sequences: 256
models:
  46k: {n_params: 46K, seeds: [0]}
pretrain:
  text: english
  ptpp: [15, 31, 62]
  peak: {46k: 6e-3}
  warmup: 100
  decay: 15%
adapt:
"""
BLOCK = """  - source: english
    target: {domain}
    replay: {replay:g}
    models: [46k]
    ptpp: 62
    tokens_per_param: {atpp:.4g}
    first_tokens_per_param: 0.5
    points_per_doubling: 2
    schedules: {{schedule: constant, peak: 3e-3, warmup: 50}}
"""


def cell(frame: pd.DataFrame, domain: str, on: str) -> pd.DataFrame:
    """Return the rows of one domain, loss and size."""
    rows = frame[(frame["domain"].astype(str) == domain) & (frame["eval"] == on) & (frame["n_params"] == SIZE)]
    return rows[rows["tokens"] > 0].reset_index(drop=True)


def base_loss(frame: pd.DataFrame) -> float:
    """Return the general loss of the base model."""
    rows = frame[(frame["tokens"] == 0) & (frame["n_params"] == SIZE) & (frame["eval"] == "source")]
    return float(rows["loss"].mean())


def planned(runs: cl.Runs) -> pd.DataFrame:
    """Return the mixes of usages 1 and 2, one row per domain and usage."""
    frame, rows = runs.frame, []
    grid = pd.DataFrame({"n_params": SIZE, "replay": np.linspace(0, 1, 1001), "tokens": ATPP * SIZE})
    for domain in DOMAINS:
        target, source = (cell(frame, domain, on) for on in ("target", "source"))
        fits = {
            on: cl.fit(
                "dcpt-l3", part[part["replay"].isin(PLANNED_FROM)], on=on, fix=held(part), starts=12, restraint="none"
            )
            for on, part in (("target", target), ("source", source))
        }
        forgets = fits["source"].predict(grid) / base_loss(frame) - 1
        kept = grid[forgets <= LIMIT]
        best = kept.iloc[[int(np.argmin(fits["target"].predict(kept)))]]
        row = {"usage": 1, "domain": domain, "replay": best["replay"].iloc[0], "atpp": ATPP}
        row |= {"forgetting": float(fits["source"].predict(best)[0] / base_loss(frame) - 1)}
        rows.append(row | {"domain loss": float(fits["target"].predict(best)[0])})
        own = target["tokens"] * (1 - target["replay"])
        early = target[(own < FITTED_ATPP * SIZE) & (target["replay"] < 1)]
        law = cl.fit("dcpt-l3", early, on="target", fix=held(early), starts=12, restraint="none")
        mixes = pd.DataFrame({"n_params": SIZE, "replay": 1 - SHARES, "tokens": DOMAIN_ATPP * SIZE / SHARES})
        losses = law.predict(mixes)
        place = int(np.argmin(losses))
        share = float(SHARES[place])
        rows.append(
            {"usage": 2, "domain": domain, "replay": 1 - share, "atpp": DOMAIN_ATPP / share}
            | {"domain loss": float(losses[place])}
        )
    found = pd.DataFrame(rows)
    return found.assign(replay=found["replay"].round(3))


def recipe(plans: pd.DataFrame) -> str:
    """Return the recipe that trains the planned mixes."""
    blocks = [BLOCK.format(**plan) for plan in plans[["domain", "replay", "atpp"]].to_dict("records")]
    return HEAD + "".join(blocks)


def scored(plans: pd.DataFrame, planned_runs: pd.DataFrame, runs: cl.Runs) -> pd.DataFrame:
    """Return what the planned mixes measured, beside the best of the nine ratios by straight lines between them."""
    frame, rows = runs.frame, []
    base = base_loss(frame)
    for plan in plans.to_dict("records"):
        tokens = plan["atpp"] * SIZE
        of = planned_runs[planned_runs["domain"] == plan["domain"]]
        of = of[np.isclose(of["replay"], plan["replay"], atol=5e-4) & np.isclose(of["tokens"], tokens, rtol=0.01)]
        row = {name: plan[name] for name in ("usage", "domain", "replay")} | {"planned loss": plan["domain loss"]}
        if not of.empty:
            loss = of.groupby("eval")["loss"].mean()
            row |= {"domain loss": loss["target"]}
            target, source = (cell(frame, plan["domain"], on) for on in ("target", "source"))
            if plan["usage"] == 1:
                shares = np.linspace(0, 1, 101)
                known = source[source["tokens"] == source["tokens"].max()].sort_values("replay")
                other = target[target["tokens"] == target["tokens"].max()].sort_values("replay")
                general = np.interp(shares, known["replay"], known["loss"]) / base - 1
                domain = np.interp(shares, other["replay"], other["loss"])
                domain = np.where(general <= LIMIT, domain, np.inf)
                row |= {"planned forgetting": plan["forgetting"], "forgetting": loss["source"] / base - 1}
            else:
                shares, domain = _at_domain_tokens(target, DOMAIN_ATPP * SIZE)
            row |= {"best replay": shares[int(np.argmin(domain))], "loss above best": loss["target"] / domain.min() - 1}
        rows.append(row)
    return pd.DataFrame(rows)


def _at_domain_tokens(target: pd.DataFrame, own: float) -> tuple[np.ndarray, np.ndarray]:
    """Return replays and measured domain losses after so many tokens of the domain, where runs reach them."""
    found = []
    for replay, run in target[target["replay"] < 1].groupby("replay"):
        tokens = own / (1 - replay)
        if run["tokens"].max() >= 0.99 * tokens:
            run = run.sort_values("tokens")
            found.append((replay, np.interp(np.log(tokens), np.log(run["tokens"]), run["loss"])))
    replays, losses = np.array(found).T
    return replays, losses


def usage_three(runs: cl.Runs) -> pd.DataFrame:
    """Return, for budgets at even shares, the size that L3 names and the best of the sizes measured."""
    frame, rows = runs.frame, []
    sizes = np.array(sorted(frame["n_params"].unique()))
    for domain in DOMAINS:
        part = frame[(frame["domain"].astype(str) == domain) & (frame["eval"] == "target") & (frame["tokens"] > 0)]
        fit = cl.fit("dcpt-l3", part, on="target", fix=held(part), starts=12, restraint="none")
        even = part[part["replay"] == 0.5]
        for flops in BUDGETS:
            tokens = flops / (6 * sizes)
            ask = pd.DataFrame({"n_params": sizes, "tokens": tokens, "replay": 0.5})
            measured = []
            for size, at in zip(sizes, tokens, strict=True):
                run = even[even["n_params"] == size].sort_values("tokens")
                inside = run["tokens"].iloc[0] <= at <= run["tokens"].iloc[-1]
                measured.append(np.interp(np.log(at), np.log(run["tokens"]), run["loss"]) if inside else np.nan)
            wide = np.geomspace(sizes[0] / 10, sizes[-1] * 10, 400)
            free = pd.DataFrame({"n_params": wide, "tokens": flops / (6 * wide), "replay": 0.5})
            said = np.where(np.isfinite(measured), fit.predict(ask), np.inf)
            rows.append(
                {
                    "domain": domain,
                    "FLOPs": flops,
                    "best of the sizes, law": sizes[int(np.argmin(said))],
                    "measured": sizes[int(np.nanargmin(measured))] if np.isfinite(measured).any() else np.nan,
                    "sizes measured": int(np.isfinite(measured).sum()),
                    "best of all, law": wide[int(np.argmin(fit.predict(free)))],
                }
            )
    return pd.DataFrame(rows)


def named_by_the_first_seed(target: pd.DataFrame) -> dict[float, float]:
    """Return the replay that L3 names for 4 tokens of the domain per parameter, by size, as `planned` does at one."""
    own = target["tokens"] * (1 - target["replay"])
    early = target[(own < FITTED_ATPP * target["n_params"]) & (target["replay"] < 1)].reset_index(drop=True)
    law = cl.fit("dcpt-l3", early, on="target", starts=12, restraint="none")
    named = {}
    for size in sorted(target["n_params"].unique()):
        mixes = pd.DataFrame({"n_params": size, "replay": 1 - SHARES, "tokens": DOMAIN_ATPP * size / SHARES})
        named[float(size)] = round(1 - float(SHARES[int(np.argmin(law.predict(mixes)))]), 3)
    return named


def two_seeds(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return usage 2 on Python by size and seed: what the named replay measured, beside none and the best ratio."""
    rows = []
    for seed, frame in enumerate((first, second)):
        target = frame[(frame["eval"] == "target") & (frame["tokens"] > 0) & (frame["domain"].astype(str) == "python")]
        if not seed:
            named = named_by_the_first_seed(target)
        for size, runs in target.groupby("n_params"):
            replays, losses = _at_domain_tokens(runs, DOMAIN_ATPP * float(size))
            at = named[float(size)]
            nearest = int(np.argmin(np.abs(replays - at)))  # trained for itself, or between two that were
            is_trained = abs(replays[nearest] - at) < 0.005
            mine = float(losses[nearest] if is_trained else np.interp(at, replays, losses))
            best = int(np.argmin(losses))
            rows.append(
                {
                    "seed": str(seed),
                    "parameters": f"{float(size) / 1e3:.0f}K",
                    "replay named by the first seed": f"{at:.2f}",
                    "loss there": f"{mine:.4f}",
                    "without replay": f"{losses[0]:.4f}",
                    "best ratio": f"{replays[best]:.2f}",
                    "best loss": f"{losses[best]:.4f}",
                    "named below none, %": f"{100 * (1 - mine / losses[0]):.2f}",
                    "named above the best, %": f"{100 * (mine / losses[best] - 1):.2f}",
                }
            )
    return pd.DataFrame(rows)


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    frame = cl.examples.load("domains").frame
    target = cell(frame, "python", "target")
    law = cl.fit("dcpt-l3", target, on="target", starts=4, fix=held(target), restraint="none")
    return [law.predict(target), base_loss(frame)]


def main() -> None:
    """Make the plans, or score what was trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("plan", "score"), default="score")
    parser.add_argument("--write", action="store_true", help="keep usage 2 of both seeds in studies/results")
    asked = parser.parse_args()
    runs = cl.examples.load("domains")
    if asked.what == "plan":
        plans = planned(runs)
        print(plans.to_string(index=False))
        PLANS.mkdir(exist_ok=True)
        plans.to_csv(PLANS / "usages.csv", index=False, float_format="%.6g")
        (SWEEPS / "domains_planned.yaml").write_text(recipe(plans), encoding="utf-8")
        return
    again = {"two-seeds": two_seeds(runs.frame, pd.read_csv(PLANS / "domains_again.csv").assign(domain="python"))}
    if asked.write:
        write_result("dcpt_usages", again)
        return
    print(show(again))
    rows = scored(pd.read_csv(PLANS / "usages.csv"), pd.read_csv(PLANS / "domains.csv"), runs)
    print("## Usages 1 and 2, trained\n\n" + rows.to_string(index=False, float_format="{:.4f}".format, na_rep="-"))
    if runs.frame["n_params"].nunique() > 1:
        print("\n## Usage 3: the size for a compute budget, even shares\n")
        print(usage_three(runs).to_string(index=False, float_format="{:.3g}".format, na_rep="-"))


if __name__ == "__main__":
    main()
