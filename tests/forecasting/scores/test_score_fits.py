"""Scores: what is known of benchmarks, the links, their fits and forecasts, files, checks and comparisons."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from facts import refused

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.fitting.learned import leaving_out
from cptlaw.fitting.learned.links import link_prior, links
from cptlaw_scores import fit_all_scores
from cptlaw_scores.benchmarks import chance_of, items_of_values
from cptlaw_scores.fisher import LinkPrior, Tasks, maximise
from cptlaw_scores.joint import join, task_of
from cptlaw_scores.laws.score_law import known_score_laws, score_law
from cptlaw_scores.mean import with_means
from cptlaw_scores.pooling import effective, fit_pooled, learned_prior, own_prior

ITEMS = 2000
TASKS = {"easy": (0.25, 5.0, 1.05), "hard": (0.25, 7.0, 0.9), "written": (0.0, 6.0, 0.95)}  # chance, s, L0


def truth(name, loss):
    chance, s, middle = TASKS[name]
    return chance + (1 - chance) * 0.95 / (1 + np.exp(s * (loss - 3.0 * middle)))


def table(seed=0, items=ITEMS):
    """Models of five sizes and three budgets with a loss, three scores that follow it, and one that does not."""
    random = np.random.default_rng(seed)
    rows = []
    for n in (3e7, 1e8, 3e8, 1e9, 3e9):
        for atpp in (10, 20, 40):
            tokens = atpp * n
            loss = 1.7 + 400 / n**0.34 + 1600 / tokens**0.34
            run = {"run": f"{n:g}-{atpp}", "n_params": n, "tokens": tokens}
            rows.append({**run, "eval": "val", "loss": loss * np.exp(0.002 * random.standard_normal())})
            for name, (chance, *_) in TASKS.items():
                score = random.binomial(items, truth(name, loss)) / items
                rows.append({**run, "eval": name, "metric": "acc", "loss": score, "n_items": items, "chance": chance})
            guess = random.binomial(300, 0.25) / 300
            rows.append({**run, "eval": "guessed", "metric": "acc", "loss": guess, "n_items": 300, "chance": 0.25})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def fits():
    runs = cl.read_runs(table())
    return fit_all_scores(runs.where("n_params < 2e9"))


def test_what_is_assumed_of_a_score_is_told():
    """A benchmark that nobody knows: what guessing scores, and how many questions a score counts."""
    rows = table().query("eval == 'hard'").drop(columns=["chance", "n_items"])
    at = pd.MultiIndex.from_arrays([rows["run"], rows["tokens"]])
    task, notes = task_of("ours", "acc", rows, at, at)
    assert (task.chance, [one.code for one in notes]) == (0.0, ["chance-unknown"])
    assert task.items.tolist() == [ITEMS] * len(rows)  # by the scores themselves
    blurred = rows.assign(loss=rows["loss"] + 1e-5 * np.sin(np.arange(len(rows))))
    task, notes = task_of("mmlu", "acc", blurred, at, at)
    assert (task.chance, [one.code for one in notes]) == (0.25, ["items-unknown"])


def test_items_are_told_by_the_values():
    counts = np.array([11, 7, 131, 402, 77])
    assert items_of_values(counts / 1319) == 1319
    assert items_of_values(np.array([0.25, 0.5, 0.25])) is None
    assert items_of_values(np.array([0.2234512, 0.7651234, 0.1999871, 0.3333721])) is None
    assert chance_of("mmlu_stem_5shot", "accuracy") == 0.25
    assert chance_of("mmlu_pro", "accuracy") == 0.1
    assert chance_of("anything", "pass@8") == 0.0


@pytest.mark.parametrize("name", known_score_laws())
def test_slopes_are_those_of_differences(name):
    law = score_law(name)
    random = np.random.default_rng(1)
    theta = 0.3 * random.standard_normal((2, len(law.parameters)))
    x = {one: np.array([0.7, 1.0, 1.6]) for one in law.inputs}
    chance = np.array([[0.25], [0.0]])
    p, slopes = law.score_and_slopes(theta, x, chance)
    assert ((p > 0) & (p < 1)).all()
    for i in range(theta.shape[1]):
        step = np.zeros_like(theta)
        step[:, i] = 1e-6
        differences = (law.score(theta + step, x, chance) - law.score(theta - step, x, chance)) / 2e-6
        assert slopes[:, :, i] == pytest.approx(np.broadcast_to(differences.real, p.shape), abs=1e-7)


@pytest.mark.parametrize("name", [one for one in known_score_laws() if one != "score-flat"])
def test_chance_and_ceiling_are_kept_and_more_is_better(name):
    law = score_law(name)
    theta = np.array([[axis.mean for axis in law.all_axes.values()]])
    better = np.geomspace(1e-6, 1e6, 60)
    x = {one: better if one != "carrier" else 1 / better for one in law.inputs}
    p = law.score(theta, x, np.array([[0.25]]))[0]
    assert (np.diff(p) >= -1e-12).all()
    assert p[0] == pytest.approx(0.25, abs=1e-3)
    assert p[-1] <= 1.0


def test_the_binomial_optimum_is_found():
    law = score_law("score-compute")
    x = {"flops": np.geomspace(0.1, 10, 8)}
    true = np.array([[0.2, -1.5, 0.0]])
    y = law.score(true, x, np.array([[0.25]]))
    tasks = Tasks(x, y, np.full(y.shape, 1e6), np.array([[0.25]]))
    prior = LinkPrior(np.array([0.7, -1.9, 0.0]), np.array([1.0, 0.6, 0.1]))
    found = maximise(law, tasks, prior, prior.mean[None])
    assert found.theta[0] == pytest.approx(true[0], abs=0.01)
    # With few items the prior speaks, and the optimum is where its slope and that of the likelihood cancel.
    few = Tasks(x, y, np.full(y.shape, 20.0), np.array([[0.25]]))
    found = maximise(law, few, prior, prior.mean[None])
    p, slopes = law.score_and_slopes(found.theta, x, few.chance)
    gradient = np.einsum("sn,snk->sk", few.items * (y - p) / (p * (1 - p)), slopes)
    assert gradient[0] == pytest.approx((found.theta[0] - prior.mean) / prior.sd**2, abs=1e-3)


def test_items_that_err_together_count_less():
    assert effective(np.array([[1.0, 1001.0]]), np.array([0.001])).tolist() == [[1.0, 500.5]]


def test_noisy_tasks_borrow_the_shape_of_the_others():
    law = score_law("score-sigmoid")
    random = np.random.default_rng(2)
    x = {"carrier": np.linspace(1.3, 0.8, 12)}
    true = np.array([[1.9, middle, -3.0, 0.0] for middle in np.linspace(0.75, 1.0, 9)])
    chance = np.full((9, 1), 0.25)
    p = law.score(true, x, chance)
    items = np.array([[5000.0]] * 8 + [[8.0]]) * np.ones_like(p)
    y = random.binomial(items.astype(int), p) / items
    pooled = fit_pooled(law, Tasks(x, y, items, chance))
    alone = fit_pooled(law, Tasks(x, y, items, chance).subset(slice(8, 9)))
    assert pooled.prior.sd[0] < 0.6 * law.axes["s"].sd
    assert pooled.posterior.covariance[8, 0, 0] < 0.7 * alone.posterior.covariance[0, 0, 0]
    assert pooled.posterior.theta[8, 0] == pytest.approx(1.9, abs=0.5)


def test_forecasts_reach_larger_models(fits):
    runs = table()
    large = runs[(runs["n_params"] > 2e9) & (runs["eval"] == "val")]
    for name in TASKS:
        found = fits[name].forecast(large[["n_params", "tokens"]])
        real = truth(name, 1.7 + 400 / large["n_params"] ** 0.34 + 1600 / large["tokens"] ** 0.34)
        assert np.abs(found["loss"].to_numpy() - real.to_numpy()).max() < 0.04
        assert ((found["lo"] < real.to_numpy()) & (real.to_numpy() < found["hi"])).all()
        shares = found[[one for one in found.columns if str(one).startswith("doubt_")]]
        assert shares.sum(axis=1).to_numpy() == pytest.approx(1.0)
        assert found["metric"].tolist() == ["accuracy"] * 3
    assert fits["easy"].members[0].carrier == "val"


def test_a_loss_that_is_known_leaves_its_doubt_out(fits):
    point = {"n_params": [3e9], "tokens": [6e10]}
    unknown, known = fits["easy"].parts(point), fits["easy"].parts({**point, "val": [2.4]})
    assert unknown["loss"][0] > 0
    assert known["loss"][0] == 0.0


def test_quantiles_are_in_order_and_those_of_measurements_wider(fits):
    point = {"n_params": [3e9], "tokens": [6e10]}
    law, whole = (fits["hard"].quantiles(point, [0.05, 0.5, 0.95], measured)[:, 0] for measured in (False, True))
    assert whole[0] < law[0] < law[1] < law[2] < whole[2]
    assert law[1] == pytest.approx(fits["hard"].predict(point)[0])


def test_a_file_keeps_a_fit(fits, tmp_path):
    path = fits["written"].save(tmp_path / "written.json")
    again = cl.load_fit(path)
    point = {"n_params": [3e9], "tokens": [6e10]}
    assert again.forecast(point).to_json() == fits["written"].forecast(point).to_json()
    assert again.to_dict() == fits["written"].to_dict()


def test_check_says_which_scores_carry_signal():
    found = cl.check("auto", table(), on="easy")
    verdicts = {one.name: one.verdict for one in found.tasks}
    assert all(verdicts[name] == "carries signal" for name in TASKS)
    assert "at chance" in verdicts["guessed"]
    assert [finding.code for finding in found.findings] == ["no-signal"]
    assert "3 of 4 scores" in found.title


def test_a_score_without_signal_is_no_next_fit(tmp_path, capsys):
    rows = table()
    assert cl.check("auto", cl.read_runs(rows), "easy").fittable == "easy"
    assert cl.check("auto", cl.read_runs(rows), "guessed").fittable == "val"
    rows.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(tmp_path / "runs.csv"), "--on", "guessed"])
    assert not ended.value.code
    assert f"next: cptlaw fit {tmp_path / 'runs.csv'} --law auto --on val -o val.json" in capsys.readouterr().err


def test_scores_below_chance_are_an_error_of_the_chance():
    rows = table()
    rows.loc[rows["eval"] == "written", "chance"] = 0.99
    found = cl.check("auto", cl.read_runs(rows), "written")
    assert [one.code for one in found.findings if one.severity == "error"] == ["below-chance"]
    assert next(one for one in found.tasks if one.name == "written").verdict == "below chance"


def test_laws_of_losses_and_scores_are_not_mixed_up():
    runs = cl.read_runs(table())
    with pytest.raises(cl.UsageError, match="is a score"):
        cl.fit("chinchilla", runs, on="easy", restraint="none")
    with pytest.raises(cl.UsageError, match="one of scores"):
        cl.fit("score-sigmoid", runs, on="val")
    with pytest.raises(cl.DataError, match="no loss 'vol'"):
        cl.fit("score-sigmoid:through=vol", runs, on="easy")


def test_one_law_and_a_comparison():
    runs = cl.read_runs(table()).where("eval in ('val', 'easy', 'hard')")
    fit = cl.fit("score-sigmoid:through=val", runs, on="easy")
    assert [member.name for member in fit.members] == ["score-sigmoid:through=val"]
    found = cl.compare(
        "score-sigmoid,score-size", runs, "easy", fit_where="n_params < 2e9", test_where="n_params > 2e9"
    )
    assert set(found["law"]) == {"score-sigmoid", "score-size", "score-flat"}
    assert found["law"].iloc[-1] == "score-flat"
    assert found["mae_points"].iloc[0] < 3
    assert "points off" in found.answer.title


def test_losses_and_scores_of_one_model_are_joined():
    rows = table()
    rows.loc[rows["eval"] == "easy", "tokens"] *= 1 + 1e-12
    joint = join(cl.read_runs(rows))
    assert len(joint.frame) == 15
    assert np.isfinite(joint.values("easy")).all()
    assert np.isfinite(joint.values("val")).all()


def test_the_figure_has_both_doubts(fits):
    drawn = cl.figures.score_link(fits["easy"], "n_params=3e9,tokens=6e10")
    data = drawn.data
    forecast = data[data["kind"] == "forecast"].iloc[0]
    assert forecast["loss_lo"] < forecast["loss"] < forecast["loss_hi"]
    assert forecast["lo"] < forecast["score"] < forecast["hi"]
    link = data[data["kind"] == "link"]
    assert (np.diff(link["score"]) <= 1e-9).all()  # a higher loss is never better
    assert len(data[data["kind"] == "measured"]) == 12
    assert "chance" in drawn.caption


def test_the_mean_over_tasks_has_the_noise_of_all_their_questions():
    rows = table()
    rows.loc[rows["eval"] == "written", "n_items"] = 500
    runs = cl.read_runs(rows[~((rows["eval"] == "hard") & (rows["n_params"] > 2e9))])
    mean = with_means(runs, ["val", "mean:easy,hard,written"]).on("mean:easy,hard,written").frame
    assert len(mean) == 12  # where all three were measured
    measured = {name: runs.on(name).frame.set_index("run")["loss"].astype(float) for name in TASKS}
    run = str(mean["run"].iloc[5])
    shares = np.array([measured[name][run] for name in ("easy", "hard", "written")])
    assert mean["loss"].iloc[5] == pytest.approx(shares.mean())
    assert mean["chance"].iloc[5] == pytest.approx(0.5 / 3)
    noise = (shares * (1 - shares) / np.array([2000, 2000, 500])).sum() / 9
    assert shares.mean() * (1 - shares.mean()) / mean["n_items"].iloc[5] == pytest.approx(noise, rel=1e-3)


def test_a_mean_is_fitted_and_forecast_and_compared_like_a_score():
    runs = cl.read_runs(table())
    large = runs.on("val").where("n_params > 2e9").frame[["n_params", "tokens"]]
    fit = cl.fit("score-sigmoid:through=val", runs, on="mean:easy,hard", where="n_params < 2e9")
    found = fit.forecast(large)
    loss = 1.7 + 400 / large["n_params"] ** 0.34 + 1600 / large["tokens"] ** 0.34
    real = (0.5 * (truth("easy", loss) + truth("hard", loss))).to_numpy()
    assert ((found["lo"] < real) & (real < found["hi"])).all()
    assert fit.on == "mean:easy,hard"
    assert fit.provenance["fingerprint"] == runs.fingerprint
    assert "mean:easy,hard" in {one.name for one in cl.check("auto", runs, on="mean:easy,hard").tasks}
    compared = cl.compare("score-size", runs, "mean:easy,hard", fit_where="n_params < 2e9", test_where="n_params > 2e9")
    assert compared["n_test"].tolist() == [3, 3]
    with refused(cl.DataError, "'eazy'"):
        cl.fit("auto", runs, on="mean:eazy,hard")
    with refused(cl.UsageError, "mean:easy"):
        cl.fit("auto", runs, on="mean:easy")


def test_what_other_studies_say_leaves_the_study_out():
    sigmoid = learned_prior(score_law("score-sigmoid"))
    steep = list(score_law("score-sigmoid").all_axes).index("s")
    own = own_prior(score_law("score-sigmoid"))
    assert sigmoid.sd[steep] < own.sd[steep]
    with leaving_out("delphi"):
        others = link_prior("score-sigmoid", "s")
    assert others is not None
    assert others != link_prior("score-sigmoid", "s")
    told = links()["links"]["score-sigmoid"]["s"]
    lowest, highest = (pick(one["mean"] for one in told.values()) for pick in (min, max))
    assert lowest < sigmoid.mean[steep] < highest
    assert link_prior("score-flat", "q") is None
    assert learned_prior(score_law("score-flat")).mean.tolist() == own_prior(score_law("score-flat")).mean.tolist()


def test_losses_that_are_fitted_already_are_taken(fits):
    runs = cl.read_runs(table()).where("n_params < 2e9")
    found = fit_all_scores(runs, ["easy"], law_name="score-sigmoid", losses=fits["easy"].losses)["easy"]
    assert found.losses["val"] is fits["easy"].losses["val"]


def test_few_rollouts_of_few_scores_leave_wide_tails(fits):
    few, many = (replace(fits["easy"], freedom=freedom) for freedom in (3.0, 50.0))
    asked = pd.DataFrame({"n_params": [1e10], "tokens": [2e11]})
    width = [np.ptp(one.quantiles(asked, [0.05, 0.95])) for one in (few, many)]
    assert width[0] > 1.2 * width[1]
    assert fits["easy"].freedom == len(fits["easy"].rollouts) + 4 - 2


@pytest.mark.dear("a score is fitted by all ways that carry it")
def test_losses_all_along_the_runs_and_scores_at_their_ends():
    """Cuts of the models are made where scores are: one whose lower models have none tells nothing of a link."""
    ends = table().query("n_params >= 3e8")
    along = ends[ends["eval"] == "val"]
    parts = np.geomspace(1e-4, 0.5, 20)
    earlier = [along.assign(tokens=along["tokens"] * part, loss=along["loss"] * part**-0.05) for part in parts]
    fit = cl.fit(cl.read_runs(pd.concat([*earlier, ends])), on="easy")
    assert len(fit.rollouts) > 1
    found = cl.forecast(fit, "n_params=1e9,tokens=1e11")
    assert found["lo"].iloc[0] < found["loss"].iloc[0] < found["hi"].iloc[0]
    shares = found[["doubt_loss", "doubt_link", "doubt_form", "doubt_distance", "doubt_items"]].iloc[0]
    assert np.isfinite(shares.to_numpy(dtype=float)).all()
