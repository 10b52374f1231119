"""The next experiments: cost to the FLOP, budgets, order, and what they must propose where a law is not identified."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw import examples
from cptlaw.cli import main
from cptlaw.errors import DataError, FitError
from cptlaw.planning.next_runs import open_forecast
from cptlaw.planning.next_runs.cells import Bases, CandidateRun, Offer, candidates
from cptlaw.planning.next_runs.doubt import Variances, errors
from cptlaw.planning.next_runs.greedy import Sample, choose
from cptlaw.runs.points import point
from studies import simulate

PILOT = str(examples.path("en-fr-pilot"))
ROWS = "ptpp in (15, 31) and replay in (0.1, 0.25, 0.5) and atpp >= 1.9"
PILOT_ASK = "n_params=124672,tokens=1M,replay=25%,ptpp=279"
ASKED = "n_params=8.1B,tokens=72B,replay=34%,ptpp=279"
BASE = 6 * 241e6 * (279 * 241e6)


def simulated(budgets=(15.0, 31.0), **design):
    truths = {"target": dataclasses.replace(simulate.PTPP_TRUTHS["target"], base={})}
    points = simulate.ptpp_design(ptpp=budgets, **design)
    return simulate.measure(points, truths, noise=0.0014, run_noise=0.0014, seed=1)


def ask(table, law="ptpp-floor", at=ASKED, budget="1.3e20", **options):
    return cl.suggest(law, table, "target", at=at, budget=budget, starts=16, **options)


@pytest.fixture(scope="module")
def two_budgets():
    return cl.read_runs(simulated())


@pytest.fixture(scope="module")
def suggested(two_budgets):
    return {law: ask(two_budgets, law) for law in ("ptpp-floor", "ptpp-gated-floor")}


def test_a_run_may_have_another_rate_of_those_that_were_run_near_its_size():
    runs = examples.load("docs-to-code")
    where = "n_params in (45936, 124672) and ptpp in (31, 124, 279) and lr_schedule == 'constant' and replay > 0"
    fit = cl.fit("shared-tokens", runs, "source", where, starts=4, restraint="none")
    at = point("n_params=124672,tokens=1M,replay=25%,ptpp=279,lr_peak=0.0015")
    found = candidates(fit, runs.frame, at.iloc[0])
    assert {cell.lr_peak for cell in found} == {0.0015, 0.003}

    def among(cells):
        return open_forecast.open_forecast(fit, at, 0.9, Offer(cells, Bases.of(runs.frame)))

    both, one = (among(cells).answer(2e11, 4) for cells in (found, [one for one in found if one.lr_peak == 0.0015]))
    ends = [answer.interval_after[1] - answer.interval_after[0] for answer in (both, one)]
    assert ends[0] <= 1.01 * ends[1]
    assert both.table()["lr_peak"].isin([0.0015, 0.003]).all()
    other = next(cell for cell in found if (cell.lr_peak, cell.n_params, cell.replay) == (0.003, 45_936.0, 0.25))
    moved = among([other, dataclasses.replace(other, lr_peak=0.0015)]).sample
    assert abs(moved.cells[0] - moved.cells[1]).max() > 1e-3  # the rate of a run counts in what it tells


def test_where_all_runs_have_one_rate_it_is_no_choice(suggested):
    assert all(cell.lr_peak is None for cell in suggested["ptpp-floor"].cells)
    assert "lr_peak" not in suggested["ptpp-floor"].table()


# -- cost ----------------------------------------------------------------------------------------------------------


def test_costs_by_hand():
    def price(one, trunks):
        return Offer([one], Bases([(241e6, 31.0)])).base_prices(trunks)

    run = CandidateRun(241e6, 279.0, 0.25, 1e9, (1e9,))
    assert run.run_flops == 6 * 241e6 * 1e9
    assert price(run, {}) == pytest.approx(BASE, rel=1e-12)
    assert price(dataclasses.replace(run, ptpp=31.0), {}) == 0
    assert price(run, {241e6: 279.0}) == 0  # paid for
    assert price(dataclasses.replace(run, ptpp=100.0), {241e6: 279.0}) == 0  # an earlier stage of that trunk
    assert price(run, {241e6: 100.0}) == pytest.approx(BASE * 179 / 279, rel=1e-12)  # goes on from there
    assert price(run, {517e6: 279.0}) == pytest.approx(BASE, rel=1e-12)  # another size's trunk
    assert price(dataclasses.replace(run, ptpp=None), {}) == 0


def test_a_mixture_of_experts_is_priced_by_its_active_parameters(two_budgets, suggested):
    at, asked = point(ASKED), {"sizes": "241M,8.1B", "ptpps": 279, "replays": 0.34, "tokens": "72B"}
    fit = cl.fit("ptpp-floor", two_budgets, "target", starts=16)
    small, large = candidates(fit, two_budgets.frame, at.iloc[0], **asked, n_active=8.1e8)
    assert (small.run_flops, large.run_flops) == (6 * 241e6 * 72e9, 6 * 8.1e8 * 72e9)
    offer = Offer([small, large], Bases([]))
    assert offer.costs == pytest.approx([small.run_flops + BASE, large.run_flops + 6 * 8.1e8 * 279 * 8.1e9])
    found = ask(two_budgets, sizes="8.1B", ptpps=279, n_active="810M", budget="1e23")
    (cell,) = found.cells[:1]
    assert cell.flops == pytest.approx(6 * cell.n_active * (cell.tokens + 279 * 8.1e9))
    assert (found.table()["n_active"] == 8.1e8).all()


def test_each_line_costs_what_it_says_and_each_base_is_counted_once(suggested):
    for found in suggested.values():
        paid = {}
        for cell in found.cells:
            assert cell.run_flops == pytest.approx(6 * cell.n_params * cell.tokens, rel=1e-12)
            assert cell.flops == pytest.approx(cell.run_flops + cell.base_flops, rel=1e-12)
            known = cell.ptpp in (15.0, 31.0) and cell.n_params >= 241e6  # half of the smallest size has no base yet
            more = 0 if known else max(cell.ptpp - paid.get(cell.n_params, 0), 0)
            assert cell.base_flops == pytest.approx(6 * cell.n_params**2 * more, rel=1e-12)
            if more:
                paid[cell.n_params] = cell.ptpp
            assert cell.checkpoints[-1] == cell.tokens
            assert list(cell.checkpoints) == sorted(cell.checkpoints)
        assert found.flops == pytest.approx(sum(cell.flops for cell in found.cells), rel=1e-12)
        assert found.flops <= found.budget == 1.3e20
        assert "below-sizes" in {finding.code for finding in found.findings}


def test_a_base_in_the_table_is_free(two_budgets):
    """One run of another eval at the asked budget is enough: the base model exists."""
    other = pd.DataFrame(
        {"run": ["x"], "eval": ["other"], "loss": [2.0], "n_params": [241e6], "tokens": [1e9], "ptpp": [279.0]}
    )
    table = pd.concat([two_budgets.frame.astype({"run": str, "eval": str}), other.assign(replay=0.25)])
    found = ask(table, budget="2e18", n=1)
    assert (found.cells[0].n_params, found.cells[0].ptpp, found.cells[0].base_flops) == (241e6, 279.0, 0.0)
    without = ask(two_budgets, budget="2e18", n=1)
    assert all(cell.ptpp <= 31 for cell in without.cells)


# -- what is chosen ------------------------------------------------------------------------------------------------


def test_two_budgets_call_for_the_asked_one(suggested):
    for found in suggested.values():
        assert max(found.cells, key=lambda cell: cell.gain).ptpp > 31
        assert sum(cell.ptpp == 279 for cell in found.cells) >= 0.4 * len(found.cells)
        assert max(cell.n_params for cell in found.cells) <= 8.1e9
        low, high = found.interval_before
        after = found.interval_after
        assert after[1] - after[0] < 0.25 * (high - low)


def test_a_smaller_budget_goes_towards_the_asked_one(two_budgets):
    found = ask(two_budgets, budget="5e19", sizes=[241e6, 517e6])
    assert 31 < max(cell.ptpp for cell in found.cells) < 279


def test_gains_are_what_the_width_loses(suggested):
    for found in suggested.values():
        gains = [cell.gain for cell in found.cells]
        assert min(gains) >= 0
        before, after = found.interval_before, found.interval_after
        assert sum(gains) == pytest.approx((before[1] - before[0]) - (after[1] - after[0]), rel=1e-6)


def test_interval_before_is_the_forecasts(two_budgets, suggested):
    fit = cl.fit("ptpp-floor", two_budgets, "target", starts=16)
    row = fit.forecast(cl.planning.next_runs.suggest._point(ASKED)).iloc[0]
    found = suggested["ptpp-floor"]
    assert found.interval_before == (row["lo"], row["hi"])
    assert found.loss == row["loss"]


def test_the_most_cells_and_the_seed(two_budgets):
    first = ask(two_budgets, n=2, seed=3)
    assert len(first.cells) == 2
    assert ask(two_budgets, n=2, seed=3).to_dict() == first.to_dict()


def test_own_levels(two_budgets):
    found = ask(two_budgets, sizes="300M", ptpps=[31, "100"], replays="20%,40%", tokens="2B", n=4)
    assert {cell.n_params for cell in found.cells} == {300e6}
    assert {cell.ptpp for cell in found.cells} <= {31.0, 100.0}
    assert {cell.replay for cell in found.cells} <= {0.2, 0.4}
    assert {cell.tokens for cell in found.cells} == {2e9}


def test_default_levels_lie_between_the_table_and_the_question(two_budgets):
    fit = cl.fit("ptpp-floor", two_budgets, "target", starts=8, restraint="none")
    asked = pd.Series({"n_params": 1.4e9, "tokens": 90e9, "replay": 0.3, "ptpp": 279.0})
    found = candidates(fit, two_budgets.frame, asked)
    assert {cell.n_params for cell in found} == {120e6, 241e6, 517e6, 1.4e9}
    assert {cell.replay for cell in found} == {0.1, 0.25, 0.3, 0.5}
    assert {cell.ptpp for cell in found} >= {15.0, 31.0, 279.0}
    assert all(cell.ptpp <= 279 and cell.tokens <= 90e9 for cell in found)
    assert max(cell.tokens for cell in found if cell.n_params == 1.4e9) == 90e9
    assert min(min(cell.checkpoints) / cell.n_params for cell in found) == pytest.approx(0.5)


def test_a_plan_is_a_point_and_a_law_blind_to_the_budget_takes_any_base(two_budgets):
    plan = cl.plan.MixPlan(feasible=True, n_params=8.1e9, ptpp=279.0, replay=0.34, tokens=72e9)
    found = ask(two_budgets, "ptpp-blind", at=plan, budget="5e19", n=2)
    assert found.at["tokens"] == 72e9
    assert all(cell.ptpp == 15 for cell in found.cells)
    assert all((cell.base_flops == 0) == (cell.n_params >= 241e6) for cell in found.cells[:1])
    assert "blind-to-budget" in {finding.code for finding in found.findings}
    with pytest.raises(cl.UsageError, match="no optimum"):
        ask(two_budgets, at=cl.plan.MixPlan(feasible=False, n_params=8.1e9, ptpp=279.0))


def test_a_chinchilla_table_knows_no_bases():
    rng = np.random.default_rng(0)
    rows = [(n, d) for n in (1e8, 3e8, 1e9) for d in (2e9, 2e10, 6e10)]
    frame = pd.DataFrame(rows, columns=["n_params", "tokens"])
    params = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.37}
    frame["loss"] = cl.law("chinchilla").predict(params, frame) * np.exp(0.002 * rng.standard_normal(len(frame)))
    frame = frame.assign(run=[f"r{i}" for i in range(len(frame))], eval="c4")
    found = cl.suggest("chinchilla", frame, "c4", at="n_params=10B,tokens=200B", budget="1e21")
    assert found.cells
    for cell in found.cells:
        assert cell.ptpp is None
        assert cell.replay is None
        assert cell.flops == pytest.approx(6 * cell.n_params * cell.tokens)
    assert found.interval_after[1] - found.interval_after[0] < found.interval_before[1] - found.interval_before[0]


# -- the arithmetic of the update ----------------------------------------------------------------------------------


def test_the_update_is_the_bayesian_linear_one():
    """Two measurements one after another leave the variance that the closed form leaves."""
    forecast = np.array([1.0, 0.5, 0.2])
    losses = np.array([[1.0, 0.9, 0.0], [0.0, 0.1, 1.0], [0.0, 0.0, 0.0]])
    cells = [CandidateRun(1e8, None, None, 2e9, (1e9, 2e9)), CandidateRun(1e8, None, None, 1e9, (1e9,))]
    noise = Variances(between=0.1, within=0.2)
    sample = Sample.of(forecast, losses, cells, noise, noise=0.0)
    after = sample.measured(0).measured(1).variance
    error = np.array([[0.3, 0.1, 0], [0.1, 0.3, 0], [0, 0, 0.3]])
    shared = losses.T @ forecast
    exact = forecast @ forecast - shared @ np.linalg.solve(losses.T @ losses + error, shared)
    assert after == pytest.approx(exact, rel=1e-9)
    assert sample.variance - sample.reductions(np.array([0]))[0] == pytest.approx(sample.measured(0).variance, rel=1e-9)


def test_points_of_one_run_are_worth_less_than_runs():
    forecast = np.ones(1)
    long = CandidateRun(1e8, None, None, 1e9, (1e9,) * 4)
    short = CandidateRun(1e8, None, None, 1e9, (1e9,))
    sample = Sample.of(forecast, np.ones((1, 5)), [long, short], Variances(between=1.0, within=1.0), noise=0.0)
    assert sample.measured(0).variance > sample.measured(1).measured(1).variance


def test_the_doubt_is_that_of_the_interval(two_budgets):
    """Directions of the parameters, as many as are free, and together as wide as the forecast errs."""
    fit = cl.fit("ptpp-floor", two_budgets, "target", starts=8)
    offer = Offer([CandidateRun(241e6, 279.0, 0.25, 1e9, (1e9,))], Bases([]))
    asking = open_forecast.open_forecast(fit, cl.planning.next_runs.suggest._point(ASKED), 0.9, offer)
    sample = asking.sample
    assert len(sample.forecast) == fit.n_free
    assert sample.variance**0.5 == pytest.approx(asking.doubt.half_width / 1.6449, rel=1e-4)


def test_the_split_of_the_noise_is_found():
    table = simulated(budgets=(15.0, 31.0, 279.0), replay=(0.1, 0.2, 0.3, 0.4, 0.5))
    found = errors(cl.fit("ptpp-gated-floor", table, "target", starts=16, restraint="none"))
    assert found.within == pytest.approx(0.0014**2, rel=0.25)
    assert found.between == pytest.approx(0.0014**2, rel=0.6)


def test_cells_are_listed_by_gain_per_flop():
    """The longer run tells more, the shorter one more per FLOP."""
    one, other = np.eye(2)
    long, short = (CandidateRun(1e8, 10.0, None, tokens, (tokens,)) for tokens in (4e9, 1e9))
    sample = Sample.of(1.2 * one + other, np.column_stack([one, other]), [long, short], Variances(0.0, 0.01), 0.0)
    alone = sample.reductions(np.arange(2))
    assert alone[0] > alone[1]
    order = [step.candidate for step in choose(sample, Offer([long, short], Bases([(1e8, 10.0)])), 1e20, 5)]
    assert set(order) == {0, 1}
    assert order[0] == 1


def test_what_is_equal_but_for_its_last_digits_is_taken_in_the_order_of_the_candidates():
    """Another build of the linear algebra rounds otherwise, and must not suggest other runs."""
    forecast = np.ones(1)
    cells = [CandidateRun(1e8, 10.0, replay, 1e9, (1e9,)) for replay in (0.1, 0.2, 0.3)]
    for digits in ((0, 0, 1e-9), (0, 1e-9, 0), (-1e-9, 0, 0)):
        losses = np.column_stack([forecast * (1 + digit) for digit in digits])
        sample = Sample.of(forecast, losses, cells, Variances(0.0, 0.1), 0.0)
        chosen = choose(sample, Offer(cells, Bases([(1e8, 10.0)])), 1e20, 3)
        assert [step.candidate for step in chosen] == [0, 0, 1]


def test_of_plans_as_cheap_the_narrowest_is_taken():
    """A new base that saves half a per cent of the cost is not worth a wider interval."""
    forecast, other = np.eye(2)
    near, far = CandidateRun(1e8, 99.5, None, 1e9, (1e9,)), CandidateRun(1e8, 100.0, None, 1e9, (1e9,))
    losses = np.column_stack([forecast + 0.15 * other, forecast + 0.05 * other])
    sample = Sample.of(forecast, losses, [near, far], Variances(0.0, 1e-4), 0.2)
    widths = [float(sample.width(sample.measured(place).variance)) for place in (0, 1)]
    assert widths[1] < widths[0]
    assert [step.candidate for step in choose(sample, Offer([near, far], Bases([(1e8, 10.0)])), 1e20, 1)] == [1]


def test_a_base_that_tells_nothing_is_not_bought():
    forecast = np.ones(1)
    free = CandidateRun(1e8, 10.0, None, 1e9, (1e9,))
    idle = CandidateRun(1e8, 100.0, None, 1e8, (1e8,))
    sample = Sample.of(forecast, np.column_stack([forecast, 1e-3 * forecast]), [free, idle], Variances(0.0, 0.1), 0.1)
    chosen = choose(sample, Offer([free, idle], Bases([(1e8, 10.0)])), 1e20, 5)
    assert {step.candidate for step in chosen} == {0}
    assert len(chosen) == 2  # a third repeat would not average the law's own error


# -- findings and messages -----------------------------------------------------------------------------------------


def test_a_budget_too_small_says_what_would_do(two_budgets):
    found = ask(two_budgets, budget="1e15")
    assert found.cells == ()
    assert found.flops == 0
    assert found.interval_after == found.interval_before
    said = {finding.code: finding for finding in found.findings}
    assert "1.394e+18" in said["budget-too-small"].message
    assert "beyond-budget" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "-1"}, r"budget \(--budget\): '-1' is not positive"),
        ({"budget": "much"}, "is not a number"),
        ({"at": "n_params=8.1B,tokens=72B"}, "needs replay, ptpp too"),
        ({"at": 7}, "is no point"),
        ({"at": {"n_params": 8.1e9, "tokens": 72e9, "replay": 34, "ptpp": 279}}, "replay"),
        ({"n": 0}, "whole number"),
        ({"interval": 2}, "2%"),
        ({"sizes": "big"}, "is not a number"),
        ({"replays": "40"}, "40%"),
        ({"law": "ptpp-base"}, "does not describe runs of continual pre-training"),
    ],
)
def test_bad_usage(two_budgets, options, message):
    with pytest.raises(cl.CptlawError, match=message):
        ask(two_budgets, **options)


def test_too_few_runs():
    frame = simulated(n_params=(241e6, 517e6), replay=(0.1, 0.5))
    few = frame[frame["run"].isin(frame["run"].unique()[:2])]
    with pytest.raises(cl.CptlawError, match="runs"):
        cl.suggest("kaplan", few, "target", at="n_params=1B,tokens=10B", budget="1e20")


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def call(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["suggest", PILOT, "--law", "ptpp-floor", "--on", "target", "--where", ROWS, *arguments])
        streams = capsys.readouterr()
        return int(ended.value.code or 0), streams.out, streams.err

    return run


def test_command_line(call, tmp_path):
    usual = ["--at", PILOT_ASK, "--budget", "1e13", "-n", "3", "--starts", "16"]
    code, out, err = call(*usual, "--json", "-o", str(tmp_path / "cells.csv"))
    found = json.loads(out)
    assert code == 0
    assert {"cells", "interval_before", "interval_after"} <= set(found)
    assert len(found["cells"]) == 3
    for cell in found["cells"]:
        assert {"n_params", "ptpp", "replay", "tokens", "flops", "gain"} <= set(cell)
    assert max(cell["ptpp"] for cell in found["cells"]) == 279
    assert all(low < high for low, high in (found["interval_before"], found["interval_after"]))
    written = pd.read_csv(tmp_path / "cells.csv")
    assert list(written.columns[:5]) == ["run", "n_params", "ptpp", "replay", "tokens"]
    assert written["flops"].sum() == pytest.approx(found["flops"], rel=1e-9)
    assert found["flops"] <= 1e13
    code, out, err = call(*usual)
    assert code == 0
    assert "interval before" in out
    assert "279" in out
    assert "next:" in err


def test_command_line_mistakes(call, tmp_path):
    assert call("--budget", "1e13")[0] == 2
    code, out, err = call("--at", PILOT_ASK, "--budget", "nothing")
    assert (code, out) == (2, "")
    assert "Error: budget" in err
    usual = ["--at", PILOT_ASK, "--budget", "1e13", "-n", "1", "--starts", "8"]
    assert call(*usual, "-o", str(tmp_path / "none" / "cells.csv"))[0] == 2


def test_without_a_law_the_heaviest_of_the_averaged_ones_is_sharpened(capsys, tmp_path):
    command = ["suggest", PILOT, "--on", "target", "--where", ROWS, "--at", PILOT_ASK]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--budget", "1e13", "-n", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert not ended.value.code
    assert len(found["cells"]) == 2
    heaviest = next(one for one in found["findings"] if one["code"] == "heaviest-law")
    assert found["law"] in heaviest["message"]
    fitted = cl.fit(PILOT, on="target", where=ROWS)
    assert found["law"] == max(fitted.members, key=lambda member: member.weight).fit.law.spec
    low, high = found["interval_after"]
    assert found["interval_before"][0] <= low < high <= found["interval_before"][1]


def test_the_average_reads_the_schedules(monkeypatch, capsys):
    """They were once taken by law auto and dropped in silence."""
    seen = []

    def fitted(*given, **how):
        seen.append(how)
        raise FitError("enough was seen.")

    monkeypatch.setattr(sys.modules[cl.suggest.__module__], "fit_law", fitted)
    command = ["suggest", PILOT, "--on", "target", "--at", PILOT_ASK, "--budget", "1e13"]
    with pytest.raises(SystemExit):
        main([*command, "--schedules", "rates.yaml", "--seed", "3"])
    assert "enough was seen" in capsys.readouterr().err
    assert seen == [{"schedules": "rates.yaml", "seed": 3}]


def test_it_shows_in_a_notebook(suggested):
    shown = suggested["ptpp-floor"]._repr_html_()
    assert "interval after" in shown
    assert "<table>" in shown


@pytest.mark.nightly
def test_the_small_study_runs():
    command = [sys.executable, "-m", "studies", "suggestion_study"]
    command += ["--small", "--data-sets", "1", "--law", "ptpp-floor"]
    root = Path(__file__).parents[2]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout
    assert "anchor grid" in out
    assert "suggested" in out


def test_cells_that_somebody_edited_stay(suggested, tmp_path):
    cells = suggested["ptpp-floor"]
    place = cells.save(tmp_path / "cells.csv")
    assert cells.save(place) == place  # the same cells
    edited = place.read_text().replace("next-1", "mine")
    place.write_text(edited)
    beside = cells.save(place)
    assert (beside.name, place.read_text()) == ("cells-2.csv", edited)
    assert cells.save(place, force=True) == place
    assert place.read_text() == beside.read_text()
    (tmp_path / "notes.csv").write_text("buy milk\n")
    with refused(DataError, "notes.csv", "--force"):
        cells.save(tmp_path / "notes.csv")


def test_the_nearest_affordable_anchor_is_named(two_budgets):
    def anchor(budget):
        found = ask(two_budgets, budget=budget, sizes="241M,517M,1.4B")
        return found, next(one for one in found.findings if one.code == "nearest-anchor")

    for budget, size in (("1e20", 241e6), ("5e20", 517e6), ("1e22", 1.4e9)):
        found, said = anchor(budget)
        assert said.data["ptpp"] == 279
        assert said.data["n_params"] == size  # the largest whose base model and run the budget pays for
        assert 6 * size**2 * 279 < said.data["flops"] <= found.budget
    _, dear = anchor("1e19")
    assert dear.data["flops"] > 1e19
    assert dear.remedy.option == "budget"
    known = ask(two_budgets, at=ASKED.replace("279", "31"), sizes="241M")
    assert "nearest-anchor" not in {one.code for one in known.findings}
