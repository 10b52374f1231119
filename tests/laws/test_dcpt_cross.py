"""The cross-domain D-CPT law: values by hand, coefficients from first rows, recovery, new domains, refusals."""

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.errors import DataError, FitError, UsageError
from cptlaw.laws import Context, law
from cptlaw.testing import check_law
from studies import simulate

NAMES = ("dcpt-cross-k1", "dcpt-cross-k2", "dcpt-cross-k3", "dcpt-cross-k4")
SHAPES = {"alpha": 0.3, "beta": 0.3, "gamma": 0.5, "eta": 1.3, "eps": 0.1}
GOLDEN = {"E": 1.5, "A": 0.7, "B": 0.4, "C": 0.1, **SHAPES}  # section 4.10 of the laws' specification
GOLDEN_LOSS = 2.29414952424
DOMAIN = {"F": 0.6, "mu": 1.5, "w2": 2.0, "w3": 0.05}
ROW = pd.DataFrame(
    {"eval": ["source"], "n_params": 1.8e9, "tokens": 10e9, "replay": 0.2, "k1": 2.0, "k2": 0.4, "k3": 0.25}
)
TOKENS = {1000: 0.131072e9, 5000: 0.65536e9, 10000: 1.31072e9}


def params_of(name, **changes):
    known = {**GOLDEN, **DOMAIN, **changes}
    return {key: known[key] for key in law(name).parameters}


def curve(run="a", domain="law", losses=(2.0, 1.8, 1.7), base=2.5, n_params=1e9, replay=0.5, tokens=None, **more):
    """Rows of one run: the base model's loss, then losses after 1,000, 5,000 and 10,000 steps."""
    tokens = list(TOKENS.values()) if tokens is None else tokens
    start = [] if base is None else [(0.0, base)]
    rows = pd.DataFrame([*start, *zip(tokens, losses, strict=True)], columns=["tokens", "loss"])
    return rows.assign(run=run, eval="target", domain=domain, n_params=n_params, replay=replay, **more)


def measured(frame, name="dcpt-cross-k4", **options):
    return law(name, **options).learnability(frame).set_index("domain")


# -- the equation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("dcpt-cross-k1", 0.5),  # 1/2
        ("dcpt-cross-k2", 0.4),
        ("dcpt-cross-k3", 1.3),  # 1/2 + 2 x 0.4
        ("dcpt-cross-k4", 1.5),  # 1.3 + 0.05/0.25
    ],
)
def test_equation_by_hand(name, index):
    predicted = law(name).predict(params_of(name), ROW)
    assert predicted[0] == pytest.approx(GOLDEN_LOSS + 0.6 / index**1.5, abs=1e-10)


@pytest.mark.parametrize("scale", [0.3, 7.0])
def test_weights_are_known_up_to_a_factor(scale):
    """(w1, w2, w3, F) and (s w1, s w2, s w3, s^mu F) are one law, so w1 = 1 loses nothing."""
    w1, w2, w3, F, mu = scale, scale * 2.0, scale * 0.05, scale**1.5 * 0.6, 1.5
    published = GOLDEN_LOSS + F / (w1 / 2.0 + w2 * 0.4 + w3 / 0.25) ** mu
    ours = params_of("dcpt-cross-k4", w2=w2 / w1, w3=w3 / w1, F=F / w1**mu)
    assert law("dcpt-cross-k4").predict(ours, ROW)[0] == pytest.approx(published, rel=1e-12)


