"""The planning case of the PTPP study, its loss curves, and tables as Markdown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

import cptlaw as cl
from studies.papers.ptpp_forecasts import INPUTS, LAWS, NEAREST, Forecasts, Study
from studies.papers.ptpp_published import ORACLE, PLAN

PLAN_LAWS = (("target", "ptpp-gated-floor"), ("source", "ptpp-floor"))


def planning(
    study: Study, found: dict[tuple[str, bool, str], Forecasts], limits: tuple[float, float], grid: int
) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Ask the planning question of section 4 at the largest size; return it in words, the answers, the map of Figure 2.

    The source law is Form 1 and the target law Form 3, as published; beside them the same on the two highest budgets
    below, and `ptpp-nearest`. What each plans is held against the oracle, fitted on the runs of the test budget.
    """
    max_loss, max_forgetting = limits
    frame = study.rows.frame
    setting = {"n_params": float(frame["n_params"].max()), "ptpp": study.test_ptpp}
    base = study.runs.where(f"tokens == 0 and ptpp == {study.test_ptpp} and n_params == {setting['n_params']}").frame
    base_loss = float(base.loc[base["eval"] == "source", "loss"].mean())
    upper = sorted(level for level in frame["ptpp"].unique() if level < study.test_ptpp)[-2:]
    later = replace(study, fit_ptpp=tuple(upper))
    pairs = {
        "forms": ("Forms 3 and 1", *(found[on, False, law].fit for on, law in PLAN_LAWS)),
        "forms_upper": (
            f"Forms 3 and 1, fitted on {upper[0]:g} and {upper[1]:g}",
            *(
                cl.fit(law, study.rows, on=on, where=later.fitted, starts=study.starts, restraint="none")
                for on, law in PLAN_LAWS
            ),
        ),
        "nearest": ("nearest budget", *(found[on, False, NEAREST].fit for on in ("target", "source"))),
        "oracle": ("oracle", *(found[on, False, ORACLE].fit for on in ("target", "source"))),
    }
    if later.fit_ptpp == study.fit_ptpp:
        del pairs["forms_upper"]
    oracle = pairs["oracle"][1:]
    rows = []
    for allowed in dict.fromkeys((max_forgetting, PLAN["max_forgetting"])):
        for name, target, source in pairs.values():
            plan = cl.plan.min_tokens(
                target, source, **setting, max_target_loss=max_loss, max_forgetting=allowed, base_source_loss=base_loss
            )
            row = {"fits": name, "forgetting allowed": f"{100 * allowed:g} %"}
            if plan.feasible:
                mix = pd.DataFrame([setting | {"tokens": plan.tokens, "replay": plan.replay}])
                loss, forgetting = oracle[0].predict(mix)[0], oracle[1].predict(mix)[0] / base_loss - 1
                row |= {"tokens per parameter": f"{plan.atpp:.3g}", "replay": f"{100 * plan.replay:.0f} %"}
                row["target loss (90 %)"] = (
                    f"{plan.target_loss:.3f} ({plan.target_loss_lo:.3f} to {plan.target_loss_hi:.3f})"
                )
                row["forgetting (90 %)"] = (
                    f"{100 * plan.forgetting:.0f} % ({100 * plan.forgetting_lo:.0f} to {100 * plan.forgetting_hi:.0f})"
                )
                row["by the oracle"] = f"{loss:.3f}, {100 * forgetting:.0f} %"
            else:
                reached = (plan.best_reachable or {}).get("forgetting")
                said = f"; least forgetting {100 * reached:.0f} %" if reached is not None else ""
                row |= {"tokens per parameter": "no plan", "replay": f"blocked by {plan.blocking}{said}"}
            rows.append(row)
    atpp = frame["tokens"] / frame["n_params"]
    points = pd.MultiIndex.from_product(
        [np.linspace(frame["replay"].min(), frame["replay"].max(), grid), np.geomspace(atpp.min(), atpp.max(), grid)],
        names=["replay", "atpp"],
    ).to_frame(index=False)
    points = points.assign(**setting, tokens=points["atpp"] * setting["n_params"])
    for short, (_, target, source) in pairs.items():
        points[f"target_loss_{short}"] = target.predict(points)
        points[f"forgetting_{short}"] = source.predict(points) / base_loss - 1
        kept = (points[f"target_loss_{short}"] <= max_loss) & (points[f"forgetting_{short}"] <= max_forgetting)
        points[f"feasible_{short}"] = kept.astype(int)
    model = f"{setting['n_params']:,.0f} parameters, PTPP {study.test_ptpp:g}"
    asked = f"Asked: a target loss of {max_loss:g} nats per token at {model}."
    published = (
        f"Published: {PLAN['atpp']} tokens per parameter at replay {100 * PLAN['replay']:.0f} %, for "
        f"{PLAN['n_params'] / 1e9:g}B parameters, target loss {PLAN['max_target_loss']}, forgetting 2 %."
    )
    return f"{asked}\n{published}", pd.DataFrame(rows).fillna(""), points


def curves(study: Study, found: dict[tuple[str, bool, str], Forecasts], grid: int) -> pd.DataFrame:
    """Return loss against tokens at the test budget, forecast and measured, by size and replay."""
    parts = []
    for on in ("target", "source"):
        rows = found[on, False, NEAREST].rows
        for (n_params, replay), cell in rows.groupby(["n_params", "replay"]):
            tokens = np.geomspace(cell["tokens"].min(), cell["tokens"].max(), grid)
            line = pd.DataFrame({"n_params": n_params, "tokens": tokens, "replay": replay, "ptpp": study.test_ptpp})
            for law in LAWS:
                parts.append(line.assign(eval=on, kind=law, loss=found[on, False, law].fit.predict(line)))
            parts.append(cell[[*INPUTS, "loss"]].assign(eval=on, kind="measured"))
    return pd.concat(parts, ignore_index=True)[["eval", "kind", *INPUTS, "loss"]]


def in_sample(found: dict[tuple[str, bool, str], Forecasts], grid: int) -> pd.DataFrame:
    """Return Figure 3: Form 3 beside the rows that it was fitted to, both losses, by size, budget and replay."""
    parts = []
    for on in ("target", "source"):
        fit = found[on, False, "ptpp-gated-floor"].fit
        for (n_params, replay, ptpp), cell in fit.data.groupby(["n_params", "replay", "ptpp"]):
            tokens = np.geomspace(cell["tokens"].min(), cell["tokens"].max(), grid)
            line = pd.DataFrame({"n_params": n_params, "tokens": tokens, "replay": replay, "ptpp": ptpp})
            parts.append(line.assign(eval=on, kind="fitted", loss=fit.predict(line)))
            parts.append(cell[[*INPUTS, "loss"]].assign(eval=on, kind="measured"))
    return pd.concat(parts, ignore_index=True)[["eval", "kind", *INPUTS, "loss"]]


def markdown(frame: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    head = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * len(frame.columns)]
    return "\n".join([*head, *("| " + " | ".join(map(str, row)) + " |" for row in frame.to_numpy())])
