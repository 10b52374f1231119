"""What a check says of rows before they are fitted."""

from cases import design

import cptlaw as cl


def test_two_budgets_leave_the_gated_floor_law_undetermined():
    """laws.md 3.7 and design.md: rank 10 of 12, and a finding that says so."""
    frame = design("ptpp-gated-floor", noise=0.003, budgets=(15.0, 31.0))
    checked = cl.check("ptpp-gated-floor", frame, on="target")
    assert (checked.rank, checked.n_free) == (10, 12)
    codes = {finding.code for finding in checked.findings}
    assert {"two-stages", "not-identified"} <= codes
    fitted = cl.fit("ptpp-gated-floor", frame, on="target", restraint="none")
    assert fitted.rank <= 10
    assert {"two-stages", "rank"} <= {finding.code for finding in fitted.findings}
    three = cl.check("ptpp-gated-floor", design("ptpp-gated-floor", noise=0.003), on="target")
    assert three.rank == 12