def test_negative_k3_lowers_the_index_until_the_floor():
    name = "dcpt-cross-k4"
    at = [law(name).predict(params_of(name), ROW.assign(k3=k3))[0] - GOLDEN_LOSS for k3 in (-0.5, -0.02)]
    assert at[0] == pytest.approx(0.6 / 1.2**1.5, rel=1e-9)  # 1.3 - 0.1
    assert at[1] == pytest.approx(0.6 / 0.013**1.5, rel=1e-9)  # 1.3 - 2.5 < 0: held at 1 % of 1.3
    derivative = law(name).partials(params_of(name), ROW.assign(k3=-0.02), ["tokens"])
    assert np.isfinite(derivative.value).all()


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("dcpt-cross-k1", 1 / 1.7),
        ("dcpt-cross-k2", 0.3),
        ("dcpt-cross-k3", 1 / 1.7 + 2 * 0.3),
        ("dcpt-cross-k4", 1 / 1.7 + 2 * 0.3 - 0.05 / 0.9),
    ],
)
def test_within_one_domain_it_is_the_dcpt_law(name, index):
    """E + F/K^mu stands in the place of E."""
    frame, params = simulate.dcpt_design(("law",), sampling=5), params_of(name)
    inner = {key: params[key] for key in law("dcpt-l3").parameters}
    inner["E"] += params["F"] * index ** -params["mu"]
    predicted = law(name).predict(params, frame.assign(k1=1.7, k2=0.3, k3=-0.9))
    np.testing.assert_allclose(law("dcpt-l3").predict(inner, frame), predicted, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {"monotone": "paper"},
        {"monotone": "soft", "k1": "initial"},
        {"ptpp": "floor", "monotone": "paper"},
        {"ptpp": "gate"},
        {"ptpp": "gated-floor"},
    ],
)
def test_conforms(name, options):
    check_law(law(name, **options))


@pytest.mark.parametrize(
    ("ptpp", "loss"),
    [
        # The golden row of Form 3: its exponent of D, .102856396197, in the place of beta = .25; its floor.
        ("gate", GOLDEN_LOSS + 0.4 * 0.2**1.3 * (10**-0.102856396197 - 10**-0.25)),
        ("floor", GOLDEN_LOSS + 0.9 * 279**-0.5),
        ("gated-floor", GOLDEN_LOSS + 0.4 * 0.2**1.3 * (10**-0.102856396197 - 10**-0.25) + 0.9 * 279**-0.5),
    ],
)
def test_budgets_act_as_in_the_forms_of_ptpp(ptpp, loss):
    """GOLDEN with beta = .25, the gate's lambda and zeta, and the floor's F and eta as G and theta."""
    chosen = law("dcpt-cross-k1", ptpp=ptpp)
    known = {**GOLDEN, **DOMAIN, "beta": 0.25, "lambda": 0.6, "zeta": 0.7, "G": 0.9, "theta": 0.5}
    moved = 0.4 * 0.2**1.3 * (10**-0.25 - 10**-0.3)  # GOLDEN has beta = .3
    predicted = chosen.predict({name: known[name] for name in chosen.parameters}, ROW.assign(ptpp=279.0))
    assert predicted[0] == pytest.approx(loss + moved + 0.6 / 0.5**1.5, abs=1e-9)


def test_the_constraint_is_not_proved_for_a_gate():
    with pytest.raises(UsageError, match="ptpp=floor"):
        law("dcpt-cross-k1", ptpp="gate", monotone="paper")


def test_options_survive_in_the_name():
    spec = "dcpt-cross-k3:monotone=paper:k1=initial:k2_tokens=0.5M:k3_tokens=1M:probe_replay=25%"
    chosen = law(spec)
    assert (
        law(chosen.spec).options()
        == chosen.options()
        == {"monotone": "paper", "k1": "initial", "k2_tokens": 5e5, "k3_tokens": 1e6, "probe_replay": 0.25}
    )
    assert law("dcpt-cross-k3").options() == {}


# -- coefficients from the first rows ---------------------------------------------------------------------------------


def test_coefficients_by_hand():
    found = measured(curve()).loc["law"]
    assert found["k1"] == 2.0
    assert found["k2"] == pytest.approx(2.5 - 1.8)
    assert found["k3"] == pytest.approx((2.5 - 1.8) - (1.8 - 1.7))
    assert found["n_runs"] == 1
    assert measured(curve(), k1="initial").loc["law", "k1"] == 2.5


def test_a_law_asks_only_for_what_it_uses():
    early = curve(losses=(2.0,), tokens=[TOKENS[1000]], base=None)
    assert measured(early, "dcpt-cross-k1").loc["law", "k1"] == 2.0
    assert list(law("dcpt-cross-k3").learnability(curve()).columns) == ["domain", "k1", "k2", "n_runs"]
    first = curve(losses=(1.8,), tokens=[TOKENS[5000]])
    assert measured(first, "dcpt-cross-k2").loc["law", "k2"] == pytest.approx(0.7)


