"""Plans that were trained: `answer` at a budget that it has not seen, the mix that it names run, and what came of it.

For each table and its two largest sizes the runs at 279 tokens per parameter are held out. A scenario has 6 tokens of
the new domain per parameter, and a limit on forgetting: what replay 0.15 or 0.40 cost there. `answer` sees the runs at
15 to 124 and the base model's own losses, and says which replay keeps the limit with 80 % probability. That mix is
trained from the base model at 279, and so is the rule of thumb: replay 0.25, the tokens of the new domain once.

    python -m studies plans_trained plan                  # writes studies/measured/plans.csv and the two recipes
    cptlaw sweep studies/recipes/plans_en_fr.yaml -o runs/en-fr --workers 1
    cptlaw sweep studies/recipes/plans_python.yaml -o runs/python --workers 1
    python -m studies collect_runs studies/recipes/plans_en_fr.yaml --store runs/en-fr -o plans_en_fr.csv
    python -m studies collect_runs studies/recipes/plans_python.yaml --store runs/python -o plans_python.csv
    python -m studies plans_trained                       # with both tables in studies/measured: what they measured

- limit held: whether the measured forgetting kept the limit;
- tokens: those of the plan over the fewest with which the best measured mix within the limit gets the same target loss;
- target above best: the target loss over that of the best measured mix within the limit that has as many tokens of the
  new domain. Best mixes are read off the measured runs at the held-out budget, joined by straight lines.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.forecasts.plan_backtest import GRID, RISK, Measured, measured_at
from studies.harness import MEASURED, SWEEPS, write_result

PLANS = MEASURED
BUDGET, TARGET_ATPP, LIMITS, RULE = 279.0, 6.0, (0.15, 0.4), 0.25
SIZES = {30352: ("30k", "30K", "3e-3"), 45936: ("46k", "46K", "3e-3"), 75072: ("75k", "75K", "2.1e-3")}
TABLES = {"en-fr-ladder": "french", "docs-to-manuals": "manuals", "code-to-prose": "english"}
SEEN = "lr_schedule == 'constant' and ptpp < 279 or tokens == 0"

HEAD = """# The plans of the study plans_trained, trained: the mix that `answer` named, and replay 0.25 with as many
# tokens of the new domain.
name: {name}
text:
{texts}
tokenizer: bytes
context: 128
batch: 8
eval_sequences: 256
models:
{models}
pretrain:
  text: {source}
  ptpp: [15, 31, 62, 124, 279]
  peak: {{{peaks}}}
  warmup: 100
  decay: 15%
adapt:
"""
BLOCK = """  - source: {source}
    target: {target}
    replay: {replay:g}
    models: {model}
    ptpp: 279
    tokens_per_param: {atpp:.4g}
    first_tokens_per_param: 0.5
    points_per_doubling: 2
    schedules: {{schedule: constant, peak: {peak}, warmup: 50}}
