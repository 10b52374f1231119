"""Learn what studies of continual pre-training say together, and judge it by leaving out one study at a time.

    python -m studies learn_studies --data ../shared/data            # the table of left-out studies
    python -m studies learn_studies --data ../shared/data --write    # and the numbers that the package ships

Rows: the package's own example runs; and, from a folder, `watts_musicpile_60m.csv`, `published_cpt_tables.csv` and
`mixlaws_ct_pythia70m.csv` (`cptlaw bench` says where each lies in public). Only coefficients leave this script.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg, optimize, special

import cptlaw as cl
from cptlaw.answering import studies

HOME = Path(studies.__file__).with_name("studies.json")
MOST = 40  # rows of one study: beyond that they say the same again
OFFSET = {"forgetting": 0.1, "gain": 0.05}
# Weak priors of the coefficients: mean and standard deviation, in the order of FEATURES.
PRIOR = {
    "forgetting": ((-2.0, 0.3, 0.1, 0.1, 0.2, -0.5, 0.0), (1.0, 0.3, 0.15, 0.15, 0.3, 0.5, 0.1)),
    "gain": ((-1.5, -0.3, 0.1, -0.1, 0.1, -0.7, 0.0), (1.0, 0.3, 0.15, 0.15, 0.3, 0.5, 0.1)),
}
START = np.log([0.5, 0.1, 0.05, 0.1, 0.1])  # between studies (3), between base models, noise
ASSUMED_BUDGET = 600.0  # of base models whose pre-training tokens are not published
OWN = (  # name, kind of shift, rate of pre-training
    ("en-fr-pilot", "language", 6e-3),
    ("docs-to-code", "code", 6e-3),
    ("code-to-prose", "domain", 6e-3),
    ("docs-to-manuals", "near", 6e-3),
    ("domains", None, 6e-3),
)
OF_DOMAIN = {"french": "language", "german": "language", "python": "code", "c": "code"}


def own_rows() -> pd.DataFrame:
    """Return the outcomes of the example runs, one study per target corpus."""
    parts = []
    for name, kind, rate in OWN:
        frame = cl.examples.load(name).frame
        frame = frame.assign(domain=frame["domain"].astype(object) if "domain" in frame.columns else None)
        for domain in frame["domain"].dropna().unique() if kind is None else [None]:
            # A base model's source loss is the same whatever comes after it, so it may name no domain.
            rows = frame if kind is not None else frame[frame["domain"].isna() | (frame["domain"] == domain)]
            base = rows[rows["tokens"] == 0].groupby(["eval", "n_params", "ptpp"], observed=True)["loss"].mean()
            keys = ["run", "n_params", "tokens", "replay", "ptpp", "lr_peak"]
            wide = rows[rows["tokens"] > 0].pivot_table(index=keys, columns="eval", values="loss", observed=True)
            wide = wide.reset_index()
            places = list(zip(wide["n_params"], wide["ptpp"], strict=True))
            for role in ("source", "target"):
                wide[f"base_{role}"] = [base.get((role, *place), np.nan) for place in places]
            known = {"study": name if domain is None else f"docs-to-{domain}", "source_of": "this project"}
            parts.append(wide.assign(shift=kind or OF_DOMAIN[domain], rate=wide["lr_peak"] / rate, **known))
    return pd.concat(parts, ignore_index=True)


def public_rows(data: Path) -> pd.DataFrame:
    """Return the outcomes of the public studies."""
    music = pd.read_csv(data / "watts_musicpile_60m.csv").query("optimizer == 'adamw'")
    base = {48e9: 3.4466, 96e9: 3.4263, 192e9: 3.4098}  # INDEX.md of the folder
    parts = [
        pd.DataFrame(
            {
                "study": "musicpile",
                "shift": "domain",
                "source_of": "github.com/WattsIshaan/sharpness-aware-pretraining",
                "run": music["run_id"],
                "n_params": music["n_params"],
                "tokens": music["cpt_tokens"],
                "replay": 0.0,
                "ptpp": music["ptpp"],
                "rate": music["cpt_peak_lr"] / music["pretrain_lr"],
                "source": music["source_loss"],
                "target": music["target_loss"],
                "base_source": music["pt_tokens"].map(base),
            }
        )
    ]
    printed = pd.read_csv(data / "published_cpt_tables.csv")
    ibrahim, que = "Ibrahim et al. 2024, arXiv:2403.08763", "Que et al. 2024, table 5, arXiv:2406.01375"
    for start, name, kind, rate, source in (
        ("ger405", "pile-to-german-405m", "language", 3e-4, ibrahim),
        ("sp405", "pile-to-slimpajama-405m", "near", 3e-4, ibrahim),
        ("sp10b", "pile-to-slimpajama-10b", "near", 3e-4, ibrahim),
        ("dcpt_chem", "dolma-to-chemistry-1.8b", "domain", None, que),
    ):
        rows = printed[printed["run_id"].str.startswith(start)]
        rows = rows[~rows["note"].fillna("").str.contains("scratch")]
        of_base = rows[rows["cpt_tokens"] == 0].set_index("role")["loss"]
        keys = ["run_id", "n_params", "cpt_tokens", "replay_ratio"]
        wide = rows[rows["cpt_tokens"] > 0].pivot_table(index=keys, columns="role", values="loss").reset_index()
        peak = rows.groupby("run_id")["peak_lr"].first()
        wide = wide.rename(columns={"run_id": "run", "cpt_tokens": "tokens", "replay_ratio": "replay"})
        wide["ptpp"] = 300e9 / wide["n_params"] if rate else ASSUMED_BUDGET
        wide["rate"] = wide["run"].map(peak) / rate if rate else 1.0
        parts.append(
            wide.assign(
                study=name,
                shift=kind,
                source_of=source,
                base_source=of_base.get("source"),
                base_target=of_base.get("target", np.nan),
            )
        )
    curves = pd.read_csv(data / "mixlaws_ct_pythia70m.csv").query("role != 'source_subdomain'")
    wide = curves.pivot_table(index=["run_id", "step", "n_params"], columns="role", values="loss").reset_index()
    of_base = wide[wide["step"] == 0].iloc[0]
    wide = wide[wide["step"] > 0]
    parts.append(
        pd.DataFrame(
            {
                "study": "pile-to-python-70m",
                "shift": "code",
                "source_of": "github.com/yegcjs/mixinglaws",
                "run": wide["run_id"],
                "n_params": wide["n_params"],
                "tokens": wide["step"] * 2_097_152.0,
                "replay": wide["run_id"].str.extract(r"_r([\d.]+)-")[0].astype(float),
                "ptpp": 41_943_040_000 / wide["n_params"],
                "rate": 1.0,
                "source": wide["source_weighted_avg"],
                "target": wide["target"],
                "base_source": of_base["source_weighted_avg"],
                "base_target": of_base["target"],
            }
        )
    )
    return pd.concat(parts, ignore_index=True)


def outcomes(rows: pd.DataFrame, outcome: str) -> pd.DataFrame:
    """Return the rows with a measured outcome on its scale, thinned to `MOST` a study."""
    if outcome == "forgetting":
        rows = rows.assign(value=rows["source"] / rows["base_source"] - 1.0 + studies.own_gain(rows))
    else:
        rows = rows.assign(value=np.log(rows["base_target"] / rows["target"]))
    # The warm-up transient of tiny models at their first steps; the only study below is of one token per three.
    kept = rows[rows["value"].notna() & ((rows["tokens"] >= rows["n_params"]) | (rows["study"] == "musicpile"))]
    return kept.reset_index(drop=True)


def thinned(rows: pd.DataFrame, most: int = MOST, seed: int = 0) -> pd.DataFrame:
    """Return at most so many rows of each study."""
    parts = [part.sample(min(most, len(part)), random_state=seed) for _, part in rows.groupby("study")]
    return pd.concat(parts, ignore_index=True)


class Regression:
    """The regression of one outcome on some studies."""

    def __init__(self, rows: pd.DataFrame, outcome: str) -> None:
        self.rows, self.outcome = rows, outcome
        self.x, self.z = studies.features(outcome, rows), studies.effects(outcome, rows)
        self.y = np.log(np.maximum(rows["value"].to_numpy(dtype=float) + OFFSET[outcome], 1e-3))
        self.mean, self.sd = map(np.array, PRIOR[outcome])
        study = rows["study"].to_numpy(dtype=object)
        base = (rows["study"] + "|" + rows["n_params"].astype(str) + "|" + rows["ptpp"].astype(str)).to_numpy(object)
        self.same_study, self.same_base = np.equal.outer(study, study), np.equal.outer(base, base)
        best = optimize.minimize(self.energy, START, method="L-BFGS-B")
        self.spreads = np.exp(best.x)

    def covariance(self, spreads: Any) -> Any:
        """Return the covariance of the rows given the coefficients."""
        between = self.same_study * ((self.z * spreads[:3] ** 2) @ self.z.T)
        return between + spreads[3] ** 2 * self.same_base + spreads[4] ** 2 * np.eye(len(self.y))

    def energy(self, logs: Any) -> float:
        """Return minus the log posterior of the spreads, the coefficients integrated out."""
        whole = self.covariance(np.exp(logs)) + (self.x * self.sd**2) @ self.x.T
        factor = linalg.cholesky(whole, lower=True)
        residual = linalg.solve_triangular(factor, self.y - self.x @ self.mean, lower=True)
        # Spreads between a handful of studies need a prior too: within a factor two of the start.
        return float(
            0.5 * residual @ residual + np.log(np.diag(factor)).sum() + 0.5 * np.sum(((logs - START) / 0.7) ** 2)
        )

    def learned(self) -> dict[str, Any]:
        """Return the regression as the package keeps it."""
        inverse = np.linalg.inv(self.covariance(self.spreads))
        precision = self.x.T @ inverse @ self.x + np.diag(1 / self.sd**2)
        covariance = np.linalg.inv(precision)
        mean = covariance @ (self.x.T @ inverse @ self.y + self.mean / self.sd**2)
        groups = self.rows.groupby("study")
        listed = [
            {
                "study": name,
                "shift": part["shift"].iloc[0],
                "source": part["source_of"].iloc[0],
                "rows": len(part),
                "n_params": [float(part["n_params"].min()), float(part["n_params"].max())],
                "replay": [float(part["replay"].min()), float(part["replay"].max())],
                "ptpp": [round(float(part["ptpp"].min()), 1), round(float(part["ptpp"].max()), 1)],
                "tokens_per_parameter": [
                    round(float((part["tokens"] / part["n_params"]).min()), 2),
                    round(float((part["tokens"] / part["n_params"]).max()), 2),
                ],
                "median": round(float(part["value"].median()), 4),
            }
            for name, part in groups
        ]
        return {
            "offset": OFFSET[self.outcome],
            "coefficients": dict(zip(studies.FEATURES, map(_short, mean), strict=True)),
            "covariance": [[_short(value) for value in row] for row in covariance],
            "between_studies": dict(zip(studies.EFFECTS, map(_short, self.spreads[:3]), strict=True)),
            "between_base_models": _short(self.spreads[3]),
            "noise": _short(self.spreads[4]),
            "studies": listed,
        }


def left_out(rows: pd.DataFrame, outcome: str) -> pd.DataFrame:
    """Forecast every study from all others; return coverage and width."""
    table = []
    for name in sorted(rows["study"].unique()):
        law = studies.from_json(Regression(thinned(rows[rows["study"] != name]), outcome).learned())
        own = thinned(rows[rows["study"] == name], 200, 1)
        said = studies.expected(outcome, own, law)
        far = (law.to_axis(own["value"]) - said.centre) / said.spread
        ends = [law.from_axis(said.centre + sign * special.ndtri(0.95) * said.spread) for sign in (-1, 1)]
        table.append(
            {
                "study": name,
                "rows": len(own),
                "measured": own["value"].median(),
                "forecast": np.median(law.from_axis(said.centre)),
                "coverage_50": np.mean(np.abs(far) <= special.ndtri(0.75)),
                "coverage_90": np.mean(np.abs(far) <= special.ndtri(0.95)),
                "width_90": np.median(ends[1] - ends[0]),
            }
        )
    return pd.DataFrame(table)


def _short(value: Any) -> float:
    return float(f"{float(value):.5g}")


def main() -> None:
    """Learn, judge, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public tables")
    parser.add_argument("--write", action="store_true", help=f"replace {HOME.name}")
    asked = parser.parse_args()
    rows = pd.concat([own_rows(), public_rows(asked.data)], ignore_index=True)
    found = {}
    for outcome in ("forgetting", "gain"):
        kept = outcomes(rows, outcome)
        found[outcome] = Regression(thinned(kept), outcome).learned()
        table = left_out(kept, outcome)
        print(f"\n{outcome}, each study forecast from the others\n{table.round(3).to_string(index=False)}")
        held = ", ".join(f"{level} % intervals {table[f'coverage_{level}'].mean():.0%}" for level in (90, 50))
        print(f"mean over studies: {held}")
        print(json.dumps({k: v for k, v in found[outcome].items() if k not in ("covariance", "studies")}))
    if asked.write:
        HOME.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