def test_interpolates_linearly_in_log_tokens():
    # Measured at half and at twice the tokens asked for: the middle of the two in log tokens.
    tokens = [TOKENS[1000], TOKENS[5000] / 2, TOKENS[5000] * 2]
    found = measured(curve(losses=(2.0, 1.9, 1.7), tokens=tokens), "dcpt-cross-k2")
    assert found.loc["law", "k2"] == pytest.approx(2.5 - 1.8)


@pytest.mark.parametrize(("share", "reached"), [(0.995, True), (0.9, False)])
def test_an_end_within_one_percent_counts_as_reached(share, reached):
    tokens = [*list(TOKENS.values())[:2], TOKENS[10000] * share]
    frame = curve(tokens=tokens)
    if reached:
        assert measured(frame).loc["law", "k3"] == pytest.approx(0.6)
    else:
        with refused(DataError, "'law'", "'a'", "1.311B"):
            measured(frame)


def test_other_tokens_for_other_set_ups():
    small = {"k1_tokens": 1e5, "k2_tokens": 5e5, "k3_tokens": 1e6}
    found = measured(curve(tokens=[1e5, 5e5, 1e6]), **small)
    assert found.loc["law", "k3"] == pytest.approx(0.6)


def test_base_loss_is_looked_up_by_size_budget_and_domain():
    def base(loss, **more):
        return curve(run=f"base-{loss}", losses=(), tokens=[], base=loss).assign(replay=np.nan, **more)

    run = curve(base=None, ptpp=31.0)
    other_size, other_budget = base(9.0, n_params=4e9), base(8.0, ptpp=15.0)
    of_domain, of_all, of_other = base(2.6), base(2.7, domain=None), base(5.0, domain="math")
    table = [run, other_size, other_budget, of_all, of_other]
    assert measured(pd.concat([*table, of_domain]), "dcpt-cross-k2").loc["law", "k2"] == pytest.approx(2.6 - 1.8)
    assert measured(pd.concat(table), "dcpt-cross-k2").loc["law", "k2"] == pytest.approx(2.7 - 1.8)
    with refused(DataError, "tokens = 0", "1B"):
        measured(pd.concat([run, other_size, other_budget, of_other]), "dcpt-cross-k2")
    own = pd.concat([curve(ptpp=31.0), of_domain])
    assert measured(own, "dcpt-cross-k2").loc["law", "k2"] == pytest.approx(2.5 - 1.8)


def test_domains_are_averaged_over_the_cells_that_all_of_them_have():
    frame = pd.concat(
        [
            curve("a1", "law", (2.0, 1.8, 1.7), seed=1),
            curve("a2", "law", (2.2, 1.8, 1.7), seed=2),
            curve("a3", "law", (2.6, 1.8, 1.7), replay=0.1),
            curve("a4", "law", (9.0, 1.8, 1.7), n_params=4e9),  # only law has this size
            curve("b1", "math", (1.0, 0.8, 0.7), base=1.5),
            curve("b2", "math", (1.2, 0.8, 0.7), base=1.5, replay=0.1),
            curve("b3", "math", (5.0,), base=1.5, n_params=4e9, tokens=[TOKENS[1000]]),  # too short to count
        ]
    )
    found = measured(frame)
    # Two seeds of one cell count as one cell: (mean(2.0, 2.2) + 2.6) / 2.
    assert found["k1"].to_dict() == pytest.approx({"law": 2.35, "math": 1.1})
    assert found["n_runs"].to_dict() == {"law": 3, "math": 2}
    assert measured(frame, probe_replay=0.1)["k1"].to_dict() == pytest.approx({"law": 2.6, "math": 1.2})
    assert measured(frame[frame["domain"] == "law"], probe_n_params=4e9).loc["law", "k1"] == 9.0


def test_prepare_adds_one_value_per_domain_and_keeps_given_columns():
    frame = cl.read_runs(pd.concat([curve(), curve("b", "math", (1.0, 0.8, 0.7), base=1.5)])).frame
    prepared = law("dcpt-cross-k3").inputs_of(frame, Context(rows=frame))
    assert prepared.index.equals(frame.index)
    assert prepared.groupby("domain", observed=True)["k1"].unique().map(list).to_dict() == {"law": [2.0], "math": [1.0]}
    assert "k1" not in frame.columns
    given = law("dcpt-cross-k3").inputs_of(frame.assign(k1=3.0), Context(rows=frame))
    assert (given["k1"] == 3.0).all()
    assert given["k2"].equals(prepared["k2"])
    complete = frame.assign(k1=3.0, k2=0.1).drop(columns="domain")
    assert law("dcpt-cross-k3").inputs_of(complete, Context(rows=complete)) is complete