"""


def known(name: str) -> cl.Runs:
    """Return the runs of the usual rates and annealed base models of one seed, up to 75K parameters."""
    runs = cl.examples.load(name)
    frame = runs.frame
    keep = (frame["n_params"] < 1e5) & (frame["seed"] == 0) & (frame["ptpp"] <= BUDGET)
    if "pretrain_decay" in frame:
        keep &= frame["pretrain_decay"] > 0
    adapted = frame[frame["tokens"] > 0]
    usual = adapted.groupby("n_params")["lr_peak"].agg(lambda rates: rates.mode().iloc[0])
    keep &= (frame["tokens"] == 0) | np.isclose(frame["lr_peak"], frame["n_params"].map(usual))
    keep &= (frame["tokens"] == 0) | (frame["lr_schedule"] == "constant")
    keep &= frame["replay"].isna() | (frame["replay"] <= 0.5)
    rows = frame[keep].reset_index(drop=True)
    return cl.read_runs(rows.drop(columns=["lr_peak"]), n_params_kind="total")


def scenarios() -> pd.DataFrame:
    """Return the scenarios: table, size, tokens of the new domain and the limit on forgetting."""
    rows = []
    for name in TABLES:
        frame = known(name).frame
        held_out = frame[frame["ptpp"] == BUDGET]
        for n_params in sorted(held_out.loc[held_out["tokens"] > 0, "n_params"].unique())[-2:]:
            measured = measured_at(held_out, n_params)
            for replay in LIMITS:
                tokens = min(TARGET_ATPP * n_params / (1 - replay), measured.tokens[-1])
                limit = measured.at("source", replay, tokens) / measured.base - 1
                rows.append((name, int(n_params), TARGET_ATPP * n_params, f"replay {replay:g}", round(limit, 4)))
    return pd.DataFrame(rows, columns=["table", "n_params", "target_tokens", "limit of", "max_forgetting"])


def planned(asked: pd.DataFrame) -> pd.DataFrame:
    """Put the scenarios to `answer`; return them with its plans."""
    rows = []
    for scenario in asked.to_dict("records"):
        seen = known(scenario["table"]).where(SEEN)
        got = cl.answer(
            seen,
            n_params=scenario["n_params"],
            ptpp=BUDGET,
            target_tokens=scenario["target_tokens"],
            max_forgetting=scenario["max_forgetting"],
            risk=RISK,
        )
        row = {**scenario, "feasible": got.feasible}
        if got.feasible:
            row |= {"replay": round(float(got.replay or 0.0), 3), "probability": got.probabilities["max-forgetting"]}
            row |= {
                name: getattr(got, name)
                for name in ("forgetting", "forgetting_lo", "forgetting_hi", "target_loss", "target_loss_lo",
                             "target_loss_hi")
            }  # fmt: skip
        rows.append(row)
        print(*row.values(), flush=True)
    return pd.DataFrame(rows)


def recipes(plans: pd.DataFrame) -> dict[str, str]:
    """Return the recipes that train the plans and the rule of thumb: file name -> text."""
    found = {}
    for name, tables, source in (
        ("plans_en_fr", ("en-fr-ladder", "docs-to-manuals"), "english"),
        ("plans_python", ("code-to-prose",), "python"),
    ):
        mine = plans[plans["table"].isin(tables)]
        texts = [source, *(TABLES[table] for table in tables)]
        lines = [f"  {text}: {{files: ../../corpora/{text}/*.jsonl, group: group, validation: 1%}}" for text in texts]
        sizes = [SIZES[size] for size in sorted(mine["n_params"].unique())]
        text = HEAD.format(
            name=name.replace("_", "-"), texts="\n".join(lines), source=source,
            models="\n".join(f"  {size[0]}: {{n_params: {size[1]}, seeds: [0]}}" for size in sizes),
            peaks=", ".join(f"{size[0]}: 6e-3" for size in sizes),
        )  # fmt: skip
        mixes = [
            (table, size, replay)
            for (table, size), group in mine.groupby(["table", "n_params"], sort=False)
            for replay in dict.fromkeys([RULE, *group["replay"].dropna()])
        ]
        for table, size, replay in mixes:
            model, _, peak = SIZES[size]
            target, atpp = TABLES[table], TARGET_ATPP / (1 - replay)
            text += BLOCK.format(source=source, target=target, replay=replay, model=model, atpp=atpp, peak=peak)
        found[f"{name}.yaml"] = text
    return found


def best_with(measured: Measured, target_tokens: float, max_source_loss: float) -> float:
    """Return the lowest target loss of a measured mix with so many tokens of the new domain that keeps the limit."""
    replays = np.linspace(measured.replay[0], measured.replay[-1], GRID)
    kept = [
        measured.at("target", replay, target_tokens / (1 - replay))
        for replay in replays[replays < 1]
        if measured.at("source", replay, target_tokens / (1 - replay)) <= max_source_loss * (1 + 1e-9)
    ]
    return min(kept, default=float("nan"))


def scored(plans: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per scenario and planner: what the trained mix measured.

    Parameters
    ----------
    plans
        As `planned` returns them.
    runs
        The measured losses of the trained mixes.
    """
    rows = []
    for plan in plans.to_dict("records"):
        held_out = known(plan["table"]).frame.query("ptpp == @BUDGET")
        measured = measured_at(held_out, plan["n_params"])
        limit = measured.base * (1 + plan["max_forgetting"])
        for planner, replay in (("answer", plan.get("replay", np.nan)), ("rule of thumb", RULE)):
            row = {name: plan[name] for name in ("table", "n_params", "limit of", "max_forgetting")}
            row |= {"planner": planner, "replay": replay}
            tokens = plan["target_tokens"] / (1 - replay)
            of = runs[(runs["n_params"] == plan["n_params"]) & (runs["domain"] == TABLES[plan["table"]])]
            of = of[np.isclose(of["replay"], replay, atol=5e-4) & np.isclose(of["tokens"], tokens, rtol=0.02)]
            if not of.empty:
                loss = of.groupby("eval", observed=True)["loss"].mean()
                held = loss["source"] <= limit * (1 + 1e-9)
                fewest = measured.fewest(tokens, float(loss["target"]), limit) if held else np.nan
                row |= {
                    "forgetting": loss["source"] / measured.base - 1,
                    "limit held": bool(held),
                    "target loss": loss["target"],
                    "target above best": loss["target"] / best_with(measured, plan["target_tokens"], limit) - 1,
                    "tokens": tokens / fewest,
                }
                if planner == "answer":
                    row["forgetting in 90 %"] = plan["forgetting_lo"] <= row["forgetting"] <= plan["forgetting_hi"]
                    row["target in 90 %"] = plan["target_loss_lo"] <= loss["target"] <= plan["target_loss_hi"]
            rows.append(row)
    return pd.DataFrame(rows)


