"""Doubt where data says little: saturated fits, priors that count, joint distance, quantiles of one trace."""

import numpy as np
import pandas as pd
import pytest
from facts import refused
from scipy.optimize import nnls

import cptlaw as cl
from cptlaw.fitting.checking.distance import directions_of, outside, unseen, worst
from cptlaw.fitting.learned import leaving_out, numbers, studies
from cptlaw.fitting.learned.priors import learned_prior, pooled
from cptlaw.fitting.solving.components import base_models, components, non_negative_solution, orthonormal
from cptlaw.fitting.solving.huber import NOISE_FLOOR, normal_weight
from cptlaw.fitting.solving.identifiability import jacobian
from cptlaw.fitting.uncertainty.discrepancy import Scale, discrepancy, usual_rate
from cptlaw.fitting.uncertainty.inner_rollouts import inner_rollouts
from cptlaw.fitting.uncertainty.profile import profiles
from cptlaw.laws import law

TRUTH = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.37}
FAR = {"n_params": [7e9], "tokens": [1.4e11]}


def runs(count, noise=0.004, seed=0):
    rng = np.random.default_rng(seed)
    size = 10 ** rng.uniform(8, 9.5, count)
    frame = pd.DataFrame({"run": [f"r{i}" for i in range(count)], "n_params": size})
    frame["tokens"] = size * 10 ** rng.uniform(0.7, 2.0, count)
    return frame.assign(loss=law("chinchilla").predict(TRUTH, frame) * np.exp(noise * rng.standard_normal(count)))


def codes(findings):
    return {(finding.severity, finding.code) for finding in findings}


def test_a_saturated_fit_has_width_and_its_priors_count():
    data = runs(5)
    free = cl.fit("chinchilla", data, on="target", starts=16, restraint="none")
    held = cl.fit(
        "chinchilla", data, on="target", starts=16, prior=["E=1.8:0.02", "alpha=0.35:0.1:log"], restraint="none"
    )
    widths = []
    for fit in (free, held):
        row = fit.forecast(FAR).iloc[0]
        assert row["lo"] < row["loss"] < row["hi"]
        widths.append(np.log(row["hi"] / row["lo"]))
    assert fit.prior_weight >= 0.1 * normal_weight(NOISE_FLOOR, law("chinchilla").delta)
    assert widths[0] > 2 * NOISE_FLOOR
    assert widths[1] < 0.8 * widths[0]
    assert abs(held.params["E"] - 1.8) < abs(free.params["E"] - 1.8) + 1e-9


def test_fewer_rows_than_parameters_fit_with_priors():
    priors = ["alpha=0.35:0.3:log", "beta=0.35:0.3:log", "E=0.7:0.2:share", "A=0.15:0.8:share", "B=0.15:0.8:share"]
    fit = cl.fit("chinchilla", runs(4), on="target", prior=priors, restraint="none")
    row = fit.forecast(FAR).iloc[0]
    truth = float(law("chinchilla").predict(TRUTH, pd.DataFrame(FAR))[0])
    assert row["lo"] < truth < row["hi"]
    assert 0.2 < fit.params["alpha"] < 0.6


def test_a_file_keeps_what_priors_count(tmp_path):
    fit = cl.fit(
        "chinchilla",
        runs(6),
        on="target",
        starts=16,
        prior={"alpha": (0.3, 0.01), "beta": (0.36, 0.01)},
        restraint="none",
    )
    again = cl.load_fit(fit.save(tmp_path / "fit.json"))
    assert again.prior_weight == fit.prior_weight
    assert again.forecast(FAR)["hi"].tolist() == pytest.approx(fit.forecast(FAR)["hi"].tolist())


def test_log_and_share_priors_survive_the_file_and_refuse_nonsense(tmp_path):
    fit = cl.fit(
        "chinchilla", runs(12), on="target", starts=8, prior=["alpha=0.35:0.3:log", "A=0.1:0.8:share"], restraint="none"
    )
    again = cl.load_fit(fit.save(tmp_path / "fit.json"))
    assert again.options.restraint.priors == fit.options.restraint.priors
    with refused(cl.UsageError, "--prior alpha", "E, A, B"):
        cl.fit("chinchilla", runs(12), on="target", prior=["alpha=0.35:0.3:share"], restraint="none")
    with refused(cl.UsageError, "--prior alpha=-1", "logarithm"):
        cl.fit("chinchilla", runs(12), on="target", prior=["alpha=-1:0.3:log"], restraint="none")
    with refused(cl.UsageError, "'lg'", "'log'"):
        cl.fit("chinchilla", runs(12), on="target", prior=["alpha=1:0.3:lg"], restraint="none")


