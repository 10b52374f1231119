"""Learn what studies of continual pre-training say together, and judge it by leaving out one study at a time.

    python -m studies learn_studies --data ../shared/data            # the table of left-out studies
    python -m studies learn_studies --data ../shared/data --write    # and the numbers that the package ships

Rows: from a folder, `published_cpt_tables.csv`, `mixlaws_ct_pythia70m.csv`, `watts_sizes.csv` and `delphi_mixes.csv`
(`cptlaw bench` says where each lies in public), the package's own example runs, and runs of ours that vary the rate.
Only coefficients are kept.

Left out, and why: tables whose runs stop at a given target loss (martin-marek/forgetting) answer another question than
forgetting at given tokens, and lent the form alone (a logarithm of replay with a cut-off); fine-tuning sets without
token counts (linhaowei1/Fine-tuning-Scaling-Law).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import forgetting_and_gain as studies
from studies.forecasts import rate_and_replay
from studies.harness import MEASURED, show, write_result

HOME = Path(studies.__file__).with_name("studies.json")
MOST = {True: 25, False: 75}  # rows of one study, by whether it is ours
# Weight of a row of ours: eight studies of one code and one machine, of models below 400K parameters.
OURS = {"forgetting": 0.3, "gain": 0.3}
FREE = 2.0  # spread of the amplitude of a study without replay, which cannot tell amplitude from reach
# What one would say who knows one table: forgetting at 25 % replay (German), gain at 5 % (SlimPajama); Ibrahim et al.
CONSTANT = {"forgetting": 2.33 / 2.17 - 1.0, "gain": np.log(2.7 / 2.51)}
LEAST = 0.01  # forgetting below one point is one point, for factors
# Spreads: of kinds of shift, of studies (amplitude, reach, k), of the reach of the studies of one paper, of one
# measured outcome at first. Of forgetting the spread of papers, the weight of our rows and whether replay keeps pace
# (c free or 1) were chosen among six settings by the mean over left-out studies of the log factor, one study one vote;
# without each study the others choose the same, on rows before those that vary the rate. Of the gain some fifteen
# settings were compared so, none left out of the choice: of those whose intervals hold about 90 % one of little
# interval score. What the table says of studies left out is a little too good for that. Our rows weigh at most .3
# whatever they gain: at 1 the rate lost its sign. Shift and own gain of forgetting are as small as they are so that 1 %
# more replay moves no outcome by more than 3 %. A reach of each kind of shift was tried: the gain is 1 % nearer then,
# forgetting farther. Of the gain the rate acts through low_rate alone, of forgetting through the others alone, the log
# of replay among them (c); `HALF_GAIN_RATE` was likelier at .02 than at .05 on all rows.
SPREADS = {
    "forgetting": {"shift": 0.5, "amplitude": 0.35, "reach": 0.4, "back": 0.1, "paper": 0.5, "noise": 0.2},
    "gain": {"shift": 0.8, "amplitude": 0.25, "reach": 0.3, "back": 0.1, "paper": 0.3, "noise": 0.2},
}
# Steps of the walk over the decades of size.
STEPS = {"forgetting": (0.2, 0.8, 0.12, 0.12, 0.12, 0.12), "gain": (0.12, 0.5, 0.12, 0.12, 0.12, 0.12)}
EXTRAS = ("own_gain", "undecayed", "back", "back_tiny")
# Weak priors of amplitude "one", "budget", "relative_rate", "low_rate" and "novelty" (whose spread was chosen on
# forgetting with the gain's table in sight, so that neither is untouched), of the reach in its order, of the cut-off's
# power, and of `EXTRAS`: mean and standard deviation; one of 1e-6 holds a coefficient where it is.
PRIOR = {
    "forgetting": {
        "amplitude": ((np.log(0.03), 0.3), (0.0, 0.1), (0.1, 0.15), (0.0, 1e-6), (0.0, 0.5)),
        "reach": ((8.0, 2.0), (1.0, 0.15), (0.0, 0.3), (1.0, 0.3), (0.0, 0.3), (0.0, 0.15)),
        "cutoff": (0.85, 0.15),
        "extras": ((0.1, 0.05), (0.0, 0.05), (1.0, 0.1), (0.0, 0.5)),
    },
    "gain": {
        "amplitude": ((np.log(0.06), 0.5), (0.0, 0.1), (0.0, 1e-6), (1.0, 0.2), (0.0, 0.5)),
        "reach": ((4.0, 2.0), (1.0, 0.3), (0.0, 0.3), (0.3, 0.1), (0.0, 0.3), (0.0, 0.15)),
        "cutoff": (1.0, 1e-6),
        "extras": ((0.0, 1e-6),) * 4,
    },
}
OWN = (  # name, kind of shift
    ("en-fr-pilot", "language"),
    ("en-fr-ladder", "language"),
    ("docs-to-code", "code"),
    ("code-to-prose", "domain"),
    ("docs-to-manuals", "near"),
    ("domains", None),
)
OWN_PRETRAIN = 6e-3
OWN_RATES = ("rate_and_replay.csv", "rates.csv")  # runs that vary the rate, with replay and without
OF_DOMAIN = {"french": "language", "german": "language", "python": "code", "c": "code"}
PRINTED = (  # start of the runs' names, study, paper, kind, peak of pre-training, tokens per parameter, source
    ("ger405", "pile-to-german-405m", "language", 3e-4, 300e9 / 405e6, "Ibrahim et al. 2024, arXiv:2403.08763"),
    ("sp405", "pile-to-slimpajama-405m", "near", 3e-4, 300e9 / 405e6, "Ibrahim et al. 2024, arXiv:2403.08763"),
    ("sp10b", "pile-to-slimpajama-10b", "near", 3e-4, 300e9 / 10e9, "Ibrahim et al. 2024, arXiv:2403.08763"),
    # Qwen1.5-1.8B, whose rates are not printed; its 2.2T tokens are its makers' number.
    ("dcpt_chem", "dolma-to-chemistry-1.8b", "domain", np.nan, 2.2e12 / 1.8e9, "Que et al. 2024, arXiv:2406.01375"),
    ("cmr", "general-to-finance", "domain", np.nan, 100.0, "Gu et al. 2024, arXiv:2407.17467"),
)
UNREAD = ("dolma-to-chemistry-1.8b",)  # whose base model has not read the replayed corpus
YE, WATTS = "github.com/yegcjs/mixinglaws", "Watts et al. 2026, arXiv:2605.02105"
DELPHI = "marin project, delphi-midtraining"
ASSUMED_PEAK = 1e-3  # of pre-training, in the delphi ladder, whose tables give the ratio alone


def own_rows() -> pd.DataFrame:
    """Return the outcomes of the example runs, one study per target corpus."""
    parts = []
    for name, kind in OWN:
        frame = cl.examples.load(name).frame
        given = {"domain": None, "lr_pretrain": OWN_PRETRAIN, "pretrain_decay": 1.0}
        frame = frame.assign(**{column: value for column, value in given.items() if column not in frame.columns})
        frame = frame[frame["pretrain_decay"].fillna(1.0) != 0.0]
        frame = frame.assign(
            lr_pretrain=frame["lr_pretrain"].fillna(OWN_PRETRAIN), domain=frame["domain"].astype(object)
        )
        for domain in frame["domain"].dropna().unique() if kind is None else [None]:
            # A base model's source loss is the same whatever comes after it, so it may name no domain.
            rows = frame if kind is not None else frame[frame["domain"].isna() | (frame["domain"] == domain)]
            base = rows[rows["tokens"] == 0].groupby(["eval", "n_params", "ptpp"], observed=True)["loss"].mean()
            keys = ["run", "n_params", "tokens", "replay", "ptpp", "lr_peak", "lr_pretrain", "lr_schedule"]
            wide = rows[rows["tokens"] > 0].pivot_table(index=keys, columns="eval", values="loss", observed=True)
            wide = wide.reset_index()
            places = list(zip(wide["n_params"], wide["ptpp"], strict=True))
            for role in ("source", "target"):
                wide[f"base_{role}"] = [base.get((role, *place), np.nan) for place in places]
            wide["constant"] = (wide["lr_schedule"].astype(str) == "constant").astype(float)
            known = {"study": name if domain is None else f"docs-to-{domain}", "source_of": "this project"}
            # The warm-up transient of tiny models at their first steps is no forgetting.
            kept = wide[wide["tokens"] >= wide["n_params"]]
            parts.append(kept.assign(shift=kind or OF_DOMAIN[domain], paper="ours", unread=0.0, **known))
    for name in OWN_RATES:
        found = rate_and_replay.outcomes(cl.read_runs(MEASURED / name, n_params_kind="total").frame)
        parts.append(rate_and_replay.as_study(found))
    return pd.concat(parts, ignore_index=True)


def public_rows(data: Path) -> pd.DataFrame:
    """Return the outcomes of the public studies."""
    rows = pd.concat([*_printed(data), _pythia(data), _watts(data), _delphi(data)], ignore_index=True)
    return rows.assign(unread=rows["study"].isin(UNREAD).astype(float))


def _printed(data: Path) -> Iterator[pd.DataFrame]:
    printed = pd.read_csv(data / "published_cpt_tables.csv")
    for start, name, kind, peak, ptpp, source in PRINTED:
        rows = printed[printed["run_id"].str.startswith(start)]
        rows = rows[~rows["note"].fillna("").str.contains("scratch")]
        of_base = rows[rows["cpt_tokens"] == 0].set_index("role")["loss"]
        keys = ["run_id", "n_params", "cpt_tokens", "replay_ratio"]
        wide = rows[rows["cpt_tokens"] > 0].pivot_table(index=keys, columns="role", values="loss").reset_index()
        wide = wide.rename(columns={"run_id": "run", "cpt_tokens": "tokens", "replay_ratio": "replay"})
        yield wide.assign(
            study=name,
            paper=source,
            source_of=source,
            shift=kind,
            ptpp=ptpp,
            lr_peak=wide["run"].map(rows.groupby("run_id")["peak_lr"].first()),
            lr_pretrain=peak,
            constant=wide["run"].str.contains("const").astype(float),
            base_source=of_base.get("source", np.nan),
            base_target=of_base.get("target", np.nan),
        )


def _pythia(data: Path) -> pd.DataFrame:
    curves = pd.read_csv(data / "mixlaws_ct_pythia70m.csv").query("role != 'source_subdomain'")
    wide = curves.pivot_table(index=["run_id", "step", "n_params"], columns="role", values="loss").reset_index()
    base = wide[wide["step"] == 0].iloc[0]
    wide = wide[wide["step"] > 0]
    return pd.DataFrame(
        {
            "study": "pile-to-python-70m",
            "paper": YE,
            "source_of": YE,
            "shift": "code",
            "run": wide["run_id"],
            "n_params": wide["n_params"],
            "tokens": wide["step"] * 2_097_152.0,
            "replay": wide["run_id"].str.extract(r"_r([\d.]+)-")[0].astype(float),
            "ptpp": 41_943_040_000 / wide["n_params"],
            "lr_peak": np.nan,
            "lr_pretrain": 1e-3,
            "constant": 0.0,
            "source": wide["source_weighted_avg"],
            "target": wide["target"],
            "base_source": base["source_weighted_avg"],
            "base_target": base["target"],
        }
    )


def _watts(data: Path) -> pd.DataFrame:
    rows = pd.read_csv(data / "watts_sizes.csv").query("optimizer == 'adamw'")
    rise = rows["source_loss"] - rows["base_source_loss"]
    # Collapsed runs (a nat and more) are no forgetting; where the base's loss is an estimate, small rises are noise.
    estimated = rows["base_source_kind"].str.startswith("estimated")
    forgot = (rise < 1.0) & (~estimated | (rise >= 0.03))
    rows = rows.assign(source_loss=rows["source_loss"].where(forgot))
    rows = rows[rows.groupby("cpt_dataset")["lr_peak"].transform("size") > 9]
    n_params = rows["n_params"].str[:-1].astype(float) * 1e6
    return pd.DataFrame(
        {
            "study": "watts-" + rows["cpt_dataset"],
            "paper": WATTS,
            "source_of": WATTS,
            "shift": "domain",
            "run": rows.index.astype(str),
            "base": rows["schedule_or_decay"],
            "n_params": n_params,
            "tokens": rows["cpt_tokens"].astype(float),
            "replay": 0.0,
            "ptpp": rows["pt_tokens_B"] * 1e9 / n_params,
            "lr_peak": rows["lr_peak"],
            "lr_pretrain": rows["pretrain_lr"],
            "constant": 0.0,
            "source": rows["source_loss"],
            "target": rows["target_loss"],
            "base_source": rows["base_source_loss"],
        }
    )


def _delphi(data: Path) -> pd.DataFrame:
    rows = pd.read_csv(data / "delphi_mixes.csv")
    return pd.DataFrame(
        {
            "study": "delphi-math",
            "paper": DELPHI,
            "source_of": DELPHI,
            "shift": "domain",
            "run": rows["run_id"],
            "n_params": rows["n_params"],
            "tokens": rows["cpt_tokens"],
            "replay": rows["replay_ratio"],
            "ptpp": rows["ptpp"],
            "lr_peak": rows["lr_factor"] * ASSUMED_PEAK,
            "lr_pretrain": ASSUMED_PEAK,
            "constant": 0.0,
            "target": rows["loss"],
            "base_target": rows["base_loss"],
        }
    )


def outcomes(rows: pd.DataFrame, outcome: str) -> pd.DataFrame:
    """Return the rows with a measured outcome in ``value``, and with how new the text is to the base model.

    The gain of a base model whose target loss is not printed is known but for a constant: ``floating`` is 1 there, and
    the value is the gain over the worst run of that base model.
    """
    rows = rows.assign(novelty=np.log(rows["base_target"] / rows["base_source"]))
    if outcome == "forgetting":
        kept = rows.assign(value=rows["source"] / rows["base_source"] - 1.0, floating=0.0)
    else:
        rows = rows[_rising(rows)]
        worst = rows.groupby(["study", "n_params", "ptpp"])["target"].transform("max")
        floating = rows["base_target"].isna()
        value = np.log(rows["base_target"].where(~floating, worst) / rows["target"])
        kept = rows.assign(value=value, floating=floating.astype(float))
    kept = kept[kept["value"].notna()]
    if outcome == "gain":
        kept = kept[kept["value"] > -0.02]  # a target loss above the base model's is a run that failed
    return kept.reset_index(drop=True)


def _rising(rows: pd.DataFrame) -> Any:
    """Return which rows have at most half the best rate, where rates beyond the best of their base model were run.

    The gain that is learned grows with the rate; towards the best rate and beyond it what the rate damages shows.
    """
    keys = ["study", "base", "n_params", "ptpp", "lr_pretrain", "replay", "tokens"]
    rows = rows.assign(base=rows["base"].astype(object).fillna(""), **rows[keys[2:]].fillna(0.0))
    lowest = rows.groupby(keys)["target"].transform("min")
    best = rows.assign(best=rows["lr_peak"].where(rows["target"] == lowest)).groupby(keys)["best"].transform("max")
    highest = rows.groupby(keys)["lr_peak"].transform("max")
    return rows["lr_peak"].isna() | (highest <= best) | (rows["lr_peak"] <= 0.5 * best)


def thinned(rows: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return at most so many rows of each study."""
    parts = [
        part.sample(min(MOST[part["paper"].iloc[0] == "ours"], len(part)), random_state=seed)
        for _, part in rows.groupby("study")
    ]
    return pd.concat(parts, ignore_index=True)


