"""Plans put to the test: made without the runs of a budget, held against what these runs measured.

For each example table and size the highest pre-training budget is held out. A question asks for the replay that gives
the lowest target loss at a number of tokens, within a limit on forgetting; the limit is what replay 0.15 or 0.40 cost
there, so that an answer exists. The planners see the runs at lower budgets and, as one would, the losses of the base
model itself. What a plan would have given is read off the measured runs of the held-out budget, joined by straight
lines in replay and in the logarithm of tokens; no planned mix was trained for itself.

- limit held: the share of plans whose measured forgetting kept the limit, beside the probability that was asked;
- tokens: those that were given, over the fewest with which the best measured mix within the limit gets the same target
  loss, where the limit held (median): 1.2 means that a sixth of the tokens was wasted;
- rule of thumb: replay 0.25, whatever the question.

Run it as ``python -m studies plan_backtest`` (minutes) or with ``--small`` (one table). ``--signed`` says instead how
far forgetting is forecast off at mixes that even odds name, and over all mixes of the same base models: where the
planner picked what is forecast too low, the first would lie below the second.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

import cptlaw as cl

TABLES = ("en-fr-pilot", "docs-to-code", "en-fr-ladder", "code-to-prose", "docs-to-manuals")
ASKED = tuple((replay, atpp) for replay in (0.15, 0.4) for atpp in (4.0, 8.0, 16.0))
"""What poses the questions: the replay whose forgetting is the limit, and tokens per parameter."""
SIGNED = (0.1, 0.15, 0.25, 0.4)  # replay whose forgetting is the limit, for the signed errors
RISK = 0.8
GRID = 120
SHARED = "shared-tokens:without=lr_peak+lr_pretrain"
ANSWER = f"answer, risk {RISK:g}"
PLANNERS = {
    f"shared-tokens, risk {RISK:g}": (SHARED, SHARED, RISK),
    "shared-tokens": (SHARED, SHARED, None),
    f"Forms 3 and 1, risk {RISK:g}": ("ptpp-gated-floor", "ptpp-floor", RISK),
    f"nearest budget, risk {RISK:g}": ("ptpp-nearest", "ptpp-nearest", RISK),
}


@dataclass(frozen=True, eq=False)
class Measured:
    """What the runs of one size at the held-out budget measured.

    Parameters
    ----------
    replay, tokens
        Levels, ascending.
    losses
        Eval -> losses, (replay, tokens), means over seeds.
    base
        Source loss of the base model.
    """

    replay: np.ndarray
    tokens: np.ndarray
    losses: dict[str, np.ndarray]
    base: float

    def at(self, on: str, replay: float, tokens: float) -> float:
        """Return the loss that the runs measured at a mix, between them by straight lines."""
        return float(self.along(on, np.array([replay]), tokens)[0])

    def along(self, on: str, replays: np.ndarray, tokens: float) -> np.ndarray:
        """Return the loss at several replays, (n,)."""
        by_replay = [np.interp(np.log(tokens), np.log(self.tokens), row) for row in self.losses[on]]
        return np.interp(replays, self.replay, by_replay)

    def best(self, tokens: float, max_source_loss: float) -> float:
        """Return the lowest target loss of a measured mix that keeps the limit; nan if none does."""
        replays = np.linspace(self.replay[0], self.replay[-1], GRID)
        kept = self.along("source", replays, tokens) <= max_source_loss * (1 + 1e-9)
        return float(self.along("target", replays[kept], tokens).min()) if kept.any() else float("nan")

    def fewest(self, tokens: float, target_loss: float, max_source_loss: float) -> float:
        """Return the fewest tokens, at most `tokens`, with which the best mix within the limit has a target loss."""
        steps = np.geomspace(self.tokens[0], tokens, GRID)
        best = np.array([self.best(step, max_source_loss) for step in steps])
        reached = np.flatnonzero(best <= target_loss * (1 + 1e-9))
        return float(steps[reached[0]]) if len(reached) else float(tokens)


def plain_rows(name: str) -> cl.Runs:
    """Return the rows at constant rate and the usual peak of each size, above replay 0, and the base models."""
    runs = cl.examples.load(name)
    frame = runs.frame
    keep = (frame["lr_schedule"] == "constant") & (frame["tokens"] >= 1.9 * frame["n_params"]) & (frame["replay"] > 0)
    if "lr_peak" in frame:
        adapted = frame[keep]
        usual = adapted.groupby("n_params")["lr_peak"].agg(lambda rates: rates.mode().iloc[0])
        keep &= np.isclose(frame["lr_peak"], frame["n_params"].map(usual))
    if "pretrain_decay" in frame:
        keep &= frame["pretrain_decay"] > 0
    rows = frame[(keep & (frame["replay"] < 1)) | (frame["tokens"] == 0)]
    return cl.read_runs(rows.reset_index(drop=True), n_params_kind="total")


def measured_at(frame: pd.DataFrame, n_params: float) -> Measured:
    """Return what was measured of one size, from the rows of the held-out budget."""
    rows = frame[frame["n_params"] == n_params]
    base = rows[(rows["tokens"] == 0) & (rows["eval"] == "source")]["loss"].mean()
    grids = {
        on: rows[(rows["tokens"] > 0) & (rows["eval"] == on)]
        .pivot_table(index="replay", columns="tokens", values="loss", aggfunc="mean")
        .dropna(axis=1)
        for on in ("source", "target")
    }
    grid = grids["target"]
    losses = {on: found.to_numpy() for on, found in grids.items()}
    return Measured(grid.index.to_numpy(dtype=float), grid.columns.to_numpy(dtype=float), losses, float(base))


def backtest(
    name: str, planners: dict[str, tuple[str, str, float | None]], questions: tuple[tuple[float, float], ...] = ASKED
) -> pd.DataFrame:
    """Put questions about one table to all planners; return one row per question and planner."""
    runs = plain_rows(name)
    frame = runs.frame
    budget = float(frame.loc[(frame["tokens"] > 0) & (frame["ptpp"] < 300), "ptpp"].max())
    held_out = frame[frame["ptpp"] == budget]
    rows = []
    for label, (target_law, source_law, risk) in planners.items():
        bases = "or tokens == 0" if target_law == SHARED else "and tokens > 0"
        where = f"ptpp < {budget} {bases}"
        if frame.loc[frame["tokens"] > 0, "n_params"].nunique() < 2:
            continue
        laws = (("target", target_law), ("source", source_law))
        target, source = (cl.fit(law, runs, on, where, restraint="none") if law else None for on, law in laws)
        for n_params in sorted(held_out.loc[held_out["tokens"] > 0, "n_params"].unique()):
            measured = measured_at(held_out, n_params)
            for replay, atpp in questions:
                if not measured.replay[0] <= replay <= measured.replay[-1]:
                    continue  # what it costs there was not measured
                tokens = min(atpp * n_params, measured.tokens[-1])
                limit = measured.at("source", replay, tokens)
                row = {"table": name, "n_params": n_params, "asked": f"{replay:g} at {atpp:g}", "planner": label}
                model = {"n_params": float(n_params), "ptpp": budget, "tokens": float(tokens)}
                model |= {"base_source_loss": measured.base, "risk": risk}
                if target is None:  # `cptlaw answer` fits for itself
                    seen = runs.where(f"ptpp < {budget} or tokens == 0")
                    plan = cl.answer(seen, max_forgetting=limit / measured.base - 1, **model)
                else:
                    low, high = float(measured.replay[0]), float(measured.replay[-1])
                    plan = cl.plan.trade_off(
                        target, source, max_source_loss=limit, min_replay=low, max_replay=high, interval=None, **model
                    )
                rows.append(row | outcome(measured, limit, tokens, plan.replay if plan.feasible else None))
                if label == next(iter(planners)):
                    rows.append(row | {"planner": "rule of thumb"} | outcome(measured, limit, tokens, 0.25))
    return pd.DataFrame(rows)


def outcome(measured: Measured, limit: float, tokens: float, replay: float | None) -> dict[str, float | bool]:
    """Return what a plan would have given: whether the limit held, and its tokens over the fewest."""
    if replay is None:
        return {"feasible": False}
    target, source = (measured.at(on, replay, tokens) for on in ("target", "source"))
    held = source <= limit * (1 + 1e-9)
    return {
        "feasible": True,
        "replay": replay,
        "limit held": held,
        "above limit": source / limit - 1,
        "target above best": target / measured.best(tokens, limit) - 1,
        "tokens": tokens / measured.fewest(tokens, target, limit) if held else np.nan,
    }


def signed_errors(name: str) -> pd.DataFrame:
    """Return forecast minus measured forgetting at mixes of even odds and over all mixes, a row a limit.

    Every budget from the third of a table on is held out, but for the asked base model's own losses, size by size. A
    mix of even odds is the least replay of which the forecast keeps the limit: what a replay cost there. Limits of the
    least replay that was run hold whatever is planned, and are left out.
    """
    frame = plain_rows(name).frame
    frame = frame[frame["seed"] == 0].drop(columns=["lr_peak"], errors="ignore")
    rows, third = [], sorted(frame["n_params"].unique())[min(2, frame["n_params"].nunique() - 1)]
    for budget in sorted(frame.loc[(frame["tokens"] > 0) & (frame["ptpp"] < 300), "ptpp"].unique())[2:]:
        held_out = frame[frame["ptpp"] == budget]
        for n_params in sorted(held_out.loc[held_out["tokens"] > 0, "n_params"].unique()):
            measured = measured_at(held_out, n_params)
            if len(measured.replay) < 2 or not np.isfinite(measured.base):
                continue
            lower = frame[(frame["ptpp"] < budget) & (frame["n_params"] <= max(n_params, third))]
            base = held_out[(held_out["tokens"] == 0) & (held_out["n_params"] == n_params)]
            seen = cl.read_runs(pd.concat([lower, base], ignore_index=True), n_params_kind="total")
            fit = cl.fit("auto", seen, "source")
            replays = np.linspace(measured.replay[0], measured.replay[-1], GRID)
            for atpp in (4.0, 8.0, 16.0):
                tokens = min(atpp * n_params, measured.tokens[-1])
                asked = {"n_params": float(n_params), "ptpp": budget, "tokens": tokens, "base_loss": measured.base}
                forecast = fit.predict(pd.DataFrame({"replay": replays, **asked})) / measured.base - 1
                found = measured.along("source", replays, tokens) / measured.base - 1
                for posed in SIGNED:
                    limit = np.interp(posed, replays, found)
                    at = int(np.argmax(forecast <= limit))
                    if measured.replay[0] < posed <= measured.replay[-1] and forecast[at] <= limit:
                        row = {"table": name, "budget": budget, "n_params": n_params, "held": found[at] <= limit + 1e-9}
                        row["at even odds"] = 100 * (forecast[at] - found[at])
                        rows.append(row | {"over all mixes": 100 * (forecast - found).mean()})
    return pd.DataFrame(rows)


def totals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per planner."""
    found = []
    for planner, group in rows.groupby("planner", sort=False):
        made = group[group["feasible"]]
        kept = made[made["limit held"].astype(bool)]
        found.append(
            {
                "planner": planner,
                "questions": len(group),
                "plans": len(made),
                "limit held": made["limit held"].astype(float).mean(),
                "worst miss": made["above limit"].max(),
                "target above best, where held": kept["target above best"].mean(),
                "tokens, median": kept["tokens"].median(),
            }
        )
    return pd.DataFrame(found)