def test_quantiles_come_from_one_trace_and_are_the_interval():
    fit = cl.fit("chinchilla", runs(30), on="target", starts=8, restraint="none")
    frame = pd.DataFrame({"n_params": [7e9, 7e9], "tokens": [1.4e11, 1e12]})
    found = np.exp(fit.log_quantiles(frame, [0.05, 0.25, 0.5, 0.75, 0.95])).T
    table = fit.forecast(frame, 0.9)
    assert found[:, [0, 2, 4]] == pytest.approx(table[["lo", "loss", "hi"]].to_numpy(), rel=1e-12)
    assert np.all(np.diff(found, axis=1) > 0)
    fresh = cl.fit("chinchilla", runs(30), on="target", starts=8, restraint="none").forecast(frame, 0.5)
    assert np.log(found[:, 3] / found[:, 1]) == pytest.approx(np.log(fresh["hi"] / fresh["lo"]), rel=0.1)
    inner = np.exp(fit.log_quantiles(frame, [0.05, 0.95], measured=False)).T
    assert np.all(inner[:, 0] > found[:, 0])
    assert np.all(inner[:, 1] < found[:, 4])


def test_distance_is_joint():
    fitted = pd.DataFrame({"n_params": [1e8, 1e9, 1e8, 1e9], "tokens": [2e9, 2e10, 4e9, 4e10]})
    asked = pd.DataFrame({"n_params": [1e8, 3e8], "tokens": [4e10, 9e9]})
    directions = directions_of(["n_params", "tokens"])
    found = dict(zip([d.name for d in directions], outside(fitted, asked, directions).T, strict=True))
    assert found["n_params"].tolist() == [0, 0]
    assert found["tokens"].tolist() == [0, 0]
    assert found["tokens_per_param"] == pytest.approx([np.log(10), 0])
    assert worst(fitted, asked, directions) == pytest.approx([np.log(10), 0])


def test_far_in_tokens_per_parameter_is_a_warning_though_both_inputs_are_inside():
    data = runs(30)
    data = data[data["tokens"] / data["n_params"] < 40]
    fit = cl.fit("chinchilla", data, on="target", starts=4, restraint="none")
    size = float(data["n_params"].min()) * 1.01
    row = fit.forecast({"n_params": [size], "tokens": [min(200 * size, float(data["tokens"].max()))]}).iloc[0]
    assert ("warning", "extrapolation") in codes(row["findings"])
    assert any(
        finding.code == "extrapolation" and "tokens per parameter" in finding.message for finding in row["findings"]
    )
    assert not fit.forecast(data.iloc[[3]]).iloc[0]["findings"]


def test_size_and_tokens_that_grew_together_are_named_where_they_are_asked_apart():
    data = runs(12)
    data["tokens"] = 20 * data["n_params"] * np.exp(0.02 * np.random.default_rng(1).standard_normal(12))
    data["loss"] = law("chinchilla").predict(TRUTH, data)
    fit = cl.fit("chinchilla", data, on="target", starts=4, restraint="none")
    apart = fit.forecast({"n_params": [5e8], "tokens": [5e8 * 100]}).iloc[0]
    along = fit.forecast({"n_params": [5e8], "tokens": [5e8 * 20]}).iloc[0]
    assert ("warning", "confounded-here") in codes(apart["findings"])
    assert "confounded-here" not in {code for _, code in codes(along["findings"])}


def test_an_input_of_one_level_is_an_error_level_finding():
    data = cl.examples.load("en-fr-pilot")
    one = cl.fit(
        "ptpp-blind",
        data,
        on="target",
        where="ptpp == 31 and tokens > 0 and replay in (0.1, 0.25, 0.5)",
        restraint="none",
    )
    at = {"n_params": [45_936], "tokens": [5e5], "replay": [0.25], "ptpp": [279]}
    assert ("error", "blind-to-budget") in codes(one.forecast(at).iloc[0]["findings"])


def test_a_rounded_level_is_the_level_that_was_run():
    data = cl.examples.load("en-fr-pilot")
    rows = "n_params == 45936 and ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant'"
    held = {"A": 0.1, "alpha": 0.3}
    one = cl.fit(
        "ptpp-blind", data, on="target", where=f"{rows} and tokens > 80K", starts=8, fix=held, restraint="none"
    )
    at = {"n_params": [46_000, 47_500], "tokens": [5e5] * 2, "replay": [0.25] * 2}
    rounded, other = ({code for _, code in codes(found)} for found in one.forecast(at)["findings"])
    assert "unseen-input" not in rounded
    assert "unseen-input" in other


