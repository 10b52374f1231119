"""When a run comes back to where it began, against what follows from the equations."""

import math

import pytest
from schedule_truths import BASE, RUN, SOURCE, TARGET, losses

import cptlaw as cl
from cptlaw.errors import UsageError
from cptlaw.schedules import Phase, Schedule


@pytest.fixture(scope="module")
def source():
    return cl.given_fit("cpt-dynamics", SOURCE, "source")


@pytest.fixture(scope="module")
def target():
    return cl.given_fit("cpt-dynamics", TARGET, "target")


class TestTurning:
    def test_zero_finite_and_infinite(self, source, target):
        kinds = [cl.plan.turning_length(target, source, weight_source=w, schedules=RUN) for w in (0.0, 0.8, 1.0)]
        assert [plan.kind for plan in kinds] == ["zero", "finite", "infinite"]
        assert kinds[0].steps == 0
        assert kinds[2].steps == math.inf
        assert kinds[2].to_dict()["steps"] is None
        assert all(plan.reason for plan in kinds)

    def test_the_loss_is_back_at_its_start(self, source, target):
        plan = cl.plan.turning_length(target, source, weight_source=0.8, schedules=RUN)
        before, after = (
            0.8 * src + 0.2 * tgt
            for src, tgt in (
                losses(Schedule([BASE, Phase("cpt", int(steps), "constant", peak=2e-4)]))
                for steps in (plan.steps - 1, plan.steps)
            )
        )
        assert before >= plan.start - 1e-9
        assert after <= plan.start + 1e-9

    def test_critical_point_in_closed_form(self, source):
        """A S1^-alpha = B: the source loss at the asymptote L0 + B (specification 6.8)."""
        plan = cl.plan.critical_point(source, schedules=RUN)
        assert plan.s1 == pytest.approx((0.490 / 0.366) ** (1 / 0.497))
        assert plan.steps == pytest.approx(plan.s1 / 2e-4)
        assert plan.level == pytest.approx(3.057 + 0.366)
        assert not plan.returns

    def test_before_the_critical_point_the_source_loss_comes_back(self, source, target):
        early = Schedule([Phase("pretrain", 5000, "constant", peak=2e-4)])
        late = Schedule([Phase("pretrain", 12_000, "constant", peak=2e-4)])
        for base, returns in ((early, True), (late, False)):
            assert cl.plan.critical_point(source, schedules=base).returns == returns
            turning = cl.plan.turning_length(target, source, weight_source=1, schedules=base)
            assert turning.kind == ("finite" if returns else "infinite")

    def test_no_shift_no_critical_point(self, target):
        harmless = cl.given_fit("cpt-dynamics", SOURCE | {"B": 0.0}, "source")
        assert cl.plan.critical_point(harmless, schedules=RUN).kind == "infinite"
        with pytest.raises(UsageError, match="no shift"):
            cl.plan.critical_point(
                cl.given_fit("lr-annealing", {"L0": 3, "A": 0.4, "C": 0.3, "alpha": 0.5}, "source"), schedules=RUN
            )

    def test_a_shift_without_an_end_is_said(self, source):
        weak = cl.given_fit("cpt-dynamics", SOURCE | {"B": 29.121, "beta": 0.001, "E": 100}, "source")
        codes = [finding.code for finding in cl.plan.critical_point(weak, schedules=RUN).findings]
        assert codes == ["shift-without-asymptote"]
