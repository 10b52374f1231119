"""Laws as estimators of scikit-learn, and a splitter that trains on one end and tests on the other.

>>> from cptlaw.sklearn import LawRegressor, OrderedGroupSplit
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cptlaw.errors import CptlawError, needed_for
from cptlaw.forecasting.verbs import fit
from cptlaw.laws import law
from cptlaw.runs import read_runs

with needed_for("cptlaw.sklearn", "scikit-learn"):
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.model_selection import BaseCrossValidator
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["LawRegressor", "OrderedGroupSplit"]


class LawRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc, unused-ignore]
    """A scaling law as a regressor: losses from sizes, tokens, replay and budgets.

    Parameters
    ----------
    law
        Name of a law, with options as ``"ptpp-gate"`` or ``"chinchilla:bend=2"``.
    role
        ``"target"`` or ``"source"``: which loss it is, for laws that tell them apart.
    inputs
        Names of the columns of X where it is an array; the inputs of the law, in its order, where not given. A data
        frame brings its own names.
    starts
        Of the global search.
    delta
        Of the Huber loss on log residuals.
    random_state
        Seed of the starts.

    Attributes
    ----------
    fit_ : cptlaw.Fit
        The fit, with parameters, findings and intervals.
    n_features_in_ : int
        Columns of X.

    Notes
    -----
    A law holds on positive inputs and positive losses alone. tests/test_sklearn.py lists the checks of
    scikit-learn that feed it others, each with the reason.

    Examples
    --------
    >>> import cptlaw as cl
    >>> rows = cl.examples.load("en-fr-pilot").on("target").frame
    >>> rows = rows[(rows["tokens"] > 0) & (rows["replay"] > 0)]
    >>> model = LawRegressor("ptpp-floor").fit(rows[["n_params", "tokens", "replay", "ptpp"]], rows["loss"])
    >>> model.fit_.status
    'converged'
    """

    def __init__(
        self,
        law: str = "chinchilla",
        *,
        role: str = "target",
        inputs: tuple[str, ...] | None = None,
        starts: int = 64,
        delta: float = 1e-3,
        random_state: int = 0,
    ):
        self.law, self.role, self.inputs = law, role, inputs
        self.starts, self.delta, self.random_state = starts, delta, random_state

    def __sklearn_tags__(self) -> object:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.target_tags.required = True
        return tags

    def fit(self, X: object, y: object, groups: object = None) -> Self:
        """Fit the law.

        Parameters
        ----------
        X
            (rows, inputs): a data frame with the columns of the law, or an array whose columns `inputs` names.
        y
            Losses, (rows,), above 0.
        groups
            The run of each row, where points of one run belong together; each row is a run of its own where not given.

        Raises
        ------
        ValueError
            If a column is missing, or the rows cannot determine the law.
        """
        values, y = validate_data(self, X, y, y_numeric=True, dtype="numeric", ensure_min_samples=2)
        frame = self._frame(X, values)
        losses = np.asarray(y, dtype=float)
        if (losses <= 0).any():
            raise ValueError("losses of 0 or less: a cross-entropy is above 0.")
        runs = np.arange(len(frame)).astype(str) if groups is None else np.asarray(groups).astype(str)
        table = frame.assign(run=runs, eval=self.role, loss=losses)
        try:
            table_ = read_runs(table, n_params_kind="non_embedding")
            # An estimator learns from X and y alone: what other studies say would be data that no fold holds out.
            self.fit_ = fit(
                self.law,
                table_,
                on=self.role,
                delta=self.delta,
                starts=self.starts,
                seed=self.random_state,
                restraint="none",
            )
        except CptlawError as error:
            raise ValueError(str(error)) from error
        return self

    def predict(self, X: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the loss at each row, (rows,)."""
        check_is_fitted(self)
        values = validate_data(self, X, reset=False, dtype="numeric")
        frame = self._frame(X, values)
        try:
            forecast = self.fit_.predict(frame.assign(eval=self.role))
        except CptlawError as error:
            raise ValueError(str(error)) from error
        return np.asarray(forecast, dtype=float)

    def _frame(self, X: Any, values: Any) -> pd.DataFrame:
        """Return X under the names of the law's inputs; `values` are its numbers, as scikit-learn has checked them."""
        if (np.asarray(values) < 0).any():
            raise ValueError("Negative values in data passed to LawRegressor: sizes, tokens and shares have none.")
        if isinstance(X, pd.DataFrame):
            return X.reset_index(drop=True)
        names = self.inputs or _inputs_of(self.law)
        if values.shape[1] != len(names):
            raise ValueError(
                f"X has {values.shape[1]} features, but {self.law} reads {len(names)}: {', '.join(names)}. Name the "
                "columns with `inputs`, or give a data frame."
            )
        return pd.DataFrame(np.asarray(values, dtype=float), columns=list(names))


def _inputs_of(name: str) -> tuple[str, ...]:
    try:
        return tuple(law(name).inputs)
    except CptlawError as error:
        raise ValueError(str(error)) from error


class OrderedGroupSplit(BaseCrossValidator):  # type: ignore[misc, unused-ignore]
    """Train on the lower levels of a column, test on the next: extrapolation, as it will be used.

    Groups are levels such as sizes or budgets. Fold k trains on the first levels and tests on the next one up, so that
    no fold ever sees what lies beyond what it is tested on. Rows of one level are never on both sides.

    Parameters
    ----------
    n_splits
        Folds; the last ones where there are more levels. As many as the levels allow where not given.
    min_train_groups
        Levels of the first training set at least.
    descending
        Whether to train on the upper end and test downward.

    Examples
    --------
    >>> X, sizes = np.arange(6).reshape(-1, 1), [10, 10, 20, 20, 30, 40]
    >>> [(train.tolist(), test.tolist()) for train, test in OrderedGroupSplit().split(X, groups=sizes)]
    [([0, 1, 2, 3], [4]), ([0, 1, 2, 3, 4], [5])]
    """

    def __init__(self, n_splits: int | None = None, *, min_train_groups: int = 2, descending: bool = False):
        if n_splits is not None and n_splits < 1:
            raise ValueError(f"n_splits={n_splits}: expected 1 or more.")
        if min_train_groups < 1:
            raise ValueError(f"min_train_groups={min_train_groups}: expected 1 or more.")
        self.n_splits, self.min_train_groups, self.descending = n_splits, min_train_groups, descending

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of folds."""
        return len(self._tested(groups))

    def split(
        self, X: ArrayLike | pd.DataFrame, y: object = None, groups: object = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the rows of each training set and of its test set.

        Parameters
        ----------
        X, y
            Not looked at.
        groups
            The level of each row: numbers, or words in their order.
        """
        levels = np.asarray(groups) if groups is not None else None
        for level in self._tested(groups):
            assert levels is not None
            before = levels > level if self.descending else levels < level
            yield np.flatnonzero(before), np.flatnonzero(levels == level)

    def _tested(self, groups: object) -> list[object]:
        if groups is None:
            raise ValueError("The 'groups' parameter should not be None: give the level of each row, such as its size.")
        levels = np.unique(np.asarray(groups))
        if self.descending:
            levels = levels[::-1]
        tested = levels[self.min_train_groups :]
        if not len(tested):
            raise ValueError(f"{len(levels)} levels: expected {self.min_train_groups + 1} or more, to test on one.")
        result: list[object] = tested.tolist()
        return result if self.n_splits is None else result[-self.n_splits :]