# -- what it refuses --------------------------------------------------------------------------------------------------


def test_no_column_domain():
    with refused(DataError, "'domain'"):
        cl.fit("dcpt-cross-k1", curve().drop(columns="domain"), on="target", restraint="none")


def test_a_run_of_no_or_of_two_domains():
    frame = curve().assign(domain=["law", "law", "math", "math"])
    with refused(DataError, "run 'a'", "more than one"):
        measured(frame)
    with refused(DataError, "run 'a'", "without"):
        measured(frame.assign(domain=["law", "law", None, None]))


def test_no_run_that_is_long_enough_or_of_the_set_up():
    with refused(DataError, "'law'", "'a'", "131.1M"):
        measured(curve(tokens=[1e9, 2e9, 3e9]), "dcpt-cross-k1")
    with refused(DataError, "run 'a'", "probe_replay"):
        measured(curve(), probe_replay=0.3)


def test_domains_without_a_common_set_up():
    frame = pd.concat([curve(), curve("b", "math", replay=0.1)])
    with refused(DataError, "(law, math)"):
        measured(frame)


def test_a_loss_that_does_not_fall_at_first():
    with refused(DataError, "'law'", "-0.3", "probe_replay"):
        measured(curve(base=1.5))
    assert measured(curve(base=1.5), "dcpt-cross-k1").loc["law", "k1"] == 2.0