def totals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per planner over the trained mixes."""
    found = []
    for planner, group in rows.groupby("planner", sort=False):
        made = group[group["target loss"].notna()]
        kept = made[made["limit held"].astype(bool)]
        found.append(
            {
                "planner": planner,
                "scenarios": len(group),
                "trained": len(made),
                "limit held": made["limit held"].astype(float).mean(),
                "worst miss, points": 100 * (made["forgetting"] - made["max_forgetting"]).max(),
                "target above best, where held": 100 * kept["target above best"].mean(),
                "tokens, median": kept["tokens"].median(),
            }
        )
    return pd.DataFrame(found)


def trained() -> pd.DataFrame:
    """Return what the committed plans and runs come to, as `scored` has it."""
    runs = pd.concat([pd.read_csv(PLANS / name) for name in ("plans_en_fr.csv", "plans_python.csv")], ignore_index=True)
    runs["domain"] = runs["domain"].fillna(TABLES["code-to-prose"])  # a table of one domain has no such column
    return scored(pd.read_csv(PLANS / "plans.csv"), runs)


def tables() -> dict[str, pd.DataFrame]:
    """Return every plan beside the rule of thumb, and what both come to; two scenarios may share a run."""
    rows = trained()
    plans = pd.read_csv(PLANS / "plans.csv")
    key = ["table", "n_params", "limit of"]
    by_planner = {name: group.set_index(key) for name, group in rows.groupby("planner")}
    lines = []
    for plan in plans.to_dict("records"):
        at = tuple(plan[name] for name in key)
        one, rule = by_planner["answer"].loc[at], by_planner["rule of thumb"].loc[at]
        limit = plan["max_forgetting"]
        row = {"table": at[0], "parameters": f"{at[1] / 1e3:.0f}K", "limit": f"{100 * limit:.1f} %"}
        if plan["feasible"]:
            low, high = (100 * plan[f"forgetting_{end}"] for end in ("lo", "hi"))
            row["replay planned"] = f"{plan['replay']:.3f}"
            row["forecast (90 %)"] = f"{100 * plan['forgetting']:.0f} % ({low:.0f} to {high:.0f})"
            row["measured"] = f"{100 * one['forgetting']:.1f} %"
            row["held"] = "yes" if one["limit held"] else "no"
        held = "" if rule["limit held"] else ", broken"
        lines.append(row | {"rule of thumb, measured": f"{100 * rule['forgetting']:.1f} %{held}"})
    frame = pd.DataFrame(lines).fillna({"replay planned": "refused"}).fillna("")
    totals_of = []
    for name, group in by_planner.items():
        made = group[group["target loss"].notna()].reset_index()
        of_run = made.groupby(["table", "n_params", "replay"])["limit held"].min()
        held = int(made["forgetting in 90 %"].astype(float).sum())
        row = {
            "planner": name,
            "plans": f"{len(made)} of {len(group)}",
            "limit held": f"{made['limit held'].sum()} of {len(made)}",
        }
        row["of distinct runs"] = f"{of_run.sum()} of {len(of_run)}"
        row["worst miss, points"] = f"{100 * (made['forgetting'] - made['max_forgetting']).max():.1f}"
        totals_of.append(row | {"90 % intervals that held": f"{held} of {len(made)}" if name == "answer" else "-"})
    return {"plans": frame, "totals": pd.DataFrame(totals_of), "today": today()}


def today() -> pd.DataFrame:
    """Return the plans of a later `answer` (studies/measured/plans_today.csv) that were trained, and what came of them.

    They were trained from another base model of the same recipe, on text of newer packages: forgetting counts from it.
    """
    tables = {name: pd.read_csv(PLANS / f"plans_{name}_today.csv") for name in ("en_fr", "python")}
    rows = []
    for plan in pd.read_csv(PLANS / "plans_today.csv").query("n_params == 45936").to_dict("records"):
        runs = tables["en_fr" if plan["table"] == "en-fr-ladder" else "python"]
        base = float(runs.loc[(runs["tokens"] == 0) & (runs["eval"] == "source"), "loss"].iloc[0])
        last = runs.loc[runs.groupby(["run", "eval"])["tokens"].idxmax()].query("tokens > 0")
        mine = last[np.isclose(last["replay"], plan["replay"], atol=5e-4)].set_index("eval")["loss"]
        if mine.empty:
            continue
        low, middle, high = (100 * plan[f"forgetting{end}"] for end in ("_lo", "", "_hi"))
        forgetting = mine["source"] / base - 1
        row = {
            "table": plan["table"],
            "limit": f"{100 * plan['max_forgetting']:.1f} %",
            "replay planned": f"{plan['replay']:.3f}",
        }
        row |= {"forecast (90 %)": f"{middle:.0f} % ({low:.0f} to {high:.0f})", "measured": f"{100 * forgetting:.1f} %"}
        row |= {"held": "yes" if forgetting <= plan["max_forgetting"] else "no"}
        target = (plan[f"target_loss{end}"] for end in ("_lo", "", "_hi"))
        row["target, forecast (90 %)"] = "{1:.2f} ({0:.2f} to {2:.2f})".format(*target)
        rows.append(row | {"target, measured": f"{mine['target']:.2f}"})
    return pd.DataFrame(rows)


def main() -> None:
    """Make the plans, or score what was trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("plan", "score"), default="score")
    parser.add_argument("--write", action="store_true", help="keep the tables in studies/results")
    asked = parser.parse_args()
    if asked.what == "plan":
        plans = planned(scenarios())
        PLANS.mkdir(exist_ok=True)
        plans.to_csv(PLANS / "plans.csv", index=False, float_format="%.6g")
        for name, text in recipes(plans).items():
            (SWEEPS / name).write_text(text, encoding="utf-8")
        return
    if asked.write:
        write_result("plans_trained", tables())
        return
    rows = trained()
    print(rows.to_string(index=False, float_format="{:.3f}".format, na_rep="-"))
    print("\n" + totals(rows).to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
