"""The runs table: checked measurements, and the few ways to pick from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from cptlaw.errors import DataError, UsageError, did_you_mean, quote, require_type
from cptlaw.findings import Finding
from cptlaw.result import Line, as_html, as_text
from cptlaw.runs.dataframe import TableLike, to_polars
from cptlaw.runs.fingerprint import fingerprint
from cptlaw.runs.metrics import score_evals
from cptlaw.runs.naming import missing_column
from cptlaw.runs.problems import Problems
from cptlaw.runs.repeats import copies
from cptlaw.runs.schema import COLUMNS, column_of, corpus_of, mix_columns
from cptlaw.runs.summary import describe_levels, factor_table, summary_lines
from cptlaw.runs.where import find_column, parse
from cptlaw.runs.within import correlation_with_replay

if TYPE_CHECKING:
    import polars

Role = Literal["source", "target", "other"]
CLEAR = 0.4  # correlation of loss and replay, from which it tells the role of an eval


# Two DataFrames have no single truth value to compare by; `fingerprint` tells equal runs.
@dataclass(frozen=True, eq=False, repr=False)
class Runs:
    """Checked measurements of continual pre-training runs, one row per measured loss.

    Made by `cptlaw.runs.read_runs`; every method returns new runs and leaves these as they are.

    Parameters
    ----------
    frame
        The rows. Canonical columns come first: numbers as float64, text (``run``, ``eval``, ``domain``, ..) as
        categories; then all other columns as they were found. The index, named ``row``, holds the row of the source
        that messages name. It is shared and must not be modified: take a copy.
    path
        The file, if there is one.
    roles
        Eval -> ``"source"`` or ``"target"``, for evals that are not called so.
    n_params_kind
        ``"non_embedding"``, ``"total"``, or ``None`` where nothing tells.
    notes
        What was assumed on reading, for the user to be told once.
    assumed
        The columns (``run``, ``eval``) that the source lacks and that were filled in.
    read_with
        The options of the command line, besides the roles, that read the file as these runs.
    accounted_for
        Columns of the file that are not canonical, and about which nothing is left to ask.
    all_runs
        Whether runs count that did not finish, and all of a sweep of rates rather than the best of each cell.
    """

    frame: pd.DataFrame
    path: Path | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    n_params_kind: str | None = None
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    read_with: tuple[str, ...] = ()
    accounted_for: frozenset[str] = frozenset()
    all_runs: bool = False

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return as_text(self.title, self.lines)

    def _repr_html_(self) -> str:
        return as_html(self.title, self.lines)

    @property
    def label(self) -> str:
        """What stands for the table in messages: the file, or ``DataFrame``."""
        return "DataFrame" if self.path is None else str(self.path)

    @property
    def evals(self) -> tuple[str, ...]:
        """The names of all evals, sorted."""
        return tuple(str(name) for name in self.frame["eval"].cat.categories)

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora of the mix, in the order of the columns ``mix_NAME``; empty where there are none."""
        return tuple(str(corpus_of(name)) for name in mix_columns(self.frame.columns))

    @property
    def domains(self) -> list[str]:
        """The corpora that the runs were adapted to, as column ``domain`` names them, sorted; empty without it."""
        if "domain" not in self.frame.columns:
            return []
        adapted = self.frame["tokens"] != 0 if "tokens" in self.frame.columns else self.frame["domain"].notna()
        return sorted(self.frame.loc[adapted, "domain"].dropna().astype(str).unique())

    def role(self, eval: str) -> Role:
        """Return the role of an eval: its name where that is a role, else as given on reading, else ``"other"``."""
        named: dict[str, Role] = {"source": "source", "target": "target"}
        return named.get(eval) or self.roles.get(eval, "other")

    def eval_label(self, eval: str) -> str:
        """Return an eval's name with its role in brackets, where the name is not the role."""
        return eval if self.role(eval) in (eval, "other") else f"{eval} ({self.role(eval)})"

    def resolve_eval(self, on: str | None, role: Role | None = None) -> str:
        """Return the eval that is meant: the one that is named, else the only one, else that of a role.

        Raises
        ------
        UsageError
            With the evals that there are, where none of these tells.
        """
        if on is not None:
            require_type(on, str, "on=", f"an eval, one of {', '.join(self.evals)}")
            return on
        if len(self.evals) == 1:
            return self.evals[0]
        if role is not None and any(self.role(name) == role for name in self.evals):
            return role
        raise UsageError(f"{self.label}: say which eval is meant, on= (--on EVAL), one of {', '.join(self.evals)}.")

    def with_inferred_role(self, eval: str) -> Runs:
        """Return the runs with the roles that an eval and those beside it show by their behaviour, where nobody told.

        The loss on the target corpus rises with replay between runs that are alike else, that on the source corpus
        falls; where neither is clear, or several beside the eval show one role, that stays ``"other"``. A fit, which
        reads the other loss too, is then the same whether evals were named or their roles, or one of these.
        """
        # A score is no loss of either corpus, and would be taken for one by laws of the other.
        losses = [name for name in self.evals if name not in self.scores]
        eval = next((name for name in losses if eval == self.role(name)), eval)
        taken = {self.role(name) for name in self.evals}
        if eval not in losses or {"source", "target"} <= taken:
            return self
        open_ = [name for name in losses if self.role(name) == "other"]
        together = {name: correlation_with_replay(self.on(name).frame) or 0.0 for name in open_}
        roles = dict(self.roles)
        sides: tuple[tuple[Role, float], ...] = (("source", -1.0), ("target", 1.0))
        for role, sign in sides:
            shown = [name for name in open_ if sign * together[name] >= CLEAR and role not in taken]
            roles |= dict.fromkeys([eval] if eval in shown else shown[: len(shown) == 1], role)
        return replace(self, roles=roles)

    @property
    def scores(self) -> Mapping[str, str]:
        """Evals that are scores, such as accuracy, with their metric; all others are losses."""
        return score_evals(self.frame)

    def without_copies(self) -> tuple[Runs, list[Finding]]:
        """Return the runs without those that repeat another one to the last digit, and what to say of them.

        A rerun ends at another loss, whatever its seed: one table twice is no more evidence than once.
        """
        copied = copies(self.frame)
        if not copied.any():
            return self, []
        names = self.frame.loc[copied, "run"].astype(str).unique()
        message = (
            f"{len(names)} runs repeat others in every digit and count once, as {names[0]!r} does "
            f"({int(copied.sum())} rows)."
        )
        advice = "No two seeds end at one loss: if they are runs of their own, give their losses with all digits."
        return self.keep(~copied.to_numpy(dtype=np.bool_)), [Finding("warning", "copied-runs", message, advice)]

    def with_roles(
        self, source_eval: str | None = None, target_eval: str | None = None, n_params_kind: str | None = None
    ) -> Runs:
        """Return the same runs with other roles.

        Parameters
        ----------
        source_eval, target_eval
            The evals that are the source and the target; ``None`` leaves the role as it is.
        n_params_kind
            ``"non_embedding"`` or ``"total"``; ``None`` leaves it as it is.

        Raises
        ------
        UsageError
            If an eval does not exist, or a role would go to two evals.
        """
        roles = dict(self.roles)
        given: dict[Role, str | None] = {"source": source_eval, "target": target_eval}
        for role, name in given.items():
            if name is None:
                continue
            if name not in self.evals:
                raise UsageError(f"{role}_eval: {self._no_eval(name)}")
            if name == role:
                continue
            if name in ("source", "target") or role in self.evals:
                named = name if name in ("source", "target") else role
                raise UsageError(
                    f"{role}_eval={name!r}: there is an eval called {named!r}, whose role is its name. "
                    f"Leave {role}_eval out, or rename that eval."
                )
            roles = {other: taken for other, taken in roles.items() if taken != role}
            roles[name] = role
        if source_eval is not None and source_eval == target_eval:
            raise UsageError(f"source_eval and target_eval are both {source_eval!r}. Expected two different evals.")
        return replace(self, roles=roles, n_params_kind=n_params_kind or self.n_params_kind)

    def where(self, query: str) -> Runs:
        """Return the rows that answer a filter.

        Parameters
        ----------
        query
            Such as ``'ptpp <= 31 and replay in (0.1, 0.25)'``; `cptlaw.runs.where` gives the language.

        Raises
        ------
        UsageError
            If the filter cannot be read, or leaves no row.

        Examples
        --------
        >>> from cptlaw.runs import read_runs
        >>> table = pd.DataFrame({"run": ["a", "b"], "loss": [2.5, 2.0], "ptpp": [15, 279]})
        >>> len(read_runs(table).where("ptpp <= 31"))
        1
        """
        condition = parse(query)
        mask = condition.mask(self.frame)
        if mask.any():
            return self.keep(mask)
        columns = {name: find_column(self.frame, name) for name in condition.columns}
        levels = "; ".join(f"{name}: {describe_levels(level)}" for name, level in columns.items() if level is not None)
        raise UsageError(f"{self.label}: no row answers {quote(query)}. Of {len(self)} rows, the levels are {levels}.")

    def on(self, eval: str) -> Runs:
        """Return the rows of one eval.

        Parameters
        ----------
        eval
            The name of an eval, or ``"source"`` or ``"target"`` for the eval of that role.

        Raises
        ------
        DataError
            If there is no such eval.
        """
        name = eval
        if name not in self.evals:
            name = next((other for other in self.evals if self.role(other) == eval), eval)
        if name not in self.evals:
            raise DataError(f"{self.label}: {self._no_eval(eval)}")
        return self.keep((self.frame["eval"] == name).to_numpy(dtype=np.bool_))

    def base_losses(self, eval: str) -> pd.DataFrame:
        """Return the losses of the base models: the rows of one eval with ``tokens`` = 0, seeds averaged.

        Parameters
        ----------
        eval
            As for `on`.

        Returns
        -------
        DataFrame
            Columns ``n_params``, ``ptpp``, ``loss``, one row per base model, sorted; NaN where a column is not there.
            Where base rows name their ``domain``, so does the result. No row where no base loss was measured.

        Raises
        ------
        DataError
            If there is no such eval.
        """
        # reindex gives a column of NaN for one that is not there.
        frame = self.on(eval).frame.reindex(columns=["n_params", "ptpp", "domain", "tokens", "loss"])
        base = frame[frame["tokens"] == 0]
        if base.empty:  # as mostly, and the grouping of nothing takes longer than a small fit
            return pd.DataFrame({"n_params": [], "ptpp": [], "loss": []}, dtype=np.float64)
        keys = ["n_params", "ptpp"] + (["domain"] if base["domain"].notna().any() else [])
        return base.groupby(keys, dropna=False, observed=True, as_index=False).agg({"loss": "mean"})

    def adapted(self) -> Runs:
        """Return the rows of adapted models: all but those with ``tokens`` = 0.

        Rows whose tokens are missing stay, for `require` to complain about.

        Raises
        ------
        DataError
            If there is no such row.
        """
        if "tokens" not in self.frame.columns:
            return self
        mask = (self.frame["tokens"] != 0).to_numpy(dtype=np.bool_)
        if not mask.any():
            raise DataError(
                f"{self.label}: all {len(self)} rows have tokens = 0, which are losses of base models. "
                "Expected losses measured during continual pre-training too."
            )
        return self.keep(mask)

    def require(self, columns: Sequence[str], skip_base: bool = False) -> None:
        """Make sure that every row has a value in each of some columns.

        Parameters
        ----------
        columns
            Canonical columns, or others of the table.
        skip_base
            Whether rows with ``tokens`` = 0 may lack values.

        Raises
        ------
        DataError
            Naming the column that is not there, or the rows without a value.
        """
        problems = Problems(self.label)
        # Base models were trained at no replay and under no schedule of CPT.
        exempt = np.zeros(len(self), dtype=np.bool_)
        if skip_base and "tokens" in self.frame.columns:
            exempt = (self.frame["tokens"] == 0).to_numpy(dtype=np.bool_)
        for name in columns:
            if name not in self.frame.columns:
                raise missing_column(name, map(str, self.frame.columns), self.label)
            cells = self.frame[name]
            expected = column_of(name).expected if name in COLUMNS or corpus_of(name) else "a value"
            how = f", --where '{name} >= 0'" if name in COLUMNS and COLUMNS[name].numeric else ""
            remedy = f"Fill in the value, or leave these rows out with a filter{how}."
            missing = cells.isna().to_numpy(dtype=np.bool_) & ~exempt
            problems.add_rows(f"column {name!r}", cells, missing, expected, remedy)
        problems.raise_if_any()

    def summary(self) -> pd.DataFrame:
        """Return one row per factor (number column): ``levels``, ``min``, ``max``, ``missing``."""
        return factor_table(self.frame)

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """What checks of these rows returned, by check: computed once, however many fits are made of them."""
        return {}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the canonical columns, the same for any order of the rows and any path.

        Names of runs that were made up from row numbers and ``n_params_kind``, which may be given apart from the
        table, do not count.
        """
        # Else the same table would be another one because of how its rows were numbered.
        skipped = {"n_params_kind", *(name for name in self.assumed if name == "run")}
        columns = (*(name for name in COLUMNS if name not in skipped), *mix_columns(self.frame.columns))
        return fingerprint(self.frame, columns)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a DataFrame of polars, missing values as null.

        Raises
        ------
        UsageError
            If polars is not installed.
        """
        return to_polars(self.frame)

    @property
    def title(self) -> str:
        """What it is, in one line."""
        n_runs = len(self.frame["run"].cat.categories)
        where = "a DataFrame" if self.path is None else self.path.name
        return f"Runs: {len(self)} rows, {n_runs} run{'s' * (n_runs != 1)}, from {where}"

    @property
    def lines(self) -> list[Line]:
        """Evals, levels of the inputs and range of the losses: labels and texts."""
        return summary_lines(self.frame, map(self.eval_label, self.evals), self.n_params_kind)

    def _no_eval(self, eval: str) -> str:
        listed = ", ".join(map(repr, self.evals))
        if eval in ("source", "target"):
            return (
                f"no eval has the role {eval!r}. Evals found: {listed}. Say which one it is with "
                f"{eval}_eval= (--{eval}-eval)."
            )
        return f"no eval {eval!r}.{did_you_mean(eval, self.evals)} Evals found: {listed}."

    def without_empty_columns(self) -> Runs:
        """Return the runs without the columns of the schema in which no row says anything."""
        empty = [name for name in self.frame.columns if name in COLUMNS and self.frame[name].isna().all()]
        return replace(self, frame=self.frame.drop(columns=empty)) if empty else self

    def keep(self, mask: npt.NDArray[np.bool_]) -> Runs:
        """Return the rows of a mask, (n,)."""
        if mask.all():
            return self
        frame = self.frame[mask]
        # Else every group-by and list of levels would still speak of what was filtered out.
        narrowed = {
            name: frame[name].cat.remove_unused_categories()
            for name in frame.columns
            if isinstance(frame[name].dtype, pd.CategoricalDtype)
        }
        return replace(self, frame=frame.assign(**narrowed))


RunsLike: TypeAlias = Runs | TableLike | str | Path  # what `read_runs` reads