def main() -> None:
    """Put all questions and print the totals, by planner and by table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one table and two planners")
    parser.add_argument("--answer", action="store_true", help="`cptlaw answer` alone, at 8 tokens per parameter")
    parser.add_argument("--signed", action="store_true", help="signed errors of forgetting instead, by held-out budget")
    parser.add_argument("-o", "--output", help="a CSV file for all questions and plans")
    asked = parser.parse_args()
    names = TABLES[:1] if asked.small else TABLES
    if asked.signed:
        signed = pd.concat([signed_errors(name) for name in names], ignore_index=True)
        print(signed.drop(columns=["table", "n_params"]).groupby("budget").mean().round(2))
        return
    planners = dict(list(PLANNERS.items())[1:2]) if asked.small else PLANNERS
    questions = ASKED
    if asked.answer:  # ten seconds a question
        planners, questions = {ANSWER: ("", "", RISK)}, tuple(one for one in ASKED if one[1] == 8.0)
    parts = []
    for name in names:
        print(f"{name} ..", file=sys.stderr, flush=True)
        parts.append(backtest(name, planners, questions))
    rows = pd.concat(parts, ignore_index=True)
    formats = {"limit held": "{:.0%}".format, "tokens, median": "{:.2f}".format}
    formats |= dict.fromkeys(("worst miss", "target above best, where held"), "{:+.2%}".format)
    print(totals(rows).to_string(index=False, formatters=formats))
    for name in names:
        print(f"\n{name}\n" + totals(rows[rows["table"] == name]).to_string(index=False, formatters=formats))
    if asked.output:
        rows.to_csv(asked.output, index=False)


if __name__ == "__main__":
    main()