class Regression:
    """The most likely coefficients of one outcome on some studies, with the studies' own effects beside them."""

    def __init__(self, rows: pd.DataFrame, outcome: str, gain: studies.Learned | None = None) -> None:
        self.rows, self.outcome = rows, outcome
        self.noise = SPREADS[outcome]["noise"]
        ours = (rows["paper"] == "ours").to_numpy()
        self.weight = np.where(ours, OURS[outcome], 1.0)
        self.amplitude, self.reach = studies.features(rows)
        self.replay, self.value, self.floating = (
            rows[name].to_numpy(dtype=float) for name in ("replay", "value", "floating")
        )
        self.constant = studies.undecayed(rows)
        self.left, self.tiny = studies.left_to_learn(rows), studies.tiny_share(rows["n_params"])
        self.read = 0.0 if gain is None else studies.learned_of_replay(rows, gain)[0]
        self.study, self.studies = pd.factorize(rows["study"])
        self.paper, self.papers = pd.factorize(rows["paper"])
        self.base, bases = pd.factorize(
            rows["study"] + rows["n_params"].astype(str) + rows["ptpp"].round(3).astype(str)
        )
        sizes = (len(studies.AMPLITUDE), len(studies.REACH) + 1, len(EXTRAS), *(len(self.studies),) * 3)
        edges = np.cumsum([0, *sizes, len(self.papers), len(bases)])
        self.slices = [slice(low, high) for low, high in pairwise(edges)]
        self.centre, self.root = self._prior(len(bases))
        self.solution = self.centre.copy()
        first = np.maximum(np.abs(self.value), 0.03)
        for _ in range(6):  # the noise is a share of what is fitted
            self.sd = np.hypot(self.noise * first, studies.FLOOR) / np.sqrt(self.weight)
            self._solve()
            fitted, jacobian, first = self._model(self.solution)
            self.covariance = np.linalg.inv(self._hessian(jacobian))
            error = (fitted - self.value) ** 2 + np.einsum("ij,jk,ik->i", jacobian, self.covariance, jacobian)
            share = np.clip(error - studies.FLOOR**2, 0.0, None) / np.maximum(first, 0.02) ** 2
            self.noise = float(np.clip(np.sqrt(np.average(share, weights=self.weight)), 0.05, 0.6))

    def _prior(self, bases: int) -> tuple[Any, Any]:
        """Return the prior's mean, and the root of its precision."""
        prior = PRIOR[self.outcome]
        spread = SPREADS[self.outcome]
        one, *last = prior["amplitude"]
        kinds, walk = len(studies.SHIFTS), len(studies.SIZES)
        # A study without replay cannot tell amplitude from reach: its amplitude is its own.
        alone = np.array([self.replay[self.study == place].max() < 1e-3 for place in range(len(self.studies))])
        others = (*last, *prior["reach"], prior["cutoff"], *prior["extras"])
        centre = [one[0], *[0.0] * (kinds + walk), *(mean for mean, _ in others)]
        spreads = [one[1], *[spread["shift"]] * kinds, *[1.0] * walk]
        spreads += [sd for _, sd in others]
        spreads += [FREE if free else spread["amplitude"] for free in alone]
        spreads += [spread["reach"]] * len(alone) + [spread["back"]] * len(alone)
        spreads += [spread["paper"]] * len(self.papers) + [0.3] * bases
        root = np.diag(1.0 / np.array(spreads))
        steps = np.diff(np.eye(len(studies.DECADES)), axis=0) / np.array(STEPS[self.outcome])[:, None]
        place = slice(1 + kinds, 1 + kinds + walk)
        root[place, place] = np.delete(steps, studies.DECADES.index(9), axis=1)
        mean = np.zeros(len(root))
        mean[: len(centre)] = centre
        mean[self.slices[7]] = -0.3
        return mean, root

    def _model(self, solution: Any) -> tuple[Any, Any, Any]:
        """Return what is fitted, its Jacobian, and the first part."""
        amplitude, reach, extras, of_amplitude, of_reach, of_back, of_paper, of_base = (
            solution[each] for each in self.slices
        )
        a = np.exp(np.clip(self.amplitude @ amplitude + of_amplitude[self.study], -20, 5))
        x = np.exp(np.clip(self.reach @ reach[:-1] + of_reach[self.study] + of_paper[self.paper], -30, 40))
        own, undecayed, back, back_tiny = extras
        at = studies.CurveShape.of(self.outcome, self.replay, x, reach[-1])
        k = back + back_tiny * self.tiny + of_back[self.study]
        change, won, begun = a * (at.log - k * at.regained), a * at.regained, x / (1 + x)
        further = self.left * begun
        fitted = change - own * further + undecayed * self.constant + self.floating * of_base[self.base] - self.read
        jacobian = np.zeros((len(x), len(solution)))
        to_reach = a * (at.log_by_reach - k * at.regained_by_reach) - own * further * (1 - begun)
        every = np.arange(len(x))
        jacobian[:, self.slices[0]] = change[:, None] * self.amplitude
        jacobian[:, self.slices[1]] = np.column_stack(
            [to_reach[:, None] * self.reach, a * (at.log_by_cutoff - k * at.regained_by_cutoff)]
        )
        jacobian[:, self.slices[2]] = np.column_stack([-further, self.constant, -won, -won * self.tiny])
        jacobian[every, self.slices[3].start + self.study] = change
        jacobian[every, self.slices[4].start + self.study] = to_reach
        jacobian[every, self.slices[5].start + self.study] = -won
        jacobian[every, self.slices[6].start + self.paper] = to_reach
        jacobian[every, self.slices[7].start + self.base] = self.floating
        return fitted, jacobian, a * at.log

    def _hessian(self, jacobian: Any) -> Any:
        scaled = jacobian / self.sd[:, None]
        return scaled.T @ scaled + self.root.T @ self.root

    def _energy(self, solution: Any) -> float:
        misfit = (self._model(solution)[0] - self.value) / self.sd
        off = self.root @ (solution - self.centre)
        return float(misfit @ misfit + off @ off)

    def _solve(self) -> None:
        """Minimise by Levenberg and Marquardt's steps."""
        damping, energy = 1e-3, self._energy(self.solution)
        for _ in range(100):
            fitted, jacobian, _ = self._model(self.solution)
            down = jacobian.T @ ((fitted - self.value) / self.sd**2)
            down += self.root.T @ (self.root @ (self.solution - self.centre))
            hessian, before = self._hessian(jacobian), energy
            for _ in range(15):
                step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), down)
                energy = self._energy(self.solution - step)
                if energy < before:
                    self.solution, damping = self.solution - step, max(damping / 5, 1e-9)
                    break
                damping *= 5
            if not energy < before * (1 - 1e-7):
                return

    def learned(self) -> dict[str, Any]:
        """Return the regression as the package keeps it."""
        count, spread = len(studies.FEATURES), SPREADS[self.outcome]
        told = self.solution[self.slices[2]] if self.outcome == "forgetting" else [0.0] * len(EXTRAS)
        extras = dict(zip(EXTRAS, map(_short, told), strict=True))
        return {
            "coefficients": dict(zip(studies.FEATURES, map(_short, self.solution[:count]), strict=True)),
            "covariance": [[_short(value) for value in row] for row in self.covariance[:count, :count]],
            **extras,
            "between_amplitude": spread["amplitude"],
            "between_reach": _short(np.hypot(spread["reach"], spread["paper"])),
            "between_back": spread["back"] if self.outcome == "forgetting" else 0.0,
            "noise": _short(self.noise),
            "studies": [_listed(name, part) for name, part in self.rows.groupby("study")],
        }


