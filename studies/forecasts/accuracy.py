"""How well benchmark scores are forecast, by each way and by their average.

    python -m studies accuracy [--data FOLDER] [--write]

Everything is fitted to the lower models alone, losses included; the higher models are forecast. ``--write`` puts the
tables into studies/accuracy.md. Files that are absent are left out, with a line that says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.fitting.learned import leaving_out
from cptlaw_scores import fit_all_scores
from cptlaw_scores.check_scores import check_scores
from cptlaw_scores.joint import join
from studies.harness import HOME, ROOT

PAGE = HOME / "accuracy.md"
MARK = "<!-- tables -->"
WAYS = ("auto", "score-size", "score-compute", "score-sigmoid", "score-exponential", "score-answers", "score-flat")
BEST_RATE = 0.83  # of the peak rates of mid-training, relative to pre-training's, the one of the lowest losses
# The benchmarks over which Gadre et al. average, mlfoundations/scaling, scaling/constants.py, SUBSET.
PUBLISHED = ("bigbench_operators", "pubmed_qa_labeled", "hellaswag_zeroshot", "boolq", "arc_easy", "coqa",
             "bigbench_dyck_languages", "lambada_openai", "bigbench_novel_concepts", "winograd",
             "bigbench_cs_algorithms", "commonsense_qa", "bigbench_qa_wikidata", "hellaswag", "copa", "squad",
             "piqa")  # fmt: skip
ABOVE = 0.02  # by which held-out scores must lie above chance to count as above it
# Random baselines of the Gauntlet (llm-foundry, scripts/eval/yamls/eval_gauntlet.yaml); 0.25 where none is named here.
WRITTEN = ("jeopardy", "qa_wikidata", "conlang", "cs_algorithms", "dyck", "operators", "repeat_copy", "arithmetic",
           "pubmed", "squad", "coqa", "lambada")  # fmt: skip
TWO = ("misconceptions", "copa", "siqa", "piqa", "strange_stories", "strategy", "winogr", "winogender", "enterprise",
       "bbq", "boolq")  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A table with what is fitted and what is forecast; nothing learned from the study of its `source` is used."""

    source: str
    name: str
    fitted: pd.DataFrame
    held_out: pd.DataFrame
    members: tuple[str, ...] = WAYS


def gadre(path: Path) -> pd.DataFrame:
    """Return the models of Gadre et al. 2024 trained on C4, with their 46 benchmarks."""
    frame = pd.read_csv(path).astype({"n_params": float, "tokens": float})
    rows = []
    for row in frame.to_dict("records"):
        known = {name: row[name] for name in ("run", "n_params", "tokens")}
        rows.append({**known, "eval": "c4_val", "loss": row["loss_c4_val"]})
        for name in (one for one in frame.columns if one.startswith("acc_")):
            chance = 0.0 if any(one in name for one in WRITTEN) else 0.5 if any(one in name for one in TWO) else 0.25
            score = {"eval": name.removeprefix("acc_"), "metric": "accuracy", "loss": row[name], "chance": chance}
            rows.append({**known, **score})
    return pd.DataFrame(rows)


def olmo(path: Path, sizes: Path) -> pd.DataFrame:
    """Return the model ladder of Bhagia et al. 2024 with its benchmarks as ranked answers."""
    ladder = pd.read_csv(sizes).drop_duplicates("run_id")[["run_id", "n_params", "tokens"]]
    frame = pd.read_csv(path).merge(ladder, on="run_id")
    rows = []
    for row in frame.to_dict("records"):
        known = {"run": row["run_id"], "n_params": float(row["n_params"]), "tokens": float(row["tokens"])}
        rows.append({**known, "eval": "c4_en", "loss": row["c4_en-validation/CrossEntropyLoss"]})
        for column, value in row.items():
            group, _, name = str(column).partition("/")
            if group == "downstream_bpb":
                rows.append({**known, "eval": name, "metric": "bpb", "loss": value})
            elif group == "downstream" and value == value:
                task = name.replace("_len_norm", "").replace("_acc", "")
                two, five = any(one in task for one in ("boolq", "piqa", "winogrande")), "csqa" in task
                chance = 0.5 if two else 0.2 if five else 1 / 3 if "socialiqa" in task else 0.25
                rows.append({**known, "eval": task, "metric": "accuracy", "loss": value, "chance": chance})
    return pd.DataFrame(rows)


