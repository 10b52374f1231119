"""Which mix to take at a size that was not fitted: laws of mixes against regressions on shares.

    python -m studies mixes [--data FOLDER] [--write]

Every method sees the runs of the smaller sizes and names the best of the mixes that were measured at the held-out
size, for one eval or for the mean of several; its regret is the measured loss of that mix there less the lowest one.
With ``--write`` the tables go into studies/results/mixes.json.

regression   log-linear regression of the loss at the largest fitted size on the shares (ridge, as RegMix has it)
trees        gradient-boosted trees on the same rows, RegMix's other way
same mix     the mix that was best at the largest fitted size
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.errors import CptlawError
from cptlaw.runs import Runs
from cptlaw.runs.schema import mix_columns
from studies.harness import ROOT, Array, data_file, table, write_result

LAWS = ("auto", "mix-additive", "mix-joint", "mix-exponential", "bimix")
SEED_NOISE = 0.0011  # nats, the most between a run of the OLMo ladder and its rerun


@dataclass(frozen=True)
class Study:
    """Runs to fit and to choose from.

    Parameters
    ----------
    name
        What is held out.
    fitted
        The runs that methods see, at their last tokens.
    held
        One row for each mix and eval at the held-out size.
    goals
        Weights of evals, by name of the goal.
    """

    name: str
    fitted: Runs
    held: pd.DataFrame
    goals: Mapping[str, Mapping[str, float]]


def slimpajama(folder: Path, count: int | None = None) -> Study:
    """Seven corpora: 122M and 310M parameters fitted, 680M held out; `count` mixes of them, or all."""
    frame = pd.read_csv(folder / "dmsl_slimpajama.csv")
    columns = {f"mix_{name[7:]}": name for name in frame if name.startswith("weight_")}
    evals = {name[:-5]: name for name in frame if name.endswith("_loss")}
    runs = cl.read_runs(frame, columns=columns, losses=evals)
    last = _last(runs)
    small = last.where("n_params < 500000000")
    if count is not None:
        mixes = small.frame["mix_id"].drop_duplicates().sort_values().to_numpy()
        keep = np.random.default_rng(0).permutation(mixes)[:count]
        small = replace(small, frame=small.frame[small.frame["mix_id"].isin(keep)])
    corpora = [name for name in evals if name != "openhermes"]
    goals: dict[str, Mapping[str, float]] = {name: {name: 1.0} for name in evals}
    goals["mean of seven"] = dict.fromkeys(corpora, 1.0 / 7.0)
    goals["code and maths"] = {"github": 0.4, "arxiv": 0.4, "stackexchange": 0.2}
    named = f"680M, {'all 60' if count is None else count} mixes fitted"
    return Study(named, small, last.where("n_params > 500000000").frame, goals)


def three_corpora(folder: Path, seed: int) -> Study:
    """Three corpora at 410M parameters: half of 32 mixes fitted, the others held out; sizes are too few to hold one."""
    frame = pd.read_csv(folder / "mixlaws_scratch_2_3mix.csv")
    frame = frame[(frame["mix_set"] == "3Mix") & (frame["n_params"] == 410_000_000)]
    frame = frame[frame["step"] == frame.groupby(["ratios", "domain"])["step"].transform("max")]
    shares = frame["ratios"].str.split("-", expand=True).astype(float)
    shares.columns = ["mix_Github", "mix_Books3", "mix_Pile_CC"]
    rows = pd.DataFrame({"run": frame["ratios"], "eval": frame["domain"], "loss": frame["loss"]}).join(shares)
    rows = rows.assign(n_params=4.1e8, tokens=6e10)
    mixes = np.random.default_rng(seed).permutation(sorted(rows["run"].unique()))
    kept = rows["run"].isin(mixes[: len(mixes) // 2])
    goals: dict[str, Mapping[str, float]] = {name: {name: 1.0} for name in sorted(rows["eval"].unique())}
    goals["mean of three"] = dict.fromkeys(goals, 1.0 / 3.0)
    return Study("410M, half of 32 mixes fitted", cl.read_runs(rows[kept]), cl.read_runs(rows[~kept]).frame, goals)


def _last(runs: Runs) -> Runs:
    frame = runs.frame
    last = frame.groupby("run", observed=True)["tokens"].transform("max")
    return replace(runs, frame=frame[frame["tokens"] == last])


# -- methods: forecasts of one eval at the held-out rows, in any unit that orders them ---------------------------------


def by_law(name: str) -> Callable[[Runs, str, pd.DataFrame], Array]:
    """Return a method that fits a law of mixes and forecasts."""

    def forecast(fitted: Runs, on: str, held: pd.DataFrame) -> Array:
        runs = fitted
        if name == "mix-exponential":  # it knows one scale
            size = fitted.frame["n_params"].max()
            runs = replace(fitted, frame=fitted.frame[fitted.frame["n_params"] == size])
        return np.asarray(cl.fit(name, runs, on=on).predict(held))

    return forecast


def _at_largest(fitted: Runs, on: str) -> tuple[Array, Array]:
    frame = fitted.on(on).frame
    frame = frame[frame["n_params"] == frame["n_params"].max()]
    return frame[[*mix_columns(frame.columns)]].to_numpy(dtype=float), frame["loss"].to_numpy(dtype=float)


def by_regression(fitted: Runs, on: str, held: pd.DataFrame) -> Array:
    """Forecast the log loss by ridge regression on the shares, its penalty chosen by leaving one out."""
    from sklearn.linear_model import RidgeCV

    shares, loss = _at_largest(fitted, on)
    model = RidgeCV(alphas=np.geomspace(1e-6, 1e2, 25)).fit(shares, np.log(loss))
    return np.asarray(model.predict(held[[*mix_columns(held.columns)]].to_numpy(dtype=float)))


def by_trees(fitted: Runs, on: str, held: pd.DataFrame) -> Array:
    """Forecast the loss by gradient-boosted trees on the shares."""
    from sklearn.ensemble import GradientBoostingRegressor

    shares, loss = _at_largest(fitted, on)
    model = GradientBoostingRegressor(n_estimators=300, learning_rate=0.05, max_depth=3, subsample=0.8, random_state=0)
    return np.asarray(model.fit(shares, loss).predict(held[[*mix_columns(held.columns)]].to_numpy(dtype=float)))


def by_same_mix(fitted: Runs, on: str, held: pd.DataFrame) -> Array:
    """Take the loss of the same mix at the largest fitted size; infinity where it was not measured."""
    shares, loss = _at_largest(fitted, on)
    asked = held[[*mix_columns(held.columns)]].to_numpy(dtype=float)
    apart = np.abs(asked[:, None] - shares[None]).max(axis=2)
    return np.where(apart.min(axis=1) < 1e-4, loss[apart.argmin(axis=1)], np.inf)


METHODS: dict[str, Callable[[Runs, str, pd.DataFrame], Array]] = {
    **{name: by_law(name) for name in LAWS},
    "regression": by_regression,
    "trees": by_trees,
    "same mix": by_same_mix,
}


def regrets(study: Study) -> pd.DataFrame:
    """Return the regret of every method for every goal, nats per token; missing where it cannot be asked."""
    wide = study.held.pivot_table(
        index=[*mix_columns(study.held.columns)], columns="eval", values="loss", observed=True
    )
    wide = wide.dropna()
    at = study.held.drop_duplicates([*mix_columns(study.held.columns)])[["n_params", "tokens"]].iloc[[0]]
    held = wide.index.to_frame(index=False).assign(**{name: float(at[name].iloc[0]) for name in at})
    rows = []
    for name, method in METHODS.items():
        said: dict[str, Array] = {}
        for on in wide.columns:
            try:
                said[on] = method(study.fitted, on, held.assign(eval=on))
            except CptlawError:
                continue
        for goal, weights in study.goals.items():
            if set(weights) <= set(said):
                forecast = sum(weight * said[on] for on, weight in weights.items())
                truth = sum(weight * wide[on].to_numpy() for on, weight in weights.items())
                chosen = int(np.argmin(forecast))
                regret = truth[chosen] - truth.min() if np.isfinite(forecast[chosen]) else np.nan
                rows.append({"method": name, "goal": goal, "regret": regret, "spread": np.ptp(truth)})
    return pd.DataFrame(rows)


def summary(found: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return a row for each method: mean and worst regret, and in how many goals it is within the seed noise."""
    rows = []
    for name in METHODS:
        own = found[found["method"] == name].dropna()
        if len(own):
            within = f"{int((own['regret'] <= SEED_NOISE).sum())} of {len(own)}"
            rows.append((name, f"{own['regret'].mean():.4f}", f"{own['regret'].max():.4f}", within))
    return rows