def _listed(name: Any, part: pd.DataFrame) -> dict[str, Any]:
    per_parameter = part["tokens"] / part["n_params"]
    return {
        "study": name,
        "shift": part["shift"].iloc[0],
        "source": part["source_of"].iloc[0],
        "rows": len(part),
        "n_params": [float(part["n_params"].min()), float(part["n_params"].max())],
        "replay": [float(part["replay"].min()), float(part["replay"].max())],
        "ptpp": [round(float(part["ptpp"].min()), 1), round(float(part["ptpp"].max()), 1)],
        "tokens_per_parameter": [round(float(per_parameter.min()), 2), round(float(per_parameter.max()), 2)],
        "median": round(float(part["value"].median()), 4),
    }


def learn(rows: pd.DataFrame, outcome: str) -> dict[str, Any]:
    """Return the regression of an outcome on rows of studies, that of forgetting with what their gain says."""
    gain = studies.from_json(learn(rows, "gain")) if outcome == "forgetting" else None
    return Regression(thinned(outcomes(rows, outcome)), outcome, gain).learned()


def without(rows: pd.DataFrame, study: str | None) -> tuple[studies.Learned, studies.Learned]:
    """Return forgetting and gain as learned from all studies but one."""
    others = rows[rows["study"] != study]
    forgetting, gain = (studies.from_json(learn(others, outcome)) for outcome in ("forgetting", "gain"))
    return forgetting, gain