def test_several_evals_need_a_name():
    frame = pd.concat([curve(), curve("b", "law").assign(eval="source")])
    with pytest.raises(UsageError, match="say which eval"):
        law("dcpt-cross-k1").learnability(frame)
    assert len(law("dcpt-cross-k1").learnability(frame, on="source")) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k1": "first"}, "expected early or initial"),
        ({"k1_tokens": 0}, "k1_tokens=0"),
        ({"k2_tokens": 2e9}, "expected k3_tokens to be the larger"),
        ({"probe_n_params": -1}, "probe_n_params=-1"),
        ({"probe_replay": 40}, "expected a share from 0 to 1"),
        ({"monotone": "yes"}, "expected none, soft or paper"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(UsageError, match=message):
        law("dcpt-cross-k3", **options)


def test_rows_without_coefficients():
    with pytest.raises(DataError, match=r"needs the column 'k2'.*law\.attach"):
        law("dcpt-cross-k3").predict(params_of("dcpt-cross-k3"), ROW.drop(columns="k2"))
    for name, value in (("k1", 0.0), ("k2", -0.1), ("k2", np.nan), ("k3", 0.0), ("k3", np.inf)):
        with refused(DataError, f" {name} "):
            law("dcpt-cross-k4").predict(params_of("dcpt-cross-k4"), ROW.assign(**{name: value}))


def test_attach():
    chosen = law("dcpt-cross-k3")
    known = pd.DataFrame({"domain": ["law", "law", "math"], "k1": [2.0, 2.0, 1.0], "k2": [0.5, 0.5, 0.6]})
    points = pd.DataFrame({"domain": pd.Categorical(["math", "law"]), "n_params": 1e9}, index=[7, 3])
    attached = chosen.attach(points, known)
    assert attached[["k1", "k2"]].to_numpy().tolist() == [[1.0, 0.6], [2.0, 0.5]]
    assert attached.index.tolist() == [7, 3]
    assert "k1" not in points
    with refused(DataError, "'laws'", "'law'"):
        chosen.attach(pd.DataFrame({"domain": ["laws"]}), known)
    with refused(DataError, "'law'", "one row"):
        chosen.attach(points, known.assign(k1=[2.0, 2.1, 1.0]))
    with refused(DataError, "coefficients", "'k2'"):
        chosen.attach(points, known.drop(columns="k2"))
    with refused(DataError, "'domain'"):
        chosen.attach(points.drop(columns="domain"), known)


# -- fits -------------------------------------------------------------------------------------------------------------

TRUE = {"E": 0.2, "A": 0.45, "B": 0.15, "C": 0.25, "F": 1.2, "alpha": 0.3, "beta": 0.25, "gamma": 0.5, "eta": 1.1}
TRUE = TRUE | {"eps": 0.1, "mu": 1.5, "w2": 1.5}
LEARNABILITY = {"chemistry": 1.0, "code": 1.4, "law": 1.1, "math": 1.25, "medical": 0.85, "music": 2.2}
PROBE = {"probe_n_params": 0.5e9, "probe_replay": 0.5}


@pytest.fixture(scope="module")
def pooled():
    """Noise-free runs that follow K3 exactly, with K read off one 0.5B run per domain at even shares."""
    design = simulate.dcpt_design(sampling=6)
    probes = design[(design["n_params"] == 0.5e9) & (design["replay"] == 0.5)]
    truths = simulate.cross_domain_truths("dcpt-cross-k3", TRUE, LEARNABILITY, probes)
    return simulate.measure(design, {"target": truths})


def test_recovers_parameters_and_coefficients(pooled):
    fit = cl.fit(law("dcpt-cross-k3", **PROBE), pooled, on="target", starts=8, restraint="none")
    assert fit.params == pytest.approx(TRUE, rel=1e-5)
    assert (fit.rank, fit.n_free) == (12, 12)
    found = fit.data.drop_duplicates("domain").set_index("domain")
    index = 1.0 / found["k1"] + TRUE["w2"] * found["k2"]
    assert index.to_dict() == pytest.approx(LEARNABILITY, rel=1e-9)


def test_forecasts_a_new_domain_from_its_probe(pooled, tmp_path):
    chosen = law("dcpt-cross-k3", **PROBE)
    new = pooled["domain"] == "code"
    fit = cl.fit(chosen, pooled[~new], on="target", starts=8, restraint="none")
    points = pooled[new & (pooled["tokens"] > 0)].drop(columns="loss")
    with refused(DataError, "'code'"):
        fit.forecast(points)
    probe = pooled[new & (pooled["n_params"] == 0.5e9) & (pooled["replay"].isin([0.5]) | (pooled["tokens"] == 0))]
    probe = probe[probe["tokens"] <= TOKENS[10000]]
    assert len(probe) == 4
    attached = chosen.attach(points, chosen.learnability(probe))
    forecast = fit.forecast(attached)
    np.testing.assert_allclose(forecast["loss"], pooled.loc[points.index, "loss"], rtol=1e-7)
    assert (forecast["lo"] <= forecast["hi"]).all()
    again = cl.load_fit(fit.save(tmp_path / "fit.json"))
    assert again.law.spec == chosen.spec
    pd.testing.assert_frame_equal(again.forecast(attached).drop(columns="findings"), forecast.drop(columns="findings"))
    # Domains that were fitted get their coefficients from the fit itself.
    fitted = pooled[~new & (pooled["tokens"] > 0)]
    again_fitted = again.predict(chosen.attach(fitted, again.data))
    np.testing.assert_allclose(again_fitted, fitted["loss"], rtol=1e-7)


def test_a_probe_in_the_table_makes_the_coefficients_comparable(pooled):
    """Without options too: what is averaged is what all domains have, and a filter keeps the probe out of the fit."""
    new = pooled["domain"] == "code"
    is_probe = (pooled["n_params"] == 0.5e9) & (pooled["replay"] == 0.5) & (pooled["tokens"] <= TOKENS[10000])
    table = pooled[~new | is_probe | (pooled["tokens"] == 0)]
    fit = cl.fit("dcpt-cross-k3", table, on="target", where='domain != "code"', starts=8, restraint="none")
    assert fit.params == pytest.approx(TRUE, rel=1e-5)


@pytest.mark.parametrize("ptpp", ["floor", "gated-floor"])
def test_a_domain_is_forecast_at_a_budget_at_which_another_was_run(ptpp):
    """Law at one budget, music at three: what the budget does is told by music, what the corpus does at one budget."""
    chosen = law("dcpt-cross-k1", ptpp=ptpp)
    design = simulate.dcpt_design(("law", "music", "code"), sampling=6)
    table = pd.concat([design.assign(ptpp=p, run=design["run"] + f"-p{p}") for p in (20.0, 100.0, 500.0)])
    k1 = {"law": 2.3, "music": 0.9, "code": 1.4}
    true = TRUE | {"beta": 0.25, "G": 0.8, "theta": 0.4, "lambda": 0.5, "zeta": 0.6}
    true = {name: true[name] for name in chosen.parameters}
    every = simulate.measure(table.assign(k1=table["domain"].map(k1)), {"target": simulate.Truth(chosen.spec, true)})
    known = (every["ptpp"] == 100.0) | (every["domain"] == "music")
    fit = cl.fit(chosen, every[known & (every["tokens"] > 0)], on="target", starts=8, restraint="none")
    asked = every[~known & (every["tokens"] > 0)]
    assert set(asked["domain"]) == {"law", "code"}
    np.testing.assert_allclose(fit.predict(asked), asked["loss"], rtol=1e-4)
    blind = cl.fit("dcpt-cross-k1", every[known & (every["tokens"] > 0)], on="target", starts=4, restraint="none")
    assert np.abs(np.log(blind.predict(asked) / asked["loss"])).mean() > 0.01


@pytest.mark.dear("a fold for each corpus")
def test_holds_out_domains_in_compare(pooled):
    table = cl.compare(
        ["dcpt-l3", law("dcpt-cross-k3", **PROBE)], pooled, on="target", cv="leave-one-out:domain", starts=4
    )
    assert table["law"][0].startswith("dcpt-cross-k3")
    assert table["rmse_log"][0] < 1e-6
    assert table["rmse_log"][1] > 0.05


@pytest.mark.parametrize("name", NAMES)
def test_recovers_from_given_coefficients(name):
    """Every form of K, with coefficients of the user's own, one negative k3 among them."""
    design = simulate.dcpt_design(sampling=5)
    domains = list(simulate.DCPT_DOMAINS)
    given = pd.DataFrame(
        {
            "domain": domains,
            "k1": [2.3, 1.2, 1.8, 1.6, 2.4, 0.9],
            "k2": [0.4, 0.7, 0.3, 0.5, 0.25, 0.9],
            "k3": [0.2, 0.5, -1.5, 0.3, 0.15, 0.6],
        }
    )
    chosen = law(name)
    true = {key: (TRUE | {"w3": 0.05})[key] for key in chosen.parameters}
    runs = simulate.measure(chosen.attach(design, given), {"target": simulate.Truth(name, true)})
    fit = cl.fit(name, runs, on="target", starts=12, restraint="none")
    assert fit.objective < 1e-18
    assert fit.params == pytest.approx(true, rel=1e-3)


def test_one_domain_cannot_tell_what_domains_do(pooled):
    runs = pooled[pooled["domain"] == "law"]
    with refused(FitError, "column k1 ", "F, mu"):
        cl.fit("dcpt-cross-k1", runs, on="target", starts=2, restraint="none")
    for k3 in (0.3, -0.3):
        given = runs.assign(k1=2.0, k2=0.5, k3=k3)
        with pytest.raises(FitError, match="one level"):
            cl.fit("dcpt-cross-k4", given, on="target", starts=2, restraint="none")


def test_two_domains_do_not_identify_the_weights(pooled):
    runs = pooled[pooled["domain"].isin(["law", "music"])]
    fit = cl.fit("dcpt-cross-k3", runs, on="target", starts=4, restraint="none")
    assert fit.rank < fit.n_free
    assert "not-identified" in {finding.code for finding in fit.findings}
    held = cl.fit("dcpt-cross-k3", runs, on="target", starts=4, fix={"mu": 1.5, "w2": 1.5}, restraint="none")
    assert held.rank == held.n_free


@pytest.mark.parametrize("name", NAMES)
def test_forecast_of_a_fitted_domain_needs_its_name_alone(name):
    runs = simulate.dcpt_runs(("code", "law", "math", "music"), 8, noise=0.003)
    fitted = cl.fit(name, runs, on="target", where="replay >= 0.1 and replay <= 0.9", starts=6, restraint="none")
    point = pd.DataFrame({"domain": ["law"], "n_params": [2e9], "tokens": [5e9], "replay": [0.5]})
    found = fitted.forecast(point)
    known = fitted.forecast(fitted.law.attach(point, fitted.data))
    assert found["loss"].tolist() == known["loss"].tolist()
    assert found["lo"].iloc[0] < found["loss"].iloc[0] < found["hi"].iloc[0]
    with refused(DataError, "'chess'"):
        fitted.forecast(point.assign(domain="chess"))
