"""A fit is the same whether its eval was named by ``--on`` or by its role."""

from pathlib import Path

import pandas as pd
import pytest

import cptlaw as cl

TRUTH = Path(__file__).parent / "messy" / "truth.csv"


def renamed(**how):
    frame = cl.read_runs(TRUTH).frame.astype({"eval": str})
    return cl.read_runs(frame.assign(eval=frame["eval"].map({"target": "fr", "source": "en"})), **how)


@pytest.mark.parametrize("law", ["shared-tokens", "dcpt-l3"])
@pytest.mark.parametrize(("name", "role"), [("fr", "target"), ("en", "source")])
def test_a_role_that_nobody_told_is_told_by_what_the_loss_does(law, name, role):
    by_name = cl.fit(law, renamed(), on=name, starts=4)
    by_role = cl.fit(law, renamed(**{f"{role}_eval": name}), on=role, starts=4)
    assert by_name.role == by_role.role == role
    assert by_name.params == by_role.params


@pytest.mark.parametrize("told", [{}, {"target_eval": "fr"}, {"source_eval": "en"}])
def test_both_roles_are_known_however_many_were_told(told):
    """A fit to one loss reads the other one beside it, and is the same whichever of the two was named."""
    for on in ("fr", "en"):
        assert renamed(**told).with_inferred_role(on).roles == {"fr": "target", "en": "source"}
    frame = renamed().frame.astype({"eval": str})
    twice = pd.concat([frame, frame[frame["eval"] == "en"].assign(eval="en2")])
    assert cl.read_runs(twice).with_inferred_role("fr").roles == {"fr": "target"}  # which of two it is nobody told


def test_what_the_losses_do_not_tell_stays_open():
    runs = renamed()
    assert runs.with_inferred_role("fr").role("fr") == "target"
    assert renamed(target_eval="en").with_inferred_role("fr").role("fr") == "other"  # that role is taken
    flat = runs.frame.astype({"eval": str}).assign(loss=2.0)
    assert cl.read_runs(flat).with_inferred_role("fr").role("fr") == "other"
    assert cl.read_runs(flat.drop(columns="replay")).with_inferred_role("fr").role("fr") == "other"


def test_a_column_of_roles_tells_them_where_each_is_one_evals():
    rows = [("a", "web", "source"), ("a", "code", "target"), ("a", "books", "other"), ("b", "web", "source")]
    table = pd.DataFrame(rows, columns=["run", "eval", "role"]).assign(loss=2.5, tokens=1e9)
    runs = cl.read_runs(table)
    assert [runs.role(name) for name in ("web", "code", "books")] == ["source", "target", "other"]
    assert cl.read_runs(table, source_eval="books").role("books") == "source"
    several = cl.read_runs(table.assign(role=table["role"].replace("other", "source")))
    assert [several.role(name) for name in ("web", "code")] == ["other", "target"]