def left_out(rows: pd.DataFrame, outcome: studies.Outcome, only: list[str] | None = None) -> pd.DataFrame:
    """Forecast every study (or only these) from all others: the rows with medians and ends of 50 and 90 % intervals."""
    parts = []
    kept = outcomes(rows, outcome)
    for name in only or sorted(kept.loc[kept["floating"] == 0, "study"].unique()):
        forgetting, gain = without(rows, name)
        own = thinned(kept[kept["study"] == name], 1)
        said = studies.expected(outcome, own, forgetting if outcome == "forgetting" else gain, gain)
        ends = {f"at_{100 * p:g}": said.quantile(p) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
        parts.append(own.assign(**ends))
    return pd.concat(parts, ignore_index=True)


def judged(rows: pd.DataFrame, outcome: str) -> pd.DataFrame:
    """Return the table of left-out studies: factor and bias of the median, coverage, width of 90 % intervals.

    Of forgetting, rows with 5 % replay and more; in factors, with one point as the least.
    """
    rows = rows[rows["replay"] >= 0.05] if outcome == "forgetting" else rows
    least = LEAST if outcome == "forgetting" else 0.005
    error = np.log(np.maximum(rows["at_50"], least) / np.maximum(rows["value"], least))
    naive = np.log(CONSTANT[outcome] / np.maximum(rows["value"], least)).abs()
    rows = rows.assign(error=error, size=error.abs(), naive=naive)
    rows = rows.assign(held=(rows["value"] >= rows["at_5"]) & (rows["value"] <= rows["at_95"]))
    rows = rows.assign(half=(rows["value"] >= rows["at_25"]) & (rows["value"] <= rows["at_75"]))
    rows = rows.assign(width=rows["at_95"] - rows["at_5"], ours=rows["paper"] == "ours")
    parts = [*rows.groupby("study"), ("of 20M parameters and more", rows[~rows["ours"]]), ("all", rows)]
    return pd.DataFrame(
        [
            {
                "study": name,
                "rows": len(part),
                "measured": part["value"].median(),
                "forecast": part["at_50"].median(),
                "factor": np.exp(part["size"].mean()),
                "factor_of_constant": np.exp(part["naive"].mean()),
                "bias": np.exp(part["error"].mean()),
                "in_90": part["held"].mean(),
                "in_50": part["half"].mean(),
                "width_90": part["width"].median(),
            }
            for name, part in parts
            if len(part)
        ]
    )


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of left-out studies as pages show it."""
    made = table[["study", "rows"]].copy()
    for name in ("factor", "factor_of_constant", "bias"):
        made[name.replace("factor_of_constant", "of the constant")] = table[name].map("{:.2f}".format)
    made["in 90 %"] = (100 * table["in_90"]).map("{:.0f} %".format)
    made["width"] = (100 * table["width_90"]).map("{:.0f} points".format)
    return made


def _short(value: Any) -> float:
    return float(f"{float(value):.5g}")


def everything(data: Path) -> pd.DataFrame:
    """Return the rows of all studies."""
    return pd.concat([own_rows(), public_rows(data)], ignore_index=True)


def probe() -> list[Any]:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    rows = own_rows()
    forgetting, gain = (studies.learned(outcome) for outcome in ("forgetting", "gain"))
    frame = outcomes(rows, "forgetting").head(20)
    return [rows, studies.expected("forgetting", frame, forgetting, gain).quantile(0.9)]


def main() -> None:
    """Learn, judge, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public tables")
    parser.add_argument("--write", action="store_true", help=f"replace {HOME.name}")
    asked = parser.parse_args()
    rows = everything(asked.data)
    found, tables = {}, {}
    both: tuple[studies.Outcome, ...] = ("forgetting", "gain")
    for outcome in both:
        found[outcome] = learn(rows, outcome)
        tables[outcome] = shown(judged(left_out(rows, outcome), outcome))
        print(json.dumps({k: v for k, v in found[outcome].items() if k not in ("covariance", "studies")}))
    print(show(tables))
    if asked.write:
        write_result("learn_studies", tables, "python -m studies learn_studies --data ../shared/data --write")
        HOME.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
