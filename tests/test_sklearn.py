"""Laws in scikit-learn: its own checks, and what those that cannot be passed ask for, on inputs that a law has."""

import pickle

import numpy as np
import pytest

import cptlaw as cl

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from cptlaw.sklearn import LawRegressor, OrderedGroupSplit

pytestmark = pytest.mark.filterwarnings("default")  # scikit-learn warns of checks that it skips


_COLUMNS = "feeds tables of any number of columns; a law reads its own inputs, and refuses others"
_NUMBERS = "feeds sizes and tokens of 0; a law reads counts above 0"

# Checks of scikit-learn that a law cannot pass as they stand, with the reason. What they ask for is tested below on
# inputs that a law has.
EXPECTED_FAILED_CHECKS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("check_fit_score_takes_y", "check_dont_overwrite_parameters", "check_n_features_in_after_fitting"),
            *("check_estimators_dtypes", "check_dtype_object", "check_pipeline_consistency"),
            *("check_estimators_nan_inf", "check_estimators_pickle", "check_f_contiguous_array_estimator"),
            *("check_regressors_train", "check_regressor_data_not_an_array", "check_regressors_no_decision_function"),
            *("check_supervised_y_2d", "check_regressors_int", "check_methods_sample_order_invariance"),
            *("check_methods_subset_invariance", "check_fit2d_1feature", "check_dict_unchanged"),
            "check_fit2d_predict1d",
        ),
        _COLUMNS,
    ),
    **dict.fromkeys(
        (
            *("check_estimators_overwrite_params", "check_estimators_fit_returns_self", "check_readonly_memmap_input"),
            *("check_fit_idempotent", "check_fit_check_is_fitted", "check_n_features_in"),
        ),
        _NUMBERS,
    ),
}


@parametrize_with_checks(
    [LawRegressor(starts=4)], expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS, xfail_strict=True
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def chinchilla_rows(noise=0.0):
    draw = np.random.default_rng(0)
    n = np.repeat([1e7, 3e7, 1e8, 3e8, 1e9], 6)
    d = np.tile(np.geomspace(1e9, 1e11, 6), 5)
    loss = 1.7 + 400 * n**-0.34 + 410 * d**-0.28
    return np.column_stack([n, d]), loss * np.exp(noise * draw.normal(size=len(n)))


def test_what_the_left_out_checks_ask_for_holds_on_inputs_of_a_law():
    X, y = chinchilla_rows(0.002)
    model = LawRegressor(starts=8)
    assert model.fit(X, y) is model
    assert model.n_features_in_ == 2
    first = model.predict(X)
    assert first.shape == (30,)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), first)  # idempotent
    np.testing.assert_array_equal(model.predict(X[::-1])[::-1], first)  # order of rows
    np.testing.assert_array_equal(np.concatenate([model.predict(X[:7]), model.predict(X[7:])]), first)  # subsets
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), first)
    np.testing.assert_array_equal(model.predict(np.asfortranarray(X)), first)
    np.testing.assert_array_equal(model.predict(X.astype(object)), first)
    assert model.get_params()["starts"] == 8
    with pytest.raises(ValueError, match="reads 2: n_params, tokens"):
        model.fit(np.column_stack([X, X]), y)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(np.where(np.arange(60).reshape(30, 2) == 7, bad, X), y)
    with pytest.raises(ValueError, match=r"expected a 2-dimensional|Expected 2D array"):
        model.predict(X[0])
    with pytest.raises(ValueError, match="above 0"):
        model.fit(X, y - 10)
    with pytest.raises(ValueError, match="no law"):
        LawRegressor("chinchila").fit(X, y)


def test_a_law_in_a_pipeline_a_search_and_ordered_folds():
    X, y = chinchilla_rows(0.002)
    pipeline = Pipeline([("raw", FunctionTransformer(lambda x: x * 1.0)), ("law", LawRegressor(starts=8))])
    scores = cross_val_score(
        pipeline, X, y, cv=OrderedGroupSplit(), groups=X[:, 0], scoring="neg_mean_absolute_percentage_error"
    )
    assert len(scores) == 3
    assert scores.min() > -0.01  # forecasts of larger models within a percent
    search = GridSearchCV(
        LawRegressor(starts=8), {"law": ["chinchilla", "kaplan"]}, cv=OrderedGroupSplit(2),
        scoring="neg_mean_absolute_percentage_error",
    )  # fmt: skip
    search.fit(X, y, groups=X[:, 0])
    assert search.best_params_ == {"law": "chinchilla"}


def test_a_frame_brings_its_own_names():
    rows = cl.examples.load("en-fr-pilot").on("target").frame
    rows = rows[(rows["tokens"] > 0) & (rows["replay"] > 0)]
    X = rows[["ptpp", "replay", "tokens", "n_params"]]
    model = LawRegressor("ptpp-floor", starts=16).fit(X, rows["loss"], groups=rows["run"])
    assert model.fit_.n_runs == rows["run"].nunique()
    np.testing.assert_array_equal(model.predict(X), model.fit_.predict(rows))


@pytest.mark.parametrize("descending", [False, True])
def test_folds_never_see_what_lies_beyond_their_test(descending):
    groups = np.array([3, 1, 2, 2, 5, 4, 1, 5])
    folds = list(OrderedGroupSplit(min_train_groups=2, descending=descending).split(groups, groups=groups))
    assert len(folds) == 3 == OrderedGroupSplit(descending=descending).get_n_splits(groups=groups)
    for train, test in folds:
        assert len(set(groups[test])) == 1
        inside = groups[train] > groups[test][0] if descending else groups[train] < groups[test][0]
        assert inside.all()
    with pytest.raises(ValueError, match="expected 3 or more"):
        list(OrderedGroupSplit().split(groups[:2], groups=[1, 2]))
    with pytest.raises(ValueError, match="groups"):
        list(OrderedGroupSplit().split(groups))
