"""Losses that are none: perplexities, scores, differences and means are asked about, converted as told, or left out."""

import numpy as np
import pytest
from facts import lacks, refused
from messy_truth import truth, wide

import cptlaw as cl
from cptlaw.errors import DataError
from cptlaw.runs import UnreadColumnError, refuse_unread


def losses(runs):
    return runs.frame.sort_values(["run", "eval"])["loss"].to_numpy()


def expected():
    return losses(cl.read_runs(truth()))


def test_a_perplexity_is_asked_about_and_read_as_told():
    table = truth().assign(loss=lambda frame: np.exp(frame["loss"] + 1.0))
    with pytest.raises(UnreadColumnError) as refused:
        refuse_unread(cl.read_runs(table))
    assert {one.choices for one in refused.value.asked} == {("loss=log(loss)", "metric=loss")}
    runs = cl.read_runs(table, columns={"loss": "log(loss)"})
    refuse_unread(runs)
    np.testing.assert_allclose(losses(runs), expected() + 1.0)
    refuse_unread(cl.read_runs(table, columns={"metric": "loss"}))


def test_of_a_wide_table_too():
    table = wide().assign(en=lambda frame: np.exp(frame["source_loss"]), fr=lambda frame: frame["target_loss"])
    table = table.drop(columns=["source_loss", "target_loss"])
    runs = cl.read_runs(table, losses={"source": "log(en)", "target": "fr"})
    np.testing.assert_allclose(losses(runs), expected())


def test_a_score_called_loss_is_asked_about():
    table = truth().assign(loss=lambda frame: np.exp(-frame["loss"]))
    (one,) = [one for one in cl.read(table).open if one.explains]
    assert (one.name, one.choices) == ("target", ("metric=accuracy", "metric=loss"))
    runs = cl.read_runs(table, columns={"metric": "accuracy"})
    assert set(runs.scores) == {"source", "target"}


def test_losses_in_nats_are_not_asked_about():
    assert not cl.read(truth()).open
    low = truth().assign(loss=lambda frame: frame["loss"] / 4)  # losses of code may be as low
    assert not [one for one in cl.read(low).open if one.explains]


def test_a_column_that_is_the_mean_of_the_others_is_no_eval():
    table = wide().assign(avg_loss=lambda frame: (0.5 * (frame["source_loss"] + frame["target_loss"])).round(3))
    runs = cl.read_runs(table)
    assert runs.evals == ("source", "target")
    assert any(not lacks(note, "'avg_loss'", "mean") for note in runs.notes)


def test_differences_are_told_from_losses_and_read_with_what_they_are_counted_from():
    table = wide().assign(
        delta_en=lambda frame: frame["source_loss"] - 2.9, delta_fr=lambda frame: frame["target_loss"]
    )
    table = table.drop(columns=["source_loss", "target_loss"])
    with refused(DataError, "'delta_en'"):
        cl.read_runs(table)
    runs = cl.read_runs(table, losses={"source": "2.9+delta_en", "target": "delta_fr"})
    np.testing.assert_allclose(losses(runs), expected())
