"""What the other corpora of a table say: priors for one that has three runs of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw.fitting.auto.candidates import middle_of_cpt
from cptlaw.fitting.auto.other_corpora import DIFFER, WORTH, add_corpus_prior, as_fitted, by_corpus
from cptlaw.fitting.auto.rows import choose_rows, collapsed_runs
from cptlaw.fitting.learned import leaving_out
from cptlaw.fitting.solving.training_rows import training_rows
from cptlaw.runs import read_runs

OWN = "stackmathqa"
WHERE = f"domain == '{OWN}'"


def three_of(frame: pd.DataFrame, own: str) -> list[str]:
    """Three runs of a corpus, evenly in the order of size, budget and rate."""
    rows = frame[(frame["domain"] == own) & (frame["eval"] == "source")]
    rows = rows[~rows["run"].isin(collapsed_runs(frame, set(rows["run"])))]
    order = rows.sort_values(["n_params", "ptpp", "lr_peak"])["run"].to_numpy()
    return [order[len(order) * i // 6] for i in (1, 3, 5)]


def tables_of(own: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Three runs with those on the other corpora; without them; what is to be forecast."""
    frame = cl.examples.load("watts-sizes").frame.astype({"domain": object})
    of_own, three = frame["domain"] == own, three_of(frame, own)
    known = of_own & frame["run"].isin(three)
    bases = frame.loc[known, ["n_params", "ptpp"]].drop_duplicates().merge(frame[frame["tokens"] == 0])
    alone = pd.concat([frame[known], bases], ignore_index=True)
    broken = collapsed_runs(frame, set(frame["run"]))
    return frame[known | ~of_own].reset_index(drop=True), alone, frame[of_own & ~known & ~frame["run"].isin(broken)]


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    return tables_of(OWN)


def fitted(table: pd.DataFrame, on: str, where: str | None = None):
    with leaving_out("watts"):
        return cl.fit("auto", table, on=on, where=where)


def error(fit, rows: pd.DataFrame) -> float:
    rows = rows[rows["eval"] == fit.on]
    return float(np.abs(np.log(fit.predict(rows) / rows["loss"])).mean())


@pytest.mark.nightly
@pytest.mark.parametrize(("own", "on", "at_most"), [(OWN, "source", 0.5), ("musicpile", "target", 0.85)])
def test_three_runs_are_forecast_better_where_other_corpora_are_known(own, on, at_most) -> None:
    together, alone, rest = tables_of(own)
    informed = fitted(together, on, f"domain == '{own}'")
    by_itself = fitted(alone, on)
    # Of the table alone: what other studies say of so few runs is no part of the comparison.
    of_table = [error(replace(one, study_prior=None, _cache={}), rest) for one in (informed, by_itself)]
    assert of_table[0] < at_most * of_table[1]
    # Those help three runs that stand alone, and are not asked where runs on other corpora are known.
    assert error(by_itself, rest) < of_table[1]
    assert informed.study_prior is None
    (finding,) = [one for one in informed.findings if one.code == "other-corpora"]
    assert finding.severity == "info"
    assert all(repr(name) in finding.message for name in {OWN, "musicpile", "tulu"} - {own})
    assert set(informed.data["run"]) == set(alone.loc[alone["tokens"] > 0, "run"])


def test_a_fit_with_priors_of_other_corpora_is_read_back(tables, tmp_path) -> None:
    fit = fitted(tables[0], "source", WHERE)
    fit.save(tmp_path / "fit.json")
    rows = tables[2][tables[2]["eval"] == "source"]
    np.testing.assert_allclose(cl.load_fit(tmp_path / "fit.json").predict(rows), fit.predict(rows), rtol=1e-12)


def test_without_other_corpora_nothing_changes(tables) -> None:
    together, alone, rest = tables
    rows = rest[rest["eval"] == "source"]
    few = together[(together["domain"] == "tulu") & (together["eval"] == "source")].iloc[:5]
    expected = fitted(alone, "source").predict(rows)
    plain = alone.drop(columns="domain")
    assert (fitted(plain, "source").predict(rows) == expected).all()
    beside = fitted(pd.concat([alone, few], ignore_index=True), "source", WHERE)
    assert (beside.predict(rows) == expected).all()
    assert "other-corpora" not in [one.code for one in beside.findings]


