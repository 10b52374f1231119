"""A comparison as an answer: the frame that the library promises, which prints like every other answer."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from cptlaw.findings import Finding, by_severity
from cptlaw.fitting.uncertainty.answers import AnswerFrame
from cptlaw.forecasting.backtest.baselines import BASELINES
from cptlaw.forecasting.backtest.metrics import METRICS
from cptlaw.result import Line, Result, Table, plain
from cptlaw.units import format_percent

COLUMNS = ("law", *METRICS, "coverage_90", "regret", "n_fit", "n_test", "n_params_free", "difference", "difference_se",
           "diagnostics", "findings")  # fmt: skip
ORACLE = "ptpp-oracle"  # fitted on the test rows: a bound, and never the best forecast
SCORES = {
    **dict.fromkeys(("huber_log", "rmse_log", "mae_rel", "mape_clip"), "{:.3g}".format),
    **dict.fromkeys(("intercept", "slope", "r2"), "{:.3f}".format),
    **dict.fromkeys(("difference", "difference_se"), "{:.2g}".format),
    "coverage_90": format_percent,
    "regret": "{:.2%}".format,
}
SHOWN_SCORES = ("law", "huber_log", "mae_rel", "coverage_90", "regret", "slope", "n_fit", "n_test", "n_params_free",
                "difference", "difference_se")  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Result):
    """Laws scored by their forecasts."""

    frame: pd.DataFrame

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands against laws, once with the laws that it concerns, the worst first."""
        of_law: dict[Finding, list[str]] = {}
        for row in self.frame.to_dict("records"):
            for finding in row["findings"]:
                of_law.setdefault(finding, []).append(str(row["law"]))
        return by_severity(
            Finding(result.severity, result.code, f"{', '.join(laws)}: {result.message}", result.advice)
            for result, laws in of_law.items()
        )

    @property
    def best(self) -> str:
        """The law that forecasts best: the first that is no bound."""
        names = [str(name) for name in self.frame["law"]]
        return next((name for name in names if name != ORACLE), names[0])

    @property
    def best_law(self) -> str | None:
        """The best that can be fitted: no bound, and no forecast without a law; None where none could be scored."""
        scored = self.frame[self.frame["mae_rel"].notna()]
        return next((str(name) for name in scored["law"] if name not in (ORACLE, *BASELINES)), None)

    @property
    def title(self) -> str:
        """Which law forecasts best."""
        row = self.frame[self.frame["law"] == self.best].iloc[0]
        if row["mae_rel"] != row["mae_rel"]:
            return "No law could be scored"
        error = f"{format_percent(row['mae_rel'])} off on average on {row['n_test']} test points"
        return f"{self.best} forecasts best: {error}"

    @property
    def lines(self) -> list[Line]:
        """What stands against each law, in short."""
        return [(str(row["law"]), row["diagnostics"]) for row in self.frame.to_dict("records") if row["diagnostics"]]

    @property
    def tables(self) -> list[Table]:
        """The scores."""
        note = (
            "mae_rel: mean relative error; coverage_90: share inside the 90% interval; regret: lost by choosing by the "
            "forecast; difference: how far huber_log is behind the best, and its standard error"
        )
        # Where the rows hold no decision, or no law gave intervals, an empty column would only puzzle.
        shown = [name for name in SHOWN_SCORES if name in self.frame and self.frame[name].notna().any()]
        return [Table.of(self.frame[shown], SCORES, "", note)]

    def to_dict(self) -> dict[str, object]:
        """Return the promised rows."""
        result: dict[str, object] = plain({"rows": self.frame})
        return result


class ComparisonFrame(AnswerFrame):
    """Scores of laws, best first; `answer` has them as text, page and JSON."""

    @property
    def answer(self) -> Comparison:
        """The scores in title, lines, tables and findings."""
        return Comparison(self)
