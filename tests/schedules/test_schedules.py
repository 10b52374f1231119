"""Schedules are what trainers run, areas are what the papers define."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from facts import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from cptlaw.errors import CptlawError, DataError, UsageError
from cptlaw.schedules import Phase, Schedule, areas, effective_lr, read_schedules

PUBLIC = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not PUBLIC.exists(), reason=f"the public data are not at {PUBLIC}")

rate_lists = st.lists(st.floats(0.0, 1e-2), min_size=2, max_size=40)
decays = st.floats(0.0, 0.9999)


def from_rates(rates, phase="pretrain", before=None):
    return Schedule.from_lr(range(len(rates)), rates, phase=phase, warmup=0, before=before)


def double_sum(lr, decay):
    """S2 as the paper writes it, one decrement at a time."""
    return np.array(
        [
            sum((lr[k - 1] - lr[k]) * decay ** (i - k) for i in range(1, t + 1) for k in range(1, i + 1))
            for t in range(len(lr))
        ]
    )


class TestAreas:
    def test_toy_of_the_specification(self):
        found = areas(from_rates([1, 1, 0.5, 0.25, 0.25]), decay=0.9)
        assert found.s2 == pytest.approx([0, 0, 0.5, 1.2, 1.83])
        assert np.diff(found.s2) == pytest.approx([0, 0.5, 0.7, 0.63])
        assert found.s1 == pytest.approx([1, 2, 2.5, 2.75, 3.0])

    @given(rate_lists, decays)
    def test_identity_of_annealing_area_and_momentum(self, rates, decay):
        found = areas(from_rates(rates), decay=decay)
        momentum = np.diff(found.s2, prepend=0.0)
        assert (1 - decay) * found.s2 + decay * momentum == pytest.approx(rates[0] - np.array(rates), abs=1e-12)

    @settings(max_examples=40)
    @given(st.lists(st.floats(0.0, 1e-2), min_size=2, max_size=15), decays)
    def test_recursion_is_the_double_sum(self, rates, decay):
        assert areas(from_rates(rates), decay=decay).s2 == pytest.approx(double_sum(rates, decay), abs=1e-12)

    @given(rate_lists, decays)
    def test_closed_form(self, rates, decay):
        lr = np.array(rates)
        d, t = lr[:-1] - lr[1:], len(lr) - 1
        expected = np.sum(d * (1 - decay ** (t - np.arange(1, t + 1) + 1.0)) / (1 - decay))
        assert areas(from_rates(rates), decay=decay).s2[-1] == pytest.approx(expected, abs=1e-10)

    @given(rate_lists, decays)
    def test_a_falling_schedule_keeps_the_bounds(self, rates, decay):
        lr = np.sort(rates)[::-1]
        s2 = areas(from_rates(lr), decay=decay).s2
        assert np.all(s2 >= -1e-15)
        assert np.all(s2 <= (lr[0] - lr) / (1 - decay) + 1e-12)

    @given(rate_lists, rate_lists, decays, st.sampled_from(["origin", "carry"]))
    def test_both_phases_together_are_the_concatenated_run(self, before, after, decay, boundary):
        base = from_rates(before)
        whole = from_rates([*before, *after[1:]])
        both = areas(from_rates(after, "cpt", base), decay=decay, boundary=boundary)
        one = areas(whole, decay=decay)
        assert both.s2 == pytest.approx(one.s2, abs=1e-12)
        assert both.s1 == pytest.approx(one.s1)

    def test_boundaries_differ_as_stated(self):
        base = Schedule([Phase("pretrain", 300, "linear", peak=2e-4)])
        run = Schedule([*base.phases, Phase("cpt", 200, "constant", peak=1e-4)])
        alone = areas(base)
        found = {name: areas(run, boundary=name) for name in ("origin", "carry", "reset_jump", "reset")}
        t = np.arange(1, 201)
        m_end = alone.s2[-1] - alone.s2[-2]
        tail = 0.999 * m_end * (1 - 0.999**t) / (1 - 0.999)
        assert found["origin"].s2_pretrain[301:] == pytest.approx(alone.s2[-1] + tail)
        jump = -1e-4 * (1 - 0.999**t) / (1 - 0.999)
        assert found["origin"].s2_cpt[301:] == pytest.approx(jump)
        assert found["carry"].s2_cpt[301:] == pytest.approx(jump + tail)
        assert found["reset_jump"].s2_cpt[301:] == pytest.approx(jump)
        assert found["reset"].s2_cpt == pytest.approx(np.zeros(501))
        for name in ("carry", "reset_jump", "reset"):
            assert found[name].s2_pretrain[300:] == pytest.approx(np.full(201, alone.s2[-1]))
        for one in found.values():
            assert one.s1_pretrain[300:] == pytest.approx(np.full(201, alone.s1[-1]))
            assert one.s1_cpt[300:] == pytest.approx(1e-4 * np.arange(201))

    @pytest.mark.parametrize(
        ("last", "decay_steps", "nats"),
        [("wsd", 2000, 0.026), ("wsd", 4000, 0.0147), ("wsd", 10000, 0.0060), ("cosine", 0, 0.0002), ("wsd", 1, 0.06)],
    )
    def test_tail_that_pre_training_leaves(self, last, decay_steps, nats):
        """The sizes in nats that the specification lists (5.4), for C = 0.3."""
        base = Schedule([Phase("pretrain", 40000, last, peak=2e-4, decay=decay_steps)])
        s2 = areas(base).s2
        tail = 0.999 * (s2[-1] - s2[-2]) / (1 - 0.999)
        assert 0.3 * tail == pytest.approx(nats, rel=0.02, abs=5e-5)

    def test_warm_up_counts_at_the_peak_in_pre_training_only(self):
        base = Phase("pretrain", 1000, "constant", peak=2e-4, warmup=100)
        run = Schedule([base, Phase("cpt", 500, "constant", peak=2e-4, warmup=50)])
        assert np.all(effective_lr(run)[:1001] == 2e-4)
        assert areas(run).s2_pretrain[1000] == 0
        assert areas(run, warmup="actual").s2_pretrain[1000] < 0
        assert areas(run).s1_pretrain[-1] == pytest.approx(1001 * 2e-4)
        # The re-warm-up drops to 0 first: an annealing, then a rise that ends level.
        assert areas(run).s2_cpt[1001] > 0

    def test_re_warm_up_from_zero_raises_the_loss(self):
        run = Schedule(
            [Phase("pretrain", 100, "linear", peak=2e-4), Phase("cpt", 100, "constant", peak=2e-4, warmup=50)]
        )
        assert np.all(areas(run).s2_cpt[102:] < 0)

    def test_run_of_the_published_fit(self):
        """Areas at step 20000 of the 40-point fit (arXiv:2408.11029; specification 5.1)."""
        cosine = Schedule([Phase("pretrain", 20000, "cosine", peak=2e-4, warmup=500)])
        step = np.arange(500, 20001)
        assert cosine.lr[500:] == pytest.approx(1e-4 * (1 + np.cos(np.pi * (step - 500) / 19500)), abs=1e-18)
        found = areas(cosine)
        assert found.s1[-1] == pytest.approx(2.0501, abs=5e-5)
        assert found.s2[-1] == pytest.approx(0.19747, abs=5e-6)
        constant = Schedule([Phase("pretrain", 20000, "constant", peak=2e-4, warmup=500)])
        assert areas(constant).s1[-1] == pytest.approx(4.0002)

    def test_no_pre_training_given(self):
        run = Schedule([Phase("cpt", 10, "constant", peak=1e-4)])
        assert run.n_pretrain == 0
        found = areas(run)
        assert np.all(found.s1_pretrain == 0)
        assert np.all(found.s2_pretrain == 0)
        assert found.s1_cpt == pytest.approx(1e-4 * np.arange(11))
        assert found.s2_cpt[-1] < 0  # from a base model annealed to 0
        level = Schedule([Phase("cpt", 10, "constant", peak=1e-4, start=1e-4)])
        assert np.all(areas(level).s2_cpt == 0)

    def test_decay_rescaled_by_tokens_of_a_step(self):
        base = Phase("pretrain", 400, "linear", peak=2e-4, tokens_per_step=4e6)
        small = Schedule([base, Phase("cpt", 400, "linear", peak=2e-4, tokens_per_step=1e6)])
        per_step, per_token = areas(small, decay=0.99), areas(small, decay=0.99, decay_unit="tokens")
        assert per_token.s2_pretrain[:401] == pytest.approx(per_step.s2_pretrain[:401])
        alone = Schedule([Phase("cpt", 400, "linear", peak=2e-4)])
        slow = areas(alone, decay=0.99**0.25).s2_cpt
        assert per_token.s2_cpt[401:] == pytest.approx(slow[1:])
        with pytest.raises(UsageError, match="tokens_per_step"):
            areas(alone, decay_unit="tokens")

    def test_weighting_by_the_rate(self):
        rates = [1.0, 0.5, 0.25, 0.0]
        plain = np.diff(areas(from_rates(rates), decay=0.9).s2, prepend=0.0)
        weighted = areas(from_rates(rates), decay=0.9, lr_power=0.2).s2
        assert weighted == pytest.approx(np.cumsum(plain * np.array(rates) ** 0.2))

    @pytest.mark.parametrize(
        "wrong", [{"boundary": "carried"}, {"warmup": "none"}, {"decay": 1.5}, {"decay_unit": "epoch"}]
    )
    def test_unknown_options_are_refused(self, wrong):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            areas(from_rates([1, 0.5]), **wrong)


class TestShapes:
    @pytest.mark.parametrize("name", ["wsd", "wsd-exp", "wsd-1-sqrt", "two-stage", "linear", "cosine"])
    def test_begin_at_the_peak_and_end_at_the_end(self, name):
        decay = {} if name in ("linear", "cosine") else {"decay": 25}
        lr = Schedule([Phase("pretrain", 100, name, peak=1e-3, warmup=10, end=1e-4, **decay)]).lr
        assert len(lr) == 101
        assert lr[:10] == pytest.approx(1e-3 * np.arange(10) / 10)
        assert lr[10] == pytest.approx(1e-3)
        assert lr[-1] == pytest.approx(1e-4)
        assert np.all(np.diff(lr[10:]) <= 0)
        if decay:
            assert lr[10:75] == pytest.approx(np.full(65, 1e-3))

    def test_inverse_square_root(self):
        lr = Schedule([Phase("pretrain", 1000, "inverse-sqrt", peak=1e-3, warmup=100)]).lr
        assert lr[400] == pytest.approx(0.5e-3)
        cooled = Schedule([Phase("pretrain", 1000, "inverse-sqrt", peak=1e-3, warmup=100, decay=200)]).lr
        assert cooled[:801] == pytest.approx(lr[:801])
        assert cooled[-1] == 0
        assert np.diff(cooled[800:]) == pytest.approx(np.full(200, -lr[800] / 200))

    def test_one_minus_square_root(self):
        lr = Schedule([Phase("pretrain", 100, "wsd-1-sqrt", peak=1.0, decay=40)]).lr
        assert lr[60:] == pytest.approx(1 - np.sqrt(np.arange(41) / 40))

    def test_shares_of_steps_and_of_the_peak(self):
        phase = Phase("cpt", "20K", "wsd", peak="2e-4", warmup="1%", decay="20%", end="10%")
        assert (phase.steps, phase.warmup, phase.decay) == (20000, 200, 4000)
        assert phase.end == pytest.approx(2e-5)

    def test_without_a_peak_cpt_goes_on_where_pre_training_ended(self):
        run = Schedule([Phase("pretrain", 10, "wsd", peak=2e-4, decay=5, end=5e-5), Phase("cpt", 10, "linear")])
        assert run.lr[10] == pytest.approx(5e-5)
        assert run.lr[11:] == pytest.approx(5e-5 * (1 - np.arange(1, 11) / 10))

    def test_tokens(self):
        run = Schedule([Phase("pretrain", 3, "constant", peak=1e-4), Phase("cpt", 2, "constant", tokens_per_step="4M")])
        assert [phase.tokens_per_step for phase in run.phases] == [None, 4e6]

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"schedule": "cosin"}, "Did you mean 'cosine'"),
            ({"phase": "pretraining"}, "Did you mean 'pretrain'"),
            ({"steps": 0}, "one optimiser step or more"),
            ({"steps": "1.5"}, "whole number"),
            ({"schedule": "wsd"}, "needs the number of its last steps"),
            ({"schedule": "wsd-exp", "decay": 5}, "never reaches 0"),
            ({"decay": 5}, "has no last part"),
            ({"schedule": "constant", "end": 1e-5}, "has no end value"),
            ({"warmup": 0.1}, "written with its sign"),
            ({"schedule": "wsd", "decay": 80, "warmup": 30}, "do not fit"),
            ({"peak": "10%"}, "expected a learning rate"),
            ({"schedule": "inverse-sqrt"}, "Give warmup"),
            ({"tokens_per_step": -1}, "positive"),
        ],
    )
    def test_phases_that_make_no_sense_are_refused(self, wrong, says):
        with pytest.raises(UsageError, match=says):
            Phase(**{"phase": "cpt", "steps": 100, "schedule": "cosine", "peak": 1e-4} | wrong)

    def test_schedules_are_frozen(self):
        run = Schedule([Phase("cpt", 5, "constant", peak=1e-4)])
        with pytest.raises(ValueError, match="read-only"):
            run.lr[0] = 1
        with pytest.raises(AttributeError):
            run.phases = ()

    def test_order_of_phases(self):
        with refused(UsageError, "phases: ", "pretrain", "cpt"):
            Schedule([Phase("cpt", 5, "constant", peak=1e-4), Phase("pretrain", 5, "constant", peak=1e-4)])
        with pytest.raises(UsageError, match="ends at 0"):
            Schedule([Phase("pretrain", 5, "linear", peak=1e-4), Phase("cpt", 5, "linear")])


class TestLog:
    def test_a_logged_run_is_its_schedule(self):
        true = Schedule([Phase("cpt", 1000, "cosine", peak=2e-4, warmup=100)])
        found = Schedule.from_lr(np.arange(1, 1001), true.lr[1:])
        assert found.lr[1:] == pytest.approx(true.lr[1:])
        assert found.phases[0].warmup == 100

    def test_between_logged_steps_lie_straight_lines(self):
        found = Schedule.from_lr([0, 10, 20], [1e-4, 1e-4, 0.0])
        assert found.lr[15] == pytest.approx(0.5e-4)
        assert found.phases[0].warmup == 0

    def test_after_the_base_model(self):
        base = Schedule([Phase("pretrain", 100, "constant", peak=2e-4)])
        found = Schedule.from_lr([1, 2, 3], [1e-4, 1e-4, 1e-4], before=base)
        assert (found.n_pretrain, found.n_cpt) == (100, 3)
        assert found.lr[100:].tolist() == [2e-4, 1e-4, 1e-4, 1e-4]

    def test_logs_that_cannot_be_read(self):
        with refused(UsageError, "step 1 follows step 1"):
            Schedule.from_lr([0, 1, 1], [1e-4, 1e-4, 2e-4])
        with pytest.raises(UsageError, match="begins at step 500"):
            Schedule.from_lr([500, 501, 502], [1e-4, 1e-4, 1e-4])
        with refused(UsageError, "no row"):
            Schedule.from_lr([0, 1], [np.nan, np.nan])


class TestFile:
    LINES = (
        "run-a:\n"
        "  - {phase: pretrain, steps: 20000, schedule: wsd, peak: 2e-4, warmup: 500, decay: 4000, end: 0}\n"
        "  - {phase: cpt, steps: 10K, schedule: cosine, peak: 2e-4, warmup: 2%, end: 10%, tokens_per_step: 4M}\n"
    )

    def test_yaml(self, tmp_path):
        (tmp_path / "s.yaml").write_text(self.LINES)
        run = read_schedules(tmp_path / "s.yaml")["run-a"]
        assert (run.n_pretrain, run.n_cpt) == (20000, 10000)
        assert run.lr[20000] == 0
        assert run.lr[20200] == pytest.approx(2e-4)
        assert run.lr[-1] == pytest.approx(2e-5)
        assert run.phases[-1].tokens_per_step == 4e6

    def test_json_is_the_same(self, tmp_path):
        (tmp_path / "s.yaml").write_text(self.LINES)
        run = read_schedules(tmp_path / "s.yaml")["run-a"]
        (tmp_path / "s.json").write_text(json.dumps({"run-a": run.to_list()}))
        again = read_schedules(tmp_path / "s.json")["run-a"]
        assert again == run
        assert np.array_equal(again.lr, run.lr)

    def test_points_from_a_file(self, tmp_path):
        (tmp_path / "lr.csv").write_text("step,lr\n0,0\n100,2e-4\n1000,2e-4\n2000,0\n")
        (tmp_path / "s.yaml").write_text("a:\n  - {phase: pretrain, file: lr.csv, warmup: 100}\n")
        run = read_schedules(tmp_path / "s.yaml")["a"]
        assert run.n_steps == 2000
        assert run.lr[1500] == pytest.approx(1e-4)
        assert np.all(effective_lr(run)[:100] == 2e-4)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("a: [", "s.yaml, line"),
            ("- 1\n", "expected each run's name"),
            ("a: 5\n", "run 'a': expected a list of phases"),
            ("a:\n  - {phase: cpt, step: 5}\n", "phase 1: unknown key 'step'. Did you mean 'steps'"),
            ("a:\n  - {phase: cpt, schedule: cosine}\n", "lacks steps"),
            ("a:\n  - {phase: cpt, steps: 5, schedule: cosine, peak: fast}\n", "'fast' is not a number"),
            ("a:\n  - {phase: cpt, steps: 5, schedule: linear}\n", "Give peak"),
            ("a:\n  - {phase: cpt, file: none.csv}\n", "none.csv"),
            ("a: !!python/object/apply:os.system ['true']\n", "not YAML"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_place(self, tmp_path, text, says):
        (tmp_path / "s.yaml").write_text(text)
        with pytest.raises(DataError) as raised:
            read_schedules(tmp_path / "s.yaml")
        assert says in str(raised.value)

    def test_a_bad_row_of_points(self, tmp_path):
        (tmp_path / "lr.csv").write_text("step,lr\n0,1e-4\n1,x\n")
        (tmp_path / "s.yaml").write_text("a:\n  - {phase: cpt, file: lr.csv}\n")
        with refused(DataError, "row 3", "'x'"):
            read_schedules(tmp_path / "s.yaml")


@needs_data
def test_named_schedules_are_what_real_trainers_logged():
    """The nine schedules of the multi-power repository, by name and by log."""
    curves = pd.read_csv(PUBLIC / "mpl_lr_curves.csv")
    peak, end, warmup = 3e-4, 3e-5, 2160
    named = {
        f"{kind}_{k}000": {"schedule": kind, "steps": k * 1000} for kind in ("constant", "cosine") for k in (24, 72)
    }
    named["wsd_20000_24000"] = {"schedule": "wsd-exp", "steps": 24000, "decay": 4000}
    named["wsdld_20000_24000"] = {"schedule": "wsd", "steps": 24000, "decay": 4000}
    named |= {
        f"wsdcon_{k}": {"schedule": "two-stage", "steps": 16000, "decay": 8000, "end": k * 1e-5} for k in (3, 9, 18)
    }
    for name, values in named.items():
        if values["schedule"] != "constant":
            values = {"end": end} | values
        lr = Schedule([Phase("pretrain", peak=peak, warmup=warmup, **values)]).lr
        logged = curves[curves["run_id"] == f"100M_{name}"]
        assert lr[logged["step"]] == pytest.approx(logged["lr"].to_numpy(), rel=2e-3), name


@pytest.mark.parametrize("field", ["phase", "steps", "schedule", "peak", "warmup", "end", "file"])
@pytest.mark.parametrize("value", ["[1]", "{a: 1}", "[[]]"])
def test_a_list_or_a_mapping_in_a_field_is_refused(tmp_path, field, value):
    fields = {"phase": "cpt", "steps": 10, "schedule": "cosine", "peak": 1e-3, field: value}
    path = tmp_path / "s.yaml"
    path.write_text("r:\n  - {" + ", ".join(f"{name}: {one}" for name, one in fields.items()) + "}\n")
    with pytest.raises(CptlawError):
        read_schedules(path)


def test_nothing_is_quoted_of_a_file_that_is_no_schedule(tmp_path):
    for name, text in (("a.csv", "secret:x:0\nmore\n"), ("b.csv", 'secret,"\n'), ("c.csv", "secret;lr\n1;2\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / "s.yaml").write_text(f"a: [{{phase: cpt, steps: 10, file: {name}}}]")
        with pytest.raises(DataError) as caught:
            read_schedules(tmp_path / "s.yaml")
        assert name in str(caught.value)
        assert "secret" not in str(caught.value)