def test_a_filter_holds_for_the_other_corpora_too_and_keeps_base_models(tables) -> None:
    runs = read_runs(tables[0])
    table, others = by_corpus(runs, "source", f"{WHERE} and n_params != 60M")
    assert set(others) == {"musicpile", "tulu"}  # the runs on alpaca are all of 60M
    for name, one in others.items():
        assert 6e7 not in one.frame["n_params"].to_numpy()
        assert set(one.frame.loc[one.frame["tokens"] > 0, "domain"]) == {name}
        assert (one.frame["tokens"] == 0).any()
    kept = choose_rows(table, "source", WHERE).frame
    assert (kept["tokens"] == 0).sum() == (runs.on("source").frame["tokens"] == 0).sum()
    unsaid = tables[0].assign(lr_pretrain=tables[0]["lr_pretrain"].where(tables[0]["domain"] != OWN))
    table, _ = by_corpus(read_runs(unsaid), "source", WHERE)
    assert (choose_rows(table, "source", WHERE).frame["tokens"] > 0).all()
    decays = np.where(tables[0]["domain"] == "tulu", "wsd", "cosine")
    scheduled = read_runs(tables[0].assign(lr_schedule=decays))
    assert set(by_corpus(scheduled, "source", WHERE)[1]) == {"alpaca", "musicpile"}
    assert by_corpus(runs, "source", "n_params < 1e8")[1] == {}  # of no single corpus
    assert by_corpus(runs, "source", None)[1] == {}


@pytest.mark.dear("fits of every other corpus and of the one asked")
@pytest.mark.parametrize("on", ["source", "target"])
def test_priors_are_narrower_than_other_studies_and_have_a_floor(tables, on) -> None:
    table, others = by_corpus(read_runs(tables[0]), on, WHERE)
    others = as_fitted(others, on)
    rows = choose_rows(table, on, WHERE)
    plain = middle_of_cpt(rows.frame)
    widths = []
    for known in ({"tulu": others["tulu"]}, others):
        candidate = add_corpus_prior(plain, rows.frame, known, on, seed=0)
        training = training_rows(candidate.law, table, on, WHERE)
        of_others = candidate.restraint(training)
        of_studies = plain.restraint(training)
        told = [name for name, prior in of_others.priors.items() if prior != of_studies.priors[name]]
        assert on == "source" or set(told) <= set(WORTH)
        widths.append({name: of_others.priors[name].sd / of_studies.priors[name].sd for name in told})
        assert min(widths[-1].values()) > DIFFER
    # One corpus says how wide others may be off, and several hardly more: the law is the same.
    assert all(1.5 * DIFFER < one["g"] < 0.9 for one in widths)


@pytest.mark.parametrize("rate", [1e-9, 10.0])
def test_one_run_far_from_all_others_does_not_set_the_level_of_what_they_say(tables, rate) -> None:
    table, others = by_corpus(read_runs(tables[0]), "target", WHERE)
    others = as_fitted(others, "target")
    rows = choose_rows(table, "target", WHERE)
    candidate = add_corpus_prior(middle_of_cpt(rows.frame), rows.frame, others, "target", seed=0)
    training = training_rows(candidate.law, table, "target", WHERE)
    frame = pd.concat([training.frame, training.frame.tail(1).assign(lr_peak=rate, run="far")], ignore_index=True)
    plain, far = (candidate.restraint(one) for one in (training, replace(training, frame=frame)))
    assert far.priors["E"].mean == pytest.approx(plain.priors["E"].mean, rel=0.03)