def math500(path: Path, losses: Path) -> pd.DataFrame:
    """Return MATH-500 after the same fine-tuning of mid-trained models, with their losses on mathematics.

    Losses were measured at replay 33 % for all scales and at 50 and 67 % for some; the others follow from their law.
    """
    measured = pd.read_csv(losses)
    measured = measured[(measured["domain"] == "math_val_raw") & measured["series"].isin(["k0p20", "base_step0"])]
    rows, models = [], {}
    for row in measured.to_dict("records"):
        base = row["series"] == "base_step0"
        known = {"n_params": row["n_params"], "tokens": row["cpt_tokens"], "ptpp": row["ptpp"]}
        known |= {"replay": row["replay_ratio"], "lr_peak": row["lr_factor"]}
        # One model of a scale and mix was fine-tuned and scored; its rate is not said, so that the best one counts.
        run = f"{row['scale_flops']:g}-{row['replay_ratio']:g}"
        run += "" if row["lr_factor"] == BEST_RATE else f"-{row['lr_factor']:g}"
        run = f"base-{row['scale_flops']:g}" if base else run
        rows.append({"run": run, **known, "eval": "target", "loss": row["loss"]})
        if not base:
            models[row["scale_flops"]] = {name: known[name] for name in ("n_params", "tokens", "ptpp")}
    for row in pd.read_csv(path).to_dict("records"):
        known = {**models[row["scale_flops"]], "replay": row["replay"], "lr_peak": BEST_RATE}
        run = f"{row['scale_flops']:g}-{row['replay']:g}"
        for name in ("math500_magpie", "math500_wc386k"):
            score = {"eval": name, "metric": "exact_match", "loss": row[name] / 100.0, "n_items": 500, "chance": 0.0}
            rows.append({"run": run, **known, **score})
    return pd.DataFrame(rows)


def studies(folder: Path) -> Iterator[Study]:
    """Yield the studies of which the files are there."""

    def there(*names: str) -> bool:
        absent = [name for name in names if not (folder / name).exists()]
        if absent:
            print(f"skipped: {absent[0]} is not in {folder}")
        return not absent

    if there("gadre_downstream_c4.csv"):
        frame = gadre(folder / "gadre_downstream_c4.csv")
        compute = frame["n_params"] * frame["tokens"]
        levels = np.unique(compute)
        for share in (12, 16, 20):
            cut = (levels[share - 1] + levels[share]) / 2
            name = f"Gadre et al., C4: the {share} models of the lowest compute, then the {24 - share} above"
            members = tuple(one for one in WAYS if one != "score-answers")
            yield Study(
                "gadre",
                name,
                frame[compute < cut],
                frame[compute > cut],
                members if share == 12 else ("auto", "score-flat"),
            )
    if there("olmo_ladder_downstream.csv", "olmo_ladder.csv"):
        frame = olmo(folder / "olmo_ladder_downstream.csv", folder / "olmo_ladder.csv")
        low = frame["n_params"] < 1e9
        yield Study("olmo", "Model ladder: 190M to 760M, then 1.3B", frame[low], frame[~low])
    if there("marin_math500_after_sft.csv", "delphi_midtrain.csv"):
        frame = math500(folder / "marin_math500_after_sft.csv", folder / "delphi_midtrain.csv")
        low = frame["n_params"] < 1.5e9
        members = ("auto", "score-sigmoid", "score-exponential", "score-flat")
        yield Study(
            "delphi", "MATH-500 after mid-training: up to 9e19, then 2e20 and 3e20", frame[low], frame[~low], members
        )


def forecast(study: Study, member: str, losses: dict[str, Any]) -> pd.DataFrame:
    """Return one row per benchmark: errors in points, share inside the 90 % interval, whether it is above chance."""
    runs = cl.read_runs(study.fitted)
    fits = fit_all_scores(runs, law_name=member, losses=losses)
    for fit in fits.values():
        losses |= fit.losses
    carry = {one.name: one.carries for one in check_scores(runs, next(iter(fits))).tasks}
    rows = []
    errors = {}
    for name, fit in fits.items():
        test = study.held_out[study.held_out["eval"] == name]
        asked = test.reindex(columns=["n_params", "tokens", "replay", "ptpp", "lr_peak"]).dropna(axis=1, how="all")
        found, truth = fit.forecast(asked.reset_index(drop=True)), test["loss"].to_numpy(dtype=float)
        missed = 100.0 * (found["loss"].to_numpy(dtype=float) - truth)
        errors[name] = missed
        inside = (truth >= found["lo"].to_numpy()) & (truth <= found["hi"].to_numpy())
        rows.append(
            {
                "task": name,
                "error": np.abs(missed).mean(),
                "bias": missed.mean(),
                "covered": inside.mean(),
                "width": 50.0 * float((found["hi"] - found["lo"]).mean()),
                "above": float(truth.mean()) > fit.chance + ABOVE,
                "carries": carry[name],
                "published": name in PUBLISHED,
                "ways": ", ".join(f"{one.name.removeprefix('score-')} {one.weight:.2f}" for one in fit.members[:3]),
            }
        )
    found = pd.DataFrame(rows)
    # The published claim is about the mean over the benchmarks that the authors chose.
    chosen = [missed for name, missed in errors.items() if name in PUBLISHED]
    found.attrs["mean"] = float(np.abs(np.mean(chosen, axis=0)).mean()) if chosen else float("nan")
    return found


