"""Make docs/gallery.md and its pictures: one per figure function, all from the example runs.

Run it as ``python docs/gallery.py [-o FOLDER]`` from the root of the repository (a few minutes). It needs the extra
`images` and Chrome or Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw.reporting.figures import Figure
from cptlaw.reporting.figures.figure import blank_drawing
from cptlaw.reporting.images import write_images
from cptlaw.schedules import Phase, Schedule, areas

DOCS = Path(__file__).parent
ROWS = "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9"
FITTED = f"{ROWS} and ptpp in (31, 62, 124)"
MODEL = {"n_params": 124_672, "ptpp": 279}
LIMITS = {"max_target_loss": 1.70, "max_forgetting": "25%"}
MIX = {**MODEL, "replay": 0.25}
MEASURED = "n_params == 124672 and ptpp == 279 and replay == 0.25 and lr_schedule == 'constant' and atpp >= 1.9"
# Target loss of CPT on Knowledge-Pile, Wang et al. 2025 (arXiv:2505.07796), fig. 3.
PUBLISHED = {"L0": 3.024, "A": 0.412, "alpha": 0.677, "B": -0.666, "E": 5662, "beta": 0.146, "C1": 0.278, "C2": 0.324}
INTRODUCTION = """\
Every figure that cptlaw draws, on the example runs (English to French, tiny decoders): fitted on budgets of 31,
62 and 124 pre-training tokens per parameter by law `auto`, 279 held out. `target` and `source`
are fits, `runs` is the table. A figure's `data` is its table; `save("name.pdf")` writes PNG, PDF, SVG or CSV."""
PEAK, PRETRAIN, STEPS = 2e-4, 40_000, 10_000


@dataclass(frozen=True)
class Piece:
    """One picture of the gallery.

    Attributes
    ----------
    figure
        What is shown.
    call
        The call that makes it.
    use
        What it is for.
    """

    figure: Figure
    call: str
    use: str


def scored() -> cl.Runs:
    """Return the losses that a published law gives twelve models, with simulated answers to 2,000 questions."""
    epoch = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}  # arXiv:2404.10102
    law, random, rows = cl.law("chinchilla"), np.random.default_rng(0), []
    for size in (3e7, 1e8, 3e8, 1e9):
        for ratio in (10, 20, 40):
            model = {"n_params": size, "tokens": ratio * size}
            loss = float(law.predict(epoch, pd.DataFrame([model]))[0]) * np.exp(0.003 * random.standard_normal())
            share = 0.25 + 0.7 / (1 + np.exp(3.0 * (loss - 2.3)))
            known = {"run": f"{size:g}-{ratio}", **model}
            rows.append({**known, "eval": "validation", "loss": loss})
            score = {"eval": "benchmark", "metric": "accuracy", "n_items": 2000, "chance": 0.25}
            rows.append({**known, **score, "loss": random.binomial(2000, share) / 2000})
    return cl.read_runs(pd.DataFrame(rows))


