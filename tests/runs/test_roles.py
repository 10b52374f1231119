"""A fit is the same whether its eval was named by ``--on`` or by its role."""

from pathlib import Path

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


def test_what_the_losses_do_not_tell_stays_open():
    runs = renamed()
    assert runs.with_inferred_role("fr").role("fr") == "target"
    assert renamed(target_eval="en").with_inferred_role("fr").role("fr") == "other"  # that role is taken
    flat = runs.frame.astype({"eval": str}).assign(loss=2.0)
    assert cl.read_runs(flat).with_inferred_role("fr").role("fr") == "other"
    assert cl.read_runs(flat.drop(columns="replay")).with_inferred_role("fr").role("fr") == "other"