def test_rollouts_inside_the_rows_see_a_wrong_form():
    """Losses of a bent law: the additive one errs further the further it is asked, and its own rollouts show it."""
    data = runs(60, noise=1e-4)
    bent = 1.8 + np.sqrt((480 * data["n_params"] ** -0.35) ** 2 + (2100 * data["tokens"] ** -0.37) ** 2)
    right, wrong = (
        inner_rollouts(cl.fit("chinchilla", data.assign(loss=loss), on="target", starts=8, restraint="none"))
        for loss in (data["loss"], bent)
    )
    assert len(right.error) > 50
    assert np.sqrt(np.mean(wrong.error**2)) > 5 * np.sqrt(np.mean(right.error**2))


def cpt_runs(base_noise, seed=0, bases=20, per_base=4, points=3, noise=0.002):
    """CPT runs of several base models; what one base model is off by, all its runs inherit."""
    rng = np.random.default_rng(seed)
    params = {"E": 1.6, "A": 0.3, "B": 0.2, "C": 0.05, "alpha": 0.3, "beta": 0.3, "nu": 0.4, "gamma": 0.3}
    rows = []
    for i in range(bases):
        size, budget, offset = (0.1 + 0.3 * (i % 4)) * 1e9, 20.0 * 2 ** (i // 4), base_noise * rng.standard_normal()
        for j in range(per_base):
            for d in range(points):
                row = {"run": f"b{i}-r{j}", "n_params": size, "ptpp": budget, "replay": 0.1 + 0.2 * j}
                rows.append(row | {"tokens": 1e9 * 3**d, "offset": offset})
    frame = pd.DataFrame(rows)
    loss = law("ptpp-blind").predict(params, frame, "target")
    return frame.assign(loss=loss * np.exp(frame.pop("offset") + noise * rng.standard_normal(len(frame))))


def share_of_base_models(fit):
    """The share of what base models are off by in the variance of a new measurement."""
    problem, best = fit.problem(), fit.optima[0]
    basis = orthonormal(jacobian(problem, best[: problem.k], best[problem.k :]))
    levels = [("base", base_models(fit.data)), ("run", fit.blocks)]
    variances = components(fit.residuals(), basis, levels).variances
    return variances[0] / variances.sum()


def test_the_base_model_is_the_unit_of_error():
    asked = pd.DataFrame({"n_params": [5e8], "tokens": [3e9], "replay": [0.3]})
    alone, shared = (
        cl.fit("ptpp-blind", cpt_runs(offset), on="target", starts=4, delta=0.1, restraint="none")
        for offset in (0.0, 0.006)
    )
    assert share_of_base_models(shared) > 0.75
    assert share_of_base_models(alone) < 0.3
    plain = cl.fit("ptpp-blind", shared.data.drop(columns="ptpp"), on="target", starts=4, delta=0.1, restraint="none")
    wide, narrow = (np.diff(profiles(fit, asked, [0.9])[0, 0])[0] for fit in (shared, plain))
    assert wide > 1.4 * narrow


@pytest.mark.parametrize("seed", range(4))
def test_variance_components_are_found(seed):
    rng = np.random.default_rng(seed)
    base, run = np.repeat(np.arange(60), 12), np.repeat(np.arange(240), 3)
    residual = 2.0 * rng.standard_normal(60)[base] + 1.0 * rng.standard_normal(240)[run] + rng.standard_normal(720)
    basis = np.linalg.qr(rng.standard_normal((720, 4)))[0]
    fitted = residual - basis @ (basis.T @ residual)
    found = components(fitted, basis, (("base", base), ("run", run)))
    assert found.names == ("base", "run", "point")
    assert np.sqrt(found.variances) == pytest.approx([2.0, 1.0, 1.0], rel=0.3)
    along = components(fitted, basis, (("run", np.arange(720)),))
    assert along.names == ("point",)


@pytest.mark.parametrize("seed", range(20))
def test_no_variance_is_below_zero(seed):
    rng = np.random.default_rng(seed)
    count = 1 + seed % 4
    matrix = np.eye(count) + 0.3 * rng.random((count, count))
    values = matrix @ rng.standard_normal(count)
    assert non_negative_solution(matrix, values) == pytest.approx(nnls(matrix, values)[0], abs=1e-12)


def test_discrepancy_grows_outside_and_is_nothing_inside():
    fit = cl.fit("chinchilla", runs(40), on="target", starts=8, restraint="none")
    inside = fit.data.drop(columns="loss").head(3)
    size = float(fit.data["n_params"].max())
    beyond = pd.DataFrame({"n_params": size * np.array([3.0, 30.0, 300.0])})
    beyond["tokens"] = 20 * beyond["n_params"]
    assert discrepancy(fit, inside, [0.9])[0] == pytest.approx(0.0)
    (half,), (narrow,) = discrepancy(fit, beyond, [0.9]), discrepancy(fit, beyond, [0.5])
    assert np.all(np.diff(half) > 0)
    assert np.all(half > 2 * narrow)  # heavier tails than a normal's 2.4 would be wider still


def test_a_law_that_errs_inside_its_rows_is_trusted_less_beyond_them():
    data = runs(60, noise=1e-3)
    bent = 1.8 + np.sqrt((480 * data["n_params"] ** -0.35) ** 2 + (2100 * data["tokens"] ** -0.37) ** 2)
    right, wrong = (
        cl.fit("chinchilla", data.assign(loss=loss), on="target", starts=8, restraint="none")
        for loss in (data["loss"], bent)
    )
    assert usual_rate(wrong) > 1.3 * usual_rate(right)


def test_a_law_blind_to_the_budget_is_wide_at_another_one():
    one = cl.fit("ptpp-blind", cpt_runs(0.0).query("ptpp == 40"), on="target", starts=4, restraint="none")
    asked = pd.DataFrame({"n_params": [4e8] * 2, "tokens": [3e9] * 2, "replay": [0.3] * 2, "ptpp": [40.0, 400.0]})
    found = one.forecast(asked)
    width = np.log(found["hi"] / found["lo"]).to_numpy()
    assert width[1] > 3 * width[0]


def test_what_was_learned_can_leave_a_study_out():
    assert {"gadre", "olmo", "chinchilla"} <= set(studies())
    whole = learned_prior("size_exponent")
    with leaving_out("gadre"):
        part = learned_prior("size_exponent")
        assert Scale.learned() != Scale(**numbers()["discrepancy"]["all"])
    assert part != whole
    assert learned_prior("size_exponent", without="gadre") == part
    with refused(cl.UsageError, "'gadre'"), leaving_out("gadr"):
        pass
    with refused(cl.UsageError, "'size_exponen'", "'size_exponent'"):
        learned_prior("size_exponen")


@pytest.mark.parametrize("kind", sorted(numbers()["priors"]))
def test_every_learned_prior_is_usable(kind):
    prior = learned_prior(kind)
    assert 0 < prior.sd < 4
    assert prior.scale == "value" or prior.mean > 0


def test_few_studies_say_less_than_many():
    one = {"mean": -1.2, "error": 0.05}
    (first, few), (_, two), (last, many) = (pooled([one] * count, 0.5, -0.7) for count in (1, 2, 8))
    assert few > two > many
    assert -0.7 > first > last > -1.2
    assert pooled([{"mean": -1.2, "error": 0.05}, {"mean": -0.2, "error": 0.05}] * 3, 0.1, -0.7)[1] > 0.4


def test_a_law_that_reads_the_schedule_of_pretraining_is_not_blind_to_the_budget():
    data = pd.DataFrame({"ptpp": [31.0, 62.0], "n_params": 1e8, "tokens": [1e9, 2e9], "replay": 0.2})
    assert "ptpp" in [one.name for one in unseen(law("ptpp-blind"), data)]
    assert not unseen(law("cpt-dynamics-joint"), data)


def test_a_prior_on_the_logarithm_keeps_a_term_that_the_data_leave_out():
    """Pure power laws have no floor: alone the fit ends at E = 0, where a logarithm is not."""
    data = runs(12, noise=1e-3)
    loss = 40 * data["n_params"] ** -0.12 + 30 * data["tokens"] ** -0.11
    free = cl.fit("chinchilla", data.assign(loss=loss), on="target", starts=8, restraint="none")
    held = cl.fit(
        "chinchilla", data.assign(loss=loss), on="target", starts=8, prior=["E=1.5:0.2:log"], restraint="none"
    )
    assert free.params["E"] < 0.05
    assert held.params["E"] > 0.01
    row = held.forecast(FAR).iloc[0]
    assert row["lo"] < row["loss"] < row["hi"]