def probe() -> Array:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    study = slimpajama(data_file("dmsl_slimpajama.csv", None).parent, 20)
    return by_law("mix-exponential")(study.fitted, "arxiv", study.held.query("eval == 'arxiv'"))


def main() -> None:
    """Print the tables, and write them into the page where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="Folder of the tables.")
    parser.add_argument("--splits", type=int, default=8, help="Random halves of the three-corpora mixes.")
    parser.add_argument("--write", action="store_true", help="Write studies/results/mixes.json.")
    given = parser.parse_args()
    for name in ("dmsl_slimpajama.csv", "mixlaws_scratch_2_3mix.csv"):
        if not (given.data / name).exists():
            print(f"skipped: {name} is not in {given.data}")
            return
    heads = ("method", "mean regret", "worst", f"within {SEED_NOISE} nats")
    made, spreads = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, studies in (
            ("sixty", [slimpajama(given.data)]),
            ("twenty", [slimpajama(given.data, 20)]),
            ("three-corpora", [three_corpora(given.data, seed) for seed in range(given.splits)]),
        ):
            found = pd.concat([regrets(study) for study in studies])
            spreads.append((studies[0].name, f"{found['spread'].mean():.2f}"))
            made[key] = pd.DataFrame(summary(found), columns=heads)
            print(f"{studies[0].name}\n\n{table(heads, summary(found))}", flush=True)
    made["spread"] = pd.DataFrame(spreads, columns=["mixes", "from best to worst, nats"])
    if given.write:
        write_result("mixes", made)


if __name__ == "__main__":
    main()
