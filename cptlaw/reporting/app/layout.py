"""The page of the app: what stands where. What it does is in `callbacks`."""

from __future__ import annotations

from typing import Any

from cptlaw.reporting.app.upload import LARGEST

PLANNING_INPUTS = {"n_params", "tokens", "replay", "ptpp", "lr_peak"}
ROLES = ("target", "source")
SLIDERS = {
    "n_params": "model size (parameters)",
    "ptpp": "pre-training tokens per parameter",
    "replay": "replay (share of the source corpus)",
    "tokens": "adaptation tokens",
    "max_forgetting": "most forgetting (share of the base model's source loss)",
    "max_target_loss": "highest target loss (nats per token)",
}
ANSWERS = {"forecast": "Forecast at your mix", "plan": "Plan: the fewest tokens"}
RISKS = {"none": "none", "0.8": "80%", "0.9": "90%", "0.95": "95%"}


def planning_laws() -> list[str]:
    """Return the laws that a plan can use: of tokens and, at most, size, replay, budget and peak rate."""
    from cptlaw.laws import LAWS, law

    found = []
    for name in LAWS:
        known = law(name)
        fits = set(known.inputs) <= PLANNING_INPUTS and "tokens" in known.inputs
        if fits and not known.on_base_models and "oracle" not in name:
            found.append(name)
    return found