@pytest.mark.nightly
def test_many_rows_of_its_own_decide(tables) -> None:
    frame = cl.examples.load("watts-sizes").frame
    own = frame[(frame["domain"] == "tulu") | frame["domain"].isna()]
    rows = own[(own["tokens"] > 0) & (own["eval"] == "source")]
    informed, plain = fitted(frame, "source", "domain == 'tulu'"), fitted(own, "source")
    assert np.abs(np.log(informed.predict(rows) / plain.predict(rows))).mean() < 0.004


def test_a_named_law_hears_other_corpora_as_law_auto_does(tables) -> None:
    together, alone, rest = tables
    law = "shared-tokens:rate=progress"
    with leaving_out("watts"):
        informed, plain = cl.fit(law, together, "source", WHERE), cl.fit(law, alone, "source")
        free = cl.fit(law, together, "source", WHERE, prior={"g": "0.2:0.01"})
    assert error(informed, rest) < 0.5 * error(plain, rest)
    assert "other-corpora" in [one.code for one in informed.findings]
    assert free.params["g"] == pytest.approx(0.2, rel=0.1)  # what is given stands before what others say
    rows = cl.fit(law, together, "source", "domain == 'tulu'", restraint="none")
    assert "other-corpora" not in [one.code for one in rows.findings]


@pytest.mark.nightly
def test_other_corpora_that_cannot_be_fitted_are_neither_heard_nor_named(tables) -> None:
    frame = tables[0]
    tulu = (frame["domain"] == "tulu") & (frame["tokens"] > 0)
    unread = frame.assign(lr_pretrain=frame["lr_pretrain"].mask(tulu))
    without = fitted(frame[frame["domain"] != "tulu"], "source", WHERE)
    beside = fitted(unread, "source", WHERE)
    rows = tables[2][tables[2]["eval"] == "source"]
    np.testing.assert_allclose(beside.predict(rows), without.predict(rows), rtol=1e-9)
    (finding,) = [one for one in beside.findings if one.code == "other-corpora"]
    assert "tulu" not in finding.data["corpora"]
    sizeless = frame.assign(n_params=frame["n_params"].mask(tulu & (frame["run"] == frame.loc[tulu, "run"].iloc[0])))
    assert np.isfinite(fitted(sizeless, "source", WHERE).predict(rows)).all()


def test_base_losses_are_those_of_the_corpus_where_it_has_its_own(tables) -> None:
    frame = tables[0]
    base = frame["tokens"] == 0
    named = pd.concat(
        [
            frame[~base],
            *(
                frame[base].assign(domain=name, run=frame["run"].astype(str) + name, loss=frame["loss"] * level)
                for name, level in ((OWN, 1.0), ("tulu", 1.2))
            ),
        ]
    )
    expected = fitted(frame, "source", WHERE)
    fit = fitted(named, "source", WHERE)
    assert sorted(fit.base["loss"]) == pytest.approx(sorted(expected.base["loss"]))


@pytest.mark.dear("both losses, fitted beside other corpora and alone")
def test_a_target_with_a_domain_beside_sources_without_is_fitted_alone(tables) -> None:
    frame = tables[0]
    of_target = (frame["eval"] == "target") | (frame["tokens"] == 0)
    fit = fitted(frame.assign(domain=frame["domain"].where(of_target)), "target", WHERE)
    assert len(fit.data) == 3


def test_three_runs_scatter_as_the_runs_on_other_corpora_do(tables, tmp_path) -> None:
    """Three rows leave no residuals: intervals held .79 of the source losses when the floor of the noise stood in."""
    informed, alone = fitted(tables[0], "source", WHERE), fitted(tables[1], "source")
    expected = {member.fit.options.restraint.noise for member in informed.members}
    assert all(0.004 < one < 0.02 for one in expected)  # what the laws miss of the other two: .6 to 1.3 %
    assert {member.fit.options.restraint.noise for member in alone.members} == {None}
    spread = informed.doubt(tables[2].query("eval == 'source'").drop(columns="loss").head(3))
    assert (np.hypot(spread["noise"], spread["base"]) > 0.7 * min(expected)).all()
    again = cl.load_fit(informed.save(tmp_path / "s.json"))
    assert {member.fit.options.restraint.noise for member in again.members} == expected