def curves() -> tuple[cl.Runs, dict[str, Schedule]]:
    """Return the loss curves that a published law gives three schedules with one peak and one length."""
    phases = {
        "constant": Phase("cpt", STEPS, "constant", peak=PEAK, warmup=200),
        "cosine": Phase("cpt", STEPS, "cosine", peak=PEAK, warmup=200, end=0.1 * PEAK),
        "wsd": Phase("cpt", STEPS, "wsd", peak=PEAK, warmup=200, decay=2000, end=0.0),
    }
    base = Phase("pretrain", PRETRAIN, "wsd", peak=PEAK, warmup=500, decay=PRETRAIN // 5, end=0.0)
    schedules = {name: Schedule([base, phase]) for name, phase in phases.items()}
    law = cl.given_fit("cpt-dynamics", PUBLISHED, "target", note="Wang et al. 2025, fig. 3")
    steps = list(range(250, STEPS + 1, 250))
    parts = []
    for name, schedule in schedules.items():
        frame = pd.DataFrame(vars(areas(schedule).at([PRETRAIN + step for step in steps])))
        parts.append(pd.DataFrame({"run": name, "eval": "target", "step": steps, "loss": law.predict(frame)}))
    return cl.read_runs(pd.concat(parts, ignore_index=True)), schedules


def pieces() -> Iterator[Piece]:
    """Yield the pictures, each with the call that makes it."""
    runs = cl.examples.load("en-fr-pilot")
    target, source = (cl.fit(runs, on=on, where=FITTED) for on in ("target", "source"))
    plan = cl.plan.min_tokens(target, source, **MODEL, **LIMITS)
    yield Piece(
        cl.figures.forgetting_map(target, source, plan=plan, **MODEL, **LIMITS),
        "cl.figures.forgetting_map(target, source, plan=plan, n_params=124_672, ptpp=279,\n"
        '                          max_target_loss=1.70, max_forgetting="25%")',
        "Which mixes keep all limits, which of them is cheapest, and how far doubt pushes it.",
    )
    at = runs.on("target").where(MEASURED).frame
    yield Piece(
        cl.figures.interval_fan(target, MIX, at),
        'cl.figures.interval_fan(target, {"n_params": 124_672, "ptpp": 279, "replay": 0.25}, measured)',
        "What a loss will be at a budget that was never run, and how sure that is. Measured losses lie beside it where "
        "there are some.",
    )
    front = cl.plan.pareto(target, source, **MODEL, budget="7.5e11", points=15)
    yield Piece(
        cl.figures.pareto_front(front),
        'front = cl.plan.pareto(target, source, n_params=124_672, ptpp=279, budget="7.5e11", points=15)\n'
        "cl.figures.pareto_front(front)",
        "What can be had for a budget when neither loss comes first.",
    )
    yield Piece(
        cl.figures.observed_fitted(target),
        "cl.figures.observed_fitted(target)",
        "Whether the law describes the runs it was fitted on, facet by facet.",
    )
    held_out = runs.on("target").adapted().where(f"{ROWS} and ptpp == 279").frame
    yield Piece(
        cl.figures.calibration(target, held_out),
        "cl.figures.calibration(target, held_out)",
        "Whether forecasts come true, and intervals hold as often as they say, on rows that were not fitted.",
    )
    table, schedules = curves()
    drawn = cl.figures.loss_curves(table, "target", schedules=schedules)
    yield Piece(
        replace(drawn, caption=drawn.caption.replace("measured target losses", "target losses by the published law")),
        'cl.figures.loss_curves(runs, "target", schedules=schedules)',
        "What a schedule does to the loss, on one axis of steps.",
    )
    yield from plots(runs, target, source)


def plots(runs: cl.Runs, target: cl.Fit, source: cl.Fit) -> Iterator[Piece]:
    """Yield what `cl.plot` of forecasts, comparisons and plans draws."""
    shares = target.forecast({**MIX, "tokens": 1_000_000, "replay": [0.1, 0.2, 0.3, 0.4, 0.5]})
    yield Piece(
        cl.figures.forecast_points(shares),
        'forecast = target.forecast({.., "replay": [0.1, 0.2, 0.3, 0.4, 0.5]})\n'
        "cl.figures.forecast_points(forecast)      # cl.plot(forecast) draws the same",
        "Several forecasts side by side, each with its interval.",
    )
    laws = "auto,ptpp-gate,ptpp-floor,ptpp-nearest"
    scores = cl.compare(laws, runs, on="target", fit_where=FITTED, test_where=f"{ROWS} and ptpp == 279")
    yield Piece(
        cl.figures.law_scores(scores),
        'scores = cl.compare([..], runs, on="target", fit_where=.., test_where=..)\n'
        "cl.figures.law_scores(scores)             # cl.plot(scores)",
        "Which law forecasts rows that it has not seen, and whether it beats guesses without a law.",
    )
    plan = cl.plan.trade_off(target, source, **MODEL, tokens="1M", max_forgetting="25%")
    asked = cl.answer(n_params="8B", ptpp=1875, target_tokens="20B", shift="language", max_forgetting="5%")
    yield Piece(
        cl.figures.forgetting_and_gain(asked),
        'asked = cl.answer(n_params="8B", ptpp=1875, target_tokens="20B", shift="language", max_forgetting="5%")\n'
        "cl.figures.forgetting_and_gain(asked)     # cl.plot(asked)",
        "What to expect before anything is run: forgetting and gain along replay, by the studies of others.",
    )
    yield Piece(
        cl.figures.losses_by_replay(plan),
        'plan = cl.plan.trade_off(target, source, tokens="1M", max_forgetting="25%", ..)\n'
        "cl.figures.losses_by_replay(plan)         # cl.plot(plan)",
        "What more replay costs the target and brings the source, and where the plan lies.",
    )
    split = cl.plan.allocate(target, replay="25%", ptpp=124, budget="1e13")
    yield Piece(
        cl.figures.budget_split(split),
        'plan = cl.plan.allocate(target, replay="25%", ptpp=124, budget="1e13")\n'
        "cl.figures.budget_split(plan)             # cl.plot(plan)",
        "Which model size a budget is best spent on, and how much another size would cost.",
    )
    sealed = [DOCS.parent / "studies" / "sealed" / f"en_fr_204k_{on}_auto.json" for on in ("source", "target")]
    yield Piece(
        cl.figures.sealed_scores(cl.score(sealed, cl.examples.load("en-fr-ladder"))),
        'scores = cl.score([..], cl.examples.load("en-fr-ladder"))\n'
        "cl.figures.sealed_scores(scores)          # cl.plot(scores)",
        "Whether forecasts that were sealed before their runs were trained came true.",
    )
    law = cl.given_fit("cpt-dynamics", PUBLISHED, "target", note="Wang et al. 2025, fig. 3")
    whole = cl.plan.whole_schedule(law, steps=2000, highest=PEAK, schedules=curves()[1], run="constant")
    yield Piece(
        cl.figures.schedule_rates(whole),
        "plan = cl.plan.whole_schedule(target, steps=2000, ..)\n"
        "cl.figures.schedule_rates(plan)           # cl.plot(plan)",
        "The learning rate that a plan of a schedule chose, step by step.",
    )
    yield from_loss_to_score()


def from_loss_to_score() -> Piece:
    """Return the picture of a score that follows a loss."""
    score = cl.fit(scored(), on="benchmark")
    drawn = cl.figures.score_link(score, "n_params=4e9,tokens=80e9")
    return Piece(
        replace(drawn, caption=f"Simulated answers. {drawn.caption}"),
        'score = cl.fit(runs, on="benchmark")      # rows with a metric, such as accuracy\n'
        'cl.figures.score_link(score, "n_params=4e9,tokens=80e9")',
        "What a benchmark will say: from the loss to the score, with the doubt of both.",
    )


def story() -> Figure:
    """Return the picture at the top of README: a forecast at a budget never run, and the plan that it allows.

    No law is named, as in the commands below the picture.
    """
    runs = cl.examples.load("en-fr-pilot")
    target, source = (cl.fit(runs, on=on, where="ptpp in (31, 62, 124)") for on in ("target", "source"))
    best = cl.plan.min_tokens(target, source, **MODEL, **LIMITS)
    fan = cl.figures.interval_fan(target, MIX, runs.on("target").where(MEASURED).frame)
    plan = cl.figures.forgetting_map(target, source, plan=best, **MODEL, **LIMITS)
    drawing = blank_drawing(height=430)
    for side, figure in (("", fan), ("2", plan)):
        for trace in figure.drawing.data:
            drawing.add_trace({**trace.to_plotly_json(), "xaxis": f"x{side}", "yaxis": f"y{side}"})
    left, right = [0.0, 0.41], [0.51, 1.0]
    (sure,) = re.findall(r"hold with (.+?) probability", plan.caption)  # the risks whose edges cross the map
    drawing.update_layout(
        margin={"l": 66, "r": 14, "t": 92, "b": 52},
        showlegend=False,
        xaxis=fan.drawing.layout.xaxis.to_plotly_json() | {"domain": left, "anchor": "y"},
        yaxis=fan.drawing.layout.yaxis.to_plotly_json() | {"anchor": "x"},
        xaxis2=plan.drawing.layout.xaxis.to_plotly_json() | {"domain": right, "anchor": "y2"},
        yaxis2=plan.drawing.layout.yaxis.to_plotly_json() | {"anchor": "x2"},
    )
    for title, key, where in (
        (
            "1. Forecast a budget that was never run",
            "line: forecast, bands: 50% and 90% intervals<br>rings: measured, not fitted",
            left[0],
        ),
        (
            "2. Plan the cheapest mix within your limits",
            f"star: the plan, unveiled: mixes that keep the limits; red: with {sure}<br>"
            "probability; thin dotted: target loss (nats per byte)",
            right[0],
        ),
    ):
        place = {"x": where, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "showarrow": False}
        drawing.add_annotation(text=f"<b>{title}</b>", yshift=48, yanchor="bottom", font={"size": 14}, **place)
        drawing.add_annotation(text=key, yshift=6, yanchor="bottom", align="left", font={"size": 12}, **place)
    return Figure("story", "From small runs to a plan", f"{fan.caption} {plan.caption}", fan.data, drawing)


def of_tutorial() -> Iterator[Figure]:
    """Yield the pictures of docs/tutorial.md, from the calls that stand there."""
    runs = cl.examples.load("en-fr-pilot")
    target, source = (cl.fit(runs, on=on, where="ptpp in (31, 62, 124)") for on in ("target", "source"))
    plan = cl.plan.trade_off(target, source, **MODEL, tokens="1M", max_forgetting="25%", risk=0.8)
    for name, drawn in (("fit", target), ("plan", plan)):
        yield replace(cl.plot(drawn), name=f"tutorial-{name}")


def page(shown: list[Piece]) -> str:
    """Return the gallery as Markdown."""
    parts = [
        "# Gallery",
        "<!-- all shown: docs/gallery.py runs these lines and draws the figures -->",
        INTRODUCTION,
    ]
    for piece in shown:
        name, figure = piece.figure.name, piece.figure
        parts += [
            f"## {figure.title}",
            textwrap.fill(piece.use, 120),
            f"    {piece.call}".replace("\n", "\n    "),
            f"![{name}](figures/{name}.png)",
            textwrap.fill(figure.caption, 120),
        ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Write the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=DOCS, help="folder of gallery.md [default: docs]")
    folder = parser.parse_args(arguments).output
    shown = []
    for piece in pieces():
        print(piece.figure.title, flush=True)
        shown.append(piece)
    by_name = {piece.figure.name: piece.figure for piece in shown}
    figures = [*by_name.values(), story(), *of_tutorial()]
    drawings = {f"{figure.name}.png": figure.drawing for figure in figures}
    written = write_images(drawings, folder / "figures", "png")
    with contextlib.suppress(ImportError):  # a third smaller, the same to the last pixel
        from PIL import Image

        for picture in written:
            Image.open(picture).save(picture, optimize=True)
    (folder / "gallery.md").write_text(page(shown), encoding="utf-8")
    print(f"{folder / 'gallery.md'}: {len(written)} pictures, {sum(x.stat().st_size for x in written) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
