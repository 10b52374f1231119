"""Plans that were trained: `answer` at a budget that it has not seen, the mix that it names run, and what came of it.

For two tables and their sizes from 46K a budget of pre-training is held out. A scenario has some tokens of the new
domain per parameter, and a limit on forgetting: what a replay cost in the table there (`ROUNDS`). A base model is
trained to that budget, on text of newer packages than the table's. `answer` sees the table's runs below that budget and
the new base model's own two losses, and says which replay keeps the limit with a probability of 80 %, and with one of
50 %. These mixes are trained from that base model, and so is the rule of thumb: replay 0.25. A second round put other
limits and fewer tokens to the `answer` of the next day, which learned from the first one.

    python -m studies plans_trained bases       # writes recipes: the base models, and the rule of thumb from each
    cptlaw sweep studies/recipes/plans_sealed_french_279.yaml -o runs/plans-french --workers 1    # and the others
    python -m studies collect_runs studies/recipes/plans_sealed_french_*.yaml --store runs/plans-french \\
        -o studies/measured/plans_sealed_french.csv
    python -m studies plans_trained plan        # plans from base models that have none: table, seals, recipes
    cptlaw sweep .. ; python -m studies collect_runs ..          # the same commands train and collect the mixes
    python -m studies plans_trained --write     # what they measured

Twelve plans of an earlier `answer` were trained before (studies/measured/plans.csv), from the tables' own base models.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.forecasts.plan_backtest import measured_at
from studies.harness import HOME, MEASURED, SWEEPS, show, write_result

RULE, RISKS = 0.25, (0.8, 0.5)
STANDING = {45936: 279.0, 75072: 279.0, 124672: 124.0}  # budgets held out at a size: base models of the first round
ROUNDS = (  # round, budgets, seed of the base models, tokens of the new domain per parameter, what poses the limits
    (1, STANDING, 0, 6.0, (0.15, 0.4)),
    (2, STANDING, 0, 3.0, (0.1, 0.25)),
    (2, {45936: 124.0, 75072: 124.0}, 1, 6.0, (0.15, 0.4)),
    (2, {124672: 62.0}, 1, 6.0, (0.15, 0.4)),
    (2, STANDING, 0, 6.0, (0.1, 0.25)),
)
SIZES = {45936: ("46k", "6e-3", "3e-3"), 75072: ("75k", "6e-3", "2.1e-3"), 124672: ("125k", "6e-3", "1.5e-3")}
CORPORA = {"en-fr-ladder": ("english", "french"), "code-to-prose": ("python", "english")}
EARLIER = {"en-fr-ladder": "french", "docs-to-manuals": "manuals", "code-to-prose": "english"}
PLANS = MEASURED / "plans_sealed.csv"
OF_BASE = ["table", "n_params", "ptpp", "seed"]
OF_RECIPE = ["round", "table", "ptpp", "seed", "target_atpp"]
LOSSES = ("forgetting", "target_loss", "source_loss")
ENDS = ("_lo", "", "_hi")
MEASURES = ["measured", "target", "held", "forgetting inside", "target_loss inside"]
KEY = ["table", "n_params", "limit of"]
MOST = 0.9  # replay that is trained: beyond, a plan takes more than ten times the tokens of the new domain

HEAD = """# Mixes that `answer` named (studies/measured/plans_sealed.csv){rule}.
name: plans-{target}
text:
  {source}: {{files: ../../corpora/{source}/*.jsonl, group: group, validation: 1%}}
  {target}: {{files: ../../corpora/{target}/*.jsonl, group: group, validation: 1%}}
tokenizer: bytes
context: 128
batch: 8
eval_sequences: 256
models:
{models}
pretrain: {{text: {source}, ptpp: [{budget:g}], peak: {{{peaks}}}, warmup: 100, decay: 15%}}
adapt:
"""
BLOCK = """  - source: {source}
    target: {target}
    replay: {replay:g}
    models: {model}
    tokens_per_param: {atpp:.4g}
    first_tokens_per_param: 0.5
    points_per_doubling: 2
    schedules: {{schedule: constant, peak: {peak}, warmup: 50}}
"""


def known(name: str, largest: float = 75072, budget: float = 279.0) -> cl.Runs:
    """Return the runs of one seed at the usual rates from annealed base models, up to a size and a budget."""
    runs = cl.examples.load(name)
    frame = runs.frame
    keep = (frame["n_params"] <= largest) & (frame["seed"] == 0) & (frame["ptpp"] <= budget)
    if "pretrain_decay" in frame:
        keep &= frame["pretrain_decay"] > 0
    adapted = frame[frame["tokens"] > 0]
    usual = adapted.groupby("n_params")["lr_peak"].agg(lambda rates: rates.mode().iloc[0])
    keep &= (frame["tokens"] == 0) | np.isclose(frame["lr_peak"], frame["n_params"].map(usual))
    keep &= (frame["tokens"] == 0) | (frame["lr_schedule"] == "constant")
    keep &= frame["replay"].isna() | (frame["replay"] <= 0.5)
    rows = frame[keep].reset_index(drop=True)
    return cl.read_runs(rows.drop(columns=["lr_peak"]), n_params_kind="total")


def trained(name: str) -> pd.DataFrame:
    """Return what was measured from the new base models of one table, of none at first."""
    path = MEASURED / f"plans_sealed_{CORPORA[name][1]}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["n_params", "ptpp", "seed", "tokens", "eval"])


def of_base(name: str, n_params: float, budget: float, seed: float) -> pd.DataFrame:
    """Return what was measured from one new base model."""
    return trained(name).query("n_params == @n_params and ptpp == @budget and seed == @seed")


def scenarios() -> pd.DataFrame:
    """Return the scenarios: the base model, tokens of the new domain and the limit on forgetting."""
    rows = []
    for number, budgets, seed, atpp, limits in ROUNDS:
        for name, (n_params, budget) in itertools.product(CORPORA, budgets.items()):
            held_out = known(name, n_params, budget).frame.query("ptpp == @budget and n_params == @n_params")
            measured = measured_at(held_out, n_params)
            for replay in np.minimum(limits, measured.replay[-1]):  # beyond the most replay no cost was measured
                tokens = min(atpp * n_params / (1 - replay), measured.tokens[-1])
                limit = measured.at("source", replay, tokens) / measured.base - 1
                question = (atpp, atpp * n_params, f"replay {replay:g}", round(limit, 4))
                rows.append((number, name, n_params, budget, seed, *question))
    asked = ["target_atpp", "target_tokens", "limit of", "max_forgetting"]
    found = pd.DataFrame(rows, columns=["round", *OF_BASE, *asked])
    return found.drop_duplicates([*OF_BASE, "target_atpp", "max_forgetting"], ignore_index=True)


def seen_by_the_planner(name: str, n_params: int, budget: float, seed: int) -> cl.Runs | None:
    """Return the table's runs below the held-out budget with the new base model's losses; None before it is trained."""
    new = of_base(name, n_params, budget, seed).query("tokens == 0")
    if new.empty:
        return None
    table = known(name, max(n_params, 75072), budget).frame.query("ptpp < @budget")
    rows = new[[column for column in table if column in new]].assign(run=f"new {n_params}", base=f"new {n_params}")
    return cl.read_runs(pd.concat([table, rows], ignore_index=True), n_params_kind="total")


def planned(asked: pd.DataFrame) -> pd.DataFrame:
    """Put scenarios to `answer`, at 80 % and at even odds; return them with its plans."""
    rows = []
    for scenario in asked.to_dict("records"):
        seen = seen_by_the_planner(*(scenario[name] for name in OF_BASE))
        if seen is None:
            continue
        question = {name: scenario[name] for name in ("n_params", "ptpp", "target_tokens", "max_forgetting")}
        for risk in RISKS:
            got = cl.answer(seen, **question, risk=risk)
            row = {**scenario, "risk": risk, "feasible": got.feasible}
            if got.feasible:
                row |= {"replay": round(float(got.replay or 0.0), 3)}
                row["probability"] = got.probabilities["max-forgetting"]
                row |= {f"{name}{end}": getattr(got, f"{name}{end}") for name in LOSSES for end in ENDS}
            else:
                nearest = got.best_reachable or {}
                row |= {"nearest replay": nearest.get("replay"), "probability": nearest.get("probability")}
            rows.append(row)
            print(*row.values(), flush=True)
    return pd.DataFrame(rows)


def seal(plans: pd.DataFrame, output: Path) -> None:
    """Seal the losses that plans of one new base model forecast."""
    made = plans[plans["feasible"]].drop_duplicates("replay")
    points = [
        {"on": on, "law": "auto", "n_params": plan["n_params"], "ptpp": plan["ptpp"], "replay": plan["replay"],
         "tokens": plan["target_tokens"] / (1 - plan["replay"]), "loss": plan[f"{on}_loss"],
         "lo": plan[f"{on}_loss_lo"], "hi": plan[f"{on}_loss_hi"]}
        for plan in made.to_dict("records") for on in ("target", "source")
    ]  # fmt: skip
    if points:
        cl.register({"points": points, "interval": 0.9, "intervals": []}, output)


def recipes(plans: pd.DataFrame) -> dict[str, str]:
    """Return the recipes that train mixes and the rule of thumb: file name -> text."""
    found = {}
    for (number, table, budget, seed, atpp), mine in plans.groupby(OF_RECIPE, sort=False):
        source, target = CORPORA[table]
        sizes = [SIZES[size] for size in mine["n_params"].unique()]
        # Half as many tokens of the new domain lie on the way of the first round's run of the rule of thumb.
        rule = [RULE] if number == 1 or seed else []
        text = HEAD.format(
            source=source, target=target, budget=budget,
            rule=", and replay 0.25 with as many new tokens" if rule else "",
            models="\n".join(f"  {name}: {{n_params: {name.upper()}, seeds: [{seed}]}}" for name, *_ in sizes),
            peaks=", ".join(f"{name}: {peak}" for name, peak, _ in sizes),
        )  # fmt: skip
        for size, group in mine.groupby("n_params", sort=False):
            model, _, peak = SIZES[size]
            named = group["replay"].dropna() if "replay" in group else []
            for replay in dict.fromkeys([*rule, *(each for each in named if each <= MOST)]):
                tokens = atpp / (1 - replay)
                text += BLOCK.format(source=source, target=target, replay=replay, model=model, atpp=tokens, peak=peak)
        name = f"plans_sealed_{target}_{budget:g}"
        found[f"{name}.yaml" if number == 1 else f"{name}_again_{atpp:g}_seed_{seed}.yaml"] = text
    return found


def plan_the_rest() -> None:
    """Plan where a new base model has been measured and no plan was made; keep the plans, seal them, write recipes."""
    asked, key = scenarios(), [*OF_BASE, "target_atpp", "limit of"]
    kept = pd.read_csv(PLANS) if PLANS.exists() else pd.DataFrame(columns=key)
    done = set(kept[key].itertuples(index=False, name=None))
    new = planned(asked[[place not in done for place in asked[key].itertuples(index=False, name=None)]])
    if new.empty:
        return
    for (number, table, budget, seed, atpp, n_params), mine in new.groupby([*OF_RECIPE, "n_params"], sort=False):
        again = f"_{budget:g}_seed_{seed}_{atpp:g}" if number > 1 else ""
        seal(mine, HOME / "sealed" / f"plans_{CORPORA[table][1]}_{SIZES[n_params][0]}{again}.json")
    plans = pd.concat([kept, new], ignore_index=True) if len(kept) else new
    plans.to_csv(PLANS, index=False, float_format="%.6g")
    for name, text in recipes(asked.merge(plans, how="left")).items():
        (SWEEPS / name).write_text(text, encoding="utf-8")


# -- what came of them -------------------------------------------------------------------------------------------------


def at_mix(runs: pd.DataFrame, replay: float, target_tokens: float) -> pd.Series:
    """Return the losses by eval that one mix measured, where it had so many tokens of the new domain."""
    tokens = target_tokens / (1 - replay)
    mine = runs[np.isclose(runs["replay"], replay, atol=5e-4) & np.isclose(runs["tokens"], tokens, rtol=0.03)]
    return mine.loc[(mine["tokens"] - tokens).abs().groupby(mine["eval"]).idxmin()].set_index("eval")["loss"]


def outcomes() -> pd.DataFrame:
    """Return the plans whose mixes were trained with the forgetting and the target loss that these measured."""
    rows = []
    for plan in pd.read_csv(PLANS).to_dict("records"):
        runs = of_base(*(plan[name] for name in OF_BASE))
        base = runs[(runs["tokens"] == 0) & (runs["eval"] == "source")]["loss"].iloc[0]
        rule, mine = (at_mix(runs, replay, plan["target_tokens"]) for replay in (RULE, plan["replay"]))
        row = {**plan, "rule": rule["source"] / base - 1 if len(rule) else np.nan}
        if len(mine):
            row |= {"measured": mine["source"] / base - 1, "target": mine["target"]}
            row["held"] = row["measured"] <= plan["max_forgetting"]
            for name, value in (("forgetting", row["measured"]), ("target_loss", row["target"])):
                row[f"{name} inside"] = plan[f"{name}_lo"] <= value <= plan[f"{name}_hi"]
        rows.append(row)
    return pd.DataFrame(rows).reindex(columns=[*MEASURES, *(name for name in rows[0] if name not in MEASURES)])


def forecast_again(rows: pd.DataFrame) -> pd.DataFrame:
    """Return trained plans with what laws of today forecast of their mixes from the same runs: seen rows by now."""
    parts = []
    for (table, n_params, budget, seed), mine in rows[rows["measured"].notna()].groupby(OF_BASE):
        seen = seen_by_the_planner(table, n_params, budget, seed)
        if seen is None:
            continue
        base = seen.frame.query("n_params == @n_params and ptpp == @budget and eval == 'source'")["loss"].iloc[0]
        points = pd.DataFrame({"n_params": n_params, "ptpp": budget, "replay": mine["replay"], "base_loss": base})
        points["tokens"] = mine["target_tokens"] / (1 - mine["replay"])
        fit = cl.fit("auto", seen, "source")
        low, high = np.exp(fit.log_quantiles(points, [0.05, 0.95])) / base - 1
        now = {"forgetting": fit.predict(points) / base - 1, "forgetting_lo": low, "forgetting_hi": high}
        parts.append(mine.assign(**now, sealed=mine["forgetting"]))
    return pd.concat(parts)


def today(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how far forecasts of forgetting were off when they were sealed, and how far they are with today's laws."""
    again = forecast_again(rows)
    found = []
    for name, group in [("both", again), *again.groupby("table", sort=False)]:
        row = {"table": name, "plans trained": str(len(group))}
        for when, column in (("sealed", "sealed"), ("today", "forgetting")):
            off = 100 * (group[column] - group["measured"])
            row[f"{when}: forecast minus measured, points"] = f"{off.mean():+.1f}"
            row[f"{when}: without sign"] = f"{off.abs().mean():.1f}"
        inside = (group["forgetting_lo"] <= group["measured"]) & (group["measured"] <= group["forgetting_hi"])
        found.append(row | {"today: 90 % intervals that held": f"{inside.sum()} of {len(group)}"})
    return pd.DataFrame(found)


def counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what plans come to by round, probability and shift, beside the rule of thumb."""
    rows = rows[rows["measured"].notna()].astype(dict.fromkeys(MEASURES, float))
    found = []
    for number, risk in itertools.product(rows["round"].unique(), RISKS):
        asked = rows[(rows["round"] == number) & (rows["risk"] == risk)]
        for name, group in [("both", asked), *asked.groupby("table", sort=False)] if len(asked) else []:
            made, inside = len(group), "{:.0f} of {}".format
            off, above = group["forgetting"] - group["measured"], group["target_loss"] / group["target"]
            found.append(
                {
                    "round": str(number),
                    "probability asked": f"{100 * risk:.0f} %",
                    "table": name,
                    "plans trained": str(made),
                    "limit held": inside(group["held"].sum(), made),
                    "worst miss, points": f"{100 * (group['measured'] - group['max_forgetting']).max():+.1f}",
                    "forgetting, forecast minus measured, points": f"{100 * off.mean():+.1f}",
                    "its intervals that held": inside(group["forgetting inside"].sum(), made),
                    "target, forecast over measured": f"{100 * (above.mean() - 1):+.1f} %",
                    "target intervals that held": inside(group["target_loss inside"].sum(), made),
                    "rule of thumb held": inside((group["rule"] <= group["max_forgetting"]).sum(), made),
                }
            )
    return pd.DataFrame(found)


def listed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return every plan as the page shows it; two scenarios may share a run."""
    lines = []
    for plan in rows.to_dict("records"):
        line = {"table": plan["table"], "parameters": f"{plan['n_params'] / 1e3:.0f}K", "budget": f"{plan['ptpp']:g}"}
        line["new tokens"] = f"{plan['target_atpp']:g}"
        line |= {"limit": f"{100 * plan['max_forgetting']:.1f} %", "asked": f"{100 * plan['risk']:.0f} %"}
        if not plan["feasible"]:
            line["replay planned"] = "refused"
            if pd.notna(plan["nearest replay"]):
                chance = f"{100 * plan['probability']:.0f} %"
                line["replay planned"] += f": {plan['nearest replay']:.2f} keeps it with {chance}"
            lines.append(line)
            continue
        line["replay planned"] = f"{plan['replay']:.3f}"
        low, middle, high = (100 * plan[f"forgetting{end}"] for end in ENDS)
        line["forecast (90 %)"] = f"{middle:.0f} % ({low:.0f} to {high:.0f})"
        low, middle, high = (plan[f"target_loss{end}"] for end in ENDS)
        line["target, forecast (90 %)"] = f"{middle:.2f} ({low:.2f} to {high:.2f})"
        if pd.notna(plan["measured"]):
            line |= {"measured": f"{100 * plan['measured']:.1f} %", "held": "yes" if plan["held"] else "no"}
            line["target, measured"] = f"{plan['target']:.2f}"
        elif plan["replay"] > MOST:
            line["measured"] = "not trained"
        lines.append(line)
    first = ["table", "parameters", "budget", "new tokens", "limit", "asked", "replay planned", "forecast (90 %)"]
    first += ["measured", "held"]
    return pd.DataFrame(lines, columns=[*first, "target, forecast (90 %)", "target, measured"], dtype=object).fillna("")


def earlier() -> pd.DataFrame:
    """Return what the plans of an earlier `answer` came to, from the tables' own base models at budget 279."""
    runs = pd.concat([pd.read_csv(MEASURED / name) for name in ("plans_en_fr.csv", "plans_python.csv")])
    runs["domain"] = runs["domain"].fillna("english")  # a table of one domain has no such column
    rows = []
    for plan in pd.read_csv(MEASURED / "plans.csv").to_dict("records"):
        base = measured_at(known(plan["table"]).frame.query("ptpp == 279"), plan["n_params"]).base
        mine = runs[(runs["n_params"] == plan["n_params"]) & (runs["domain"] == EARLIER[plan["table"]])]
        for planner, replay in (("answer", plan["replay"]), ("rule of thumb", RULE)):
            of = mine[np.isclose(mine["replay"], replay, atol=5e-4) & (mine["eval"] == "source")]
            of = of[np.isclose(of["tokens"], plan["target_tokens"] / (1 - replay), rtol=0.02)]
            if not of.empty:
                row = {name: plan[name] for name in KEY} | {"planner": planner, "replay": replay}
                forgetting = of["loss"].mean() / base - 1
                inside = plan["forgetting_lo"] <= forgetting <= plan["forgetting_hi"]
                rows.append(row | {"miss": forgetting - plan["max_forgetting"], "inside": inside})
    found = []
    for planner, group in pd.DataFrame(rows).groupby("planner", sort=False):
        held = group["miss"] <= 1e-9
        of_run = held.groupby([group[name] for name in ("table", "n_params", "replay")]).min()
        row = {"planner": planner, "plans": f"{len(group)} of 12", "limit held": f"{held.sum()} of {len(group)}"}
        row["of distinct runs"] = f"{of_run.sum()} of {len(of_run)}"
        row["worst miss, points"] = f"{100 * group['miss'].max():.1f}"
        inside = f"{group['inside'].sum()} of {len(group)}" if planner == "answer" else "-"
        found.append(row | {"90 % intervals that held": inside})
    return pd.DataFrame(found)


def raised() -> pd.DataFrame:
    """Return by how much the source loss rises on the source corpus alone, after 4 tokens per parameter, by budget."""
    frame = cl.examples.load("en-fr-ladder").frame.query("eval == 'source' and seed == 0 and pretrain_decay > 0")
    alone = frame[(frame["replay"] == 1) & np.isclose(frame["tokens"] / frame["n_params"], 4, rtol=0.15)]
    base = frame[frame["tokens"] == 0].set_index(["n_params", "ptpp"])["loss"]
    of = alone.groupby(["n_params", "ptpp"])["loss"].mean() / base.groupby(level=[0, 1]).mean() - 1
    wide = of.dropna().unstack("ptpp")
    rows = [{"parameters": f"{size / 1e3:.0f}K"} | {f"budget {budget:g}": f"{100 * value:+.1f} %" for budget, value in
            row.items()} for size, row in wide.iterrows()]  # fmt: skip
    return pd.DataFrame(rows)


def tables() -> dict[str, pd.DataFrame]:
    """Return what plans come to, every plan, how far they are off with today's laws, why, and what earlier ones did."""
    rows = outcomes()
    first, again = rows[rows["round"] == 1], rows[(rows["round"] > 1) & rows["measured"].notna()]
    totals = counted(rows)
    both = totals[totals["table"] == "both"].drop(columns="table")
    made = {"both": both, "totals": totals, "plans": listed(first), "again": listed(again), "today": today(first)}
    return made | {"raised": raised(), "earlier": earlier()}


def probe() -> list[pd.DataFrame]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    rows = outcomes()
    first = rows[rows["measured"].notna()].head(1)
    return [rows.select_dtypes("number"), forecast_again(first).select_dtypes("number")]


def main() -> None:
    """Write recipes, make plans, or score what was trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("bases", "plan", "score"), default="score")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    if asked.what == "bases":
        for name, text in recipes(scenarios()).items():
            (SWEEPS / name).write_text(text, encoding="utf-8")
    elif asked.what == "plan":
        plan_the_rest()
    elif asked.write:
        write_result("plans_trained", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