def scatter(study: Study) -> str:
    """Return how far the held-out scores lie off smooth curves in the loss that were drawn through them too.

    A parabola through the better models of all, by benchmark: what no forecast from smaller models can be better than.
    """
    joint = join(cl.read_runs(pd.concat([study.fitted, study.held_out])))
    loss = joint.values(joint.losses[0])
    best = np.argsort(loss)[: max(len(loss) // 2 + 2, 6)]
    runs = set(study.held_out["run"].astype(str))
    held = np.array([name in runs for name in joint.frame["run"].astype(str)])[best]
    missed = {}
    for name in joint.tasks:
        y = 100.0 * joint.values(name)[best]
        missed[name] = float(np.abs(y - np.polyval(np.polyfit(loss[best], y, 2), loss[best]))[held].mean())
    chosen = [value for name, value in missed.items() if name in PUBLISHED]
    more = f", {np.mean(chosen):.2f} over the {len(chosen)} published ones" if chosen else ""
    return (
        f"Scatter: the held-out scores lie {np.mean(list(missed.values())):.2f} points{more} off parabolas in the loss "
        f"that were drawn through them as well, {len(best)} models each."
    )


def report(study: Study) -> list[str]:
    """Return the tables of one study."""
    lines = [f"### {study.name}", ""]
    lines += [
        "| way | all | above chance | carry signal in the fitted rows | published | their mean | inside 90 % "
        "| half-width |",
        "|---|---|---|---|---|---|---|---|",
    ]
    of_average = None
    losses: dict[str, Any] = {}
    for member in study.members:
        with leaving_out(study.source):
            found = forecast(study, member, losses)
        of_average = found if member == "auto" else of_average
        cells = [f"{part['error'].mean():.2f} ({len(part)})" if len(part) else "-" for part in
                 (found, found[found["above"]], found[found["carries"]], found[found["published"]])]  # fmt: skip
        cells.append("-" if np.isnan(found.attrs["mean"]) else f"{found.attrs['mean']:.2f}")
        name = "**average**" if member == "auto" else member
        lines.append(f"| {name} | {' | '.join(cells)} | {found['covered'].mean():.0%} | {found['width'].mean():.1f} |")
    assert of_average is not None
    if study.source != "delphi":
        lines += ["", scatter(study)]
    lines += [
        "",
        "Of the average, by benchmark:",
        "",
        "| benchmark | error | bias | inside | half-width | signal | ways |",
    ]
    lines.append("|---|---|---|---|---|---|---|")
    shown = of_average[of_average["carries"] | of_average["above"]].sort_values("error")
    for row in shown.to_dict("records"):
        lines.append(
            f"| {row['task']} | {row['error']:.2f} | {row['bias']:+.2f} | {row['covered']:.0%} | {row['width']:.1f} | "
            f"{'yes' if row['carries'] else 'no'} | {row['ways']} |"
        )
    return [*lines, ""]


def one_curve(frame: pd.DataFrame) -> list[str]:
    """Return whether MATH-500 follows one curve of the loss, whatever the size of the model and the mix.

    Each mix is forecast, at its known loss, by the curve through the two others.
    """
    runs, member = cl.read_runs(frame), "score-sigmoid:through=target"
    fits = fit_all_scores(runs, law_name=member)
    lines = [
        "### MATH-500 against the loss on mathematics: one curve for size and mix",
        "",
        "One link for all models, and for each share of replay the link fitted to the other shares alone. Points",
        "measured above (+) or below (-) the curve at the model's loss, and their size; *questions*: what the",
        "questions let the mean of so many models scatter by (one standard deviation). Where no run measured the loss,",
        "its law says it.",
        "",
        "| benchmark | models | one curve | size | curve of the other mixes | size | questions |",
        "|---|---|---|---|---|---|---|",
    ]
    shown = {}
    for name, fit in fits.items():
        rows = fit.data.assign(target=fit.members[0].losses(fit.data))
        rows["above"] = 100.0 * (rows["loss"] - fit.predict(rows))
        rows["without"] = np.nan
        for replay in sorted(rows["replay"].unique()):
            apart = cl.read_runs(frame[(frame["tokens"] == 0) | (frame["replay"] != replay)])
            others = fit_all_scores(apart, [name], law_name=member)[name]
            here = rows["replay"] == replay
            rows.loc[here, "without"] = 100.0 * (rows.loc[here, "loss"] - others.predict(rows[here]))
        middle = rows["n_params"].median()
        groups = {f"replay {replay:.0%}": rows["replay"] == replay for replay in sorted(rows["replay"].unique())}
        groups |= {"the smaller sizes": rows["n_params"] < middle, "the larger": rows["n_params"] >= middle}
        for label, mask in {**groups, "all": rows["loss"].notna()}.items():
            part = rows[mask]
            noise = 100.0 * np.sqrt((part["loss"] * (1.0 - part["loss"]) / part["n_items"]).sum()) / len(part)
            cells = [f"{part[one].mean():+.2f} | {part[one].abs().mean():.2f}" for one in ("above", "without")]
            lines.append(f"| {name} | {label} ({len(part)}) | {' | '.join(cells)} | {noise:.2f} |")
        shown[name] = rows
    lines += ["", "The models along the curve, measured and by the curve, in percent:", ""]
    lines += [f"| parameters | replay | loss | {' | '.join(f'{name} | curve' for name in shown)} |"]
    lines.append("|---|---|---|" + "---|---|" * len(shown))
    first = next(iter(shown.values()))
    measured = {name: 100.0 * rows["loss"].to_numpy(dtype=float) for name, rows in shown.items()}
    above = {name: rows["above"].to_numpy(dtype=float) for name, rows in shown.items()}
    sizes, replays, losses = (first[name].to_numpy(dtype=float) for name in ("n_params", "replay", "target"))
    for i in np.argsort(-losses):
        cells = [f"{measured[name][i]:.1f} | {measured[name][i] - above[name][i]:.1f}" for name in shown]
        lines.append(f"| {sizes[i]:.3g} | {replays[i]:.0%} | {losses[i]:.3f} | {' | '.join(cells)} |")
    return [*lines, ""]


def at_the_measured_loss(study: Study) -> list[str]:
    """Return whether the loss or its link errs: rows of a table of errors with the loss forecast, and with it known."""
    runs, rows = cl.read_runs(study.fitted), []
    losses: dict[str, Any] = {}
    for member in ("score-sigmoid", "score-exponential"):
        with leaving_out(study.source):
            fits = fit_all_scores(runs, law_name=member, losses=losses)
        missed = []
        for name, fit in fits.items():
            losses |= fit.losses
            held = study.held_out[study.held_out["eval"] == name]
            if fit.carrier is None or held["loss"].mean() <= fit.chance + ABOVE:
                continue
            measured = study.held_out[study.held_out["eval"] == fit.carrier].groupby("run")["loss"].mean()
            held = held.assign(measured=held["run"].map(measured)).dropna(subset=["measured"]).reset_index(drop=True)
            asked = held.reindex(columns=["n_params", "tokens", "replay", "ptpp", "lr_peak"]).dropna(axis=1, how="all")
            known = asked.assign(**{fit.carrier: held["measured"]})
            errors = [100.0 * (fit.predict(points) - held["loss"]) for points in (asked, known)]
            off = 100.0 * (fit.losses[fit.carrier].predict(asked) / held["measured"] - 1.0)
            missed.append([*(value for one in errors for value in (one.abs().mean(), one.mean())), off.mean()])
        error, bias, error_known, bias_known, off = np.mean(missed, axis=0)
        known_cells = f"{error_known:.2f} | {bias_known:+.2f} | {off:+.2f} %"
        rows.append(f"| {study.name} | {member} | {error:.2f} ({len(missed)}) | {bias:+.2f} | {known_cells} |")
    return rows


LINKS = [
    "### The loss or its link: where the error is made",
    "",
    "The ways through a validation loss over the benchmarks above chance, once at the loss that was forecast, once at",
    "the loss that was measured (where it was); *loss*: by how much its forecast lies off.",
    "",
    "| study | way | error | bias | at the measured loss | bias | loss |",
    "|---|---|---|---|---|---|---|",
]


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--write", action="store_true", help="put the tables into studies/accuracy.md")
    given = parser.parse_args()
    lines: list[str] = []
    links = list(LINKS)
    for study in studies(given.data):
        lines += report(study)
        if len(study.members) > 2:
            links += at_the_measured_loss(study)
        print("\n".join(lines[-60:] if given.write else lines), flush=True)
        if study.name.startswith("MATH-500"):
            lines += one_curve(pd.concat([study.fitted, study.held_out], ignore_index=True))
    lines += links if lines else []
    if given.write and lines:
        text = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
        PAGE.write_text(f"{text}{MARK}\n\n" + "\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