def page(token: str) -> Any:
    """Return the page, which opens its session with a token."""
    from dash import dcc, html

    def field(label: str, name: Any, control: Any, hint: str = "") -> Any:
        # The hidden attribute of a dropdown's own button is its label's business: it takes the id.
        return html.Div(
            [html.Label(label, htmlFor=name, id=f"label-{name}"), control, html.Small(hint) if hint else None],
            className="field",
        )

    def choice(name: str, label: str, hint: str = "") -> Any:
        return field(label, name, dcc.Dropdown(id=name, clearable=False, searchable=False), hint)

    def slider(name: str, label: str) -> Any:
        return html.Div(
            [
                html.Label([label, " ", html.Output(id=f"said-{name}", htmlFor=name)], htmlFor=name),
                dcc.Input(id=name, type="range", min=0, max=1, step=0.001, value=0.5, className="slider"),
            ],
            className="field",
            id=f"field-{name}",
        )

    def button(name: str, label: str, **rest: Any) -> Any:
        return html.Button(label, id=name, type="button", **rest)

    return html.Main(
        [
            dcc.Store(id="token", data=token),
            dcc.Store(id="session"),
            dcc.Store(id="read", data=0),
            dcc.Store(id="fitted", data=0),
            dcc.Store(id="finished"),
            dcc.Store(id="asked"),
            dcc.Download(id="download"),
            dcc.Interval(id="tick", interval=400, disabled=True),
            html.H1("cptlaw: plan a continual pre-training run"),
            html.P("Everything stays on this machine: tables are kept in memory until the app ends, and nothing else."),
            html.Div(id="problem", role="alert", className="problem"),
            html.Section(
                [
                    html.H2("1. Runs"),
                    dcc.Upload(
                        id="upload",
                        multiple=False,
                        className="upload",
                        children=html.Span(
                            f"Drop a runs table here, or press to choose one (CSV, TSV, JSON Lines or Parquet, up to "
                            f"{LARGEST / 1e6:.0f} MB)"
                        ),
                    ),
                    html.Div(id="summary", **{"aria-live": "polite"}),
                    html.Div(
                        [
                            html.H3("Which column is what?"),
                            html.Div(id="columns", className="fields"),
                            button("apply-columns", "Read with these columns"),
                        ],
                        id="mapping",
                        hidden=True,
                    ),
                    html.Div(
                        [
                            choice("eval-target", "eval of the target loss"),
                            choice("eval-source", "eval of the source loss"),
                        ],
                        className="fields",
                    ),
                    field(
                        "rows to fit (filter)",
                        "where",
                        dcc.Input(id="where", type="text", debounce=0.6, value="", autoComplete="off"),
                        "empty for all rows; as in: ptpp <= 124 and replay in (0.1, 0.25)",
                    ),
                ]
            ),
            html.Section(
                [
                    html.H2("2. Laws"),
                    html.Div([choice(f"law-{role}", f"law of the {role} loss") for role in ROLES], className="fields"),
                    html.Div(id="check", **{"aria-live": "polite"}),
                    button("fit", "Fit", className="main"),
                    html.Div(
                        [
                            html.Progress(id="progress", max="1", value="0", **{"aria-label": "progress"}),
                            html.Span(id="stage", role="status"),
                        ],
                        id="working",
                        hidden=True,
                    ),
                    html.Div(id="fit-result", **{"aria-live": "polite"}),
                ]
            ),
            html.Section(
                [
                    html.H2("3. Move"),
                    html.Div(
                        [
                            html.Div(
                                [
                                    *(slider(name, label) for name, label in list(SLIDERS.items())[:4]),
                                    html.Fieldset(
                                        [
                                            html.Legend("limits"),
                                            dcc.Checklist(
                                                id="limits",
                                                options=[
                                                    {"label": "forgetting", "value": "max_forgetting"},
                                                    {"label": "target loss", "value": "max_target_loss"},
                                                ],
                                                value=["max_forgetting", "max_target_loss"],
                                                inline=True,
                                            ),
                                        ]
                                    ),
                                    *(slider(name, label) for name, label in list(SLIDERS.items())[4:]),
                                    html.Fieldset(
                                        [
                                            html.Legend("risk: probability with which limits hold"),
                                            dcc.RadioItems(
                                                id="risk",
                                                options=[
                                                    {"label": label, "value": value} for value, label in RISKS.items()
                                                ],
                                                value="none",
                                                inline=True,
                                            ),
                                        ]
                                    ),
                                    field(
                                        "base model's source loss (nats per token)",
                                        "base_source_loss",
                                        dcc.Input(id="base_source_loss", type="text", debounce=0.6, autoComplete="off"),
                                        "empty: as measured, or else by a law of base models",
                                    ),
                                ],
                                className="controls",
                            ),
                            html.Div(
                                [
                                    html.Div(
                                        [
                                            html.Div([html.H3(title), html.Div(id=name, **{"aria-live": "polite"})])
                                            for name, title in ANSWERS.items()
                                        ],
                                        className="answers",
                                    ),
                                    dcc.Graph(
                                        id="map",
                                        config={"displayModeBar": False, "responsive": True},
                                        style={"height": "460px"},
                                    ),
                                    html.P(id="map-caption", className="quiet"),
                                    html.Div(id="notes"),
                                ],
                                className="shown",
                            ),
                        ],
                        className="explore",
                    ),
                ],
                id="explore",
                hidden=True,
            ),
            html.Section(
                [
                    html.H2("4. Be sure, go on, take away"),
                    html.P(
                        "Moves show doubt from laws gathered after the fit, which comes close to the full intervals. "
                        "The full plan walks along the profile at the plan itself, as the command line does."
                    ),
                    button("exact", "Full plan"),
                    html.Div(id="exact-result", **{"aria-live": "polite"}),
                    html.Div(
                        [
                            field(
                                "compute for the next experiments (FLOP)",
                                "budget",
                                dcc.Input(id="budget", type="text", value="", autoComplete="off"),
                                "as in: 1e20",
                            ),
                            button("suggest", "Suggest next experiments"),
                        ],
                        className="fields",
                    ),
                    html.Div(id="cells", **{"aria-live": "polite"}),
                    html.Div(
                        [
                            button("download-target", "Download target.json"),
                            button("download-source", "Download source.json"),
                            button("download-cells", "Download cells.csv"),
                            button("download-report", "Make and download report.html"),
                        ],
                        className="buttons",
                    ),
                ],
                id="take",
                hidden=True,
            ),
        ]
    )
