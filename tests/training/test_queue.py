"""The queue of a sweep: order, failures of many, linear work, and states of trunks that nobody needs any more."""

import pytest
from small_sweep import RECIPE, Silent, prepared, results, train_here

from cptlaw_sweep.engines.base import Queue
from cptlaw_sweep.jobs import Job, Sweep

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers deprecate things of their own


class Counting:
    """A store with nothing in it, that counts how often it is asked."""

    def __init__(self, failed=()):
        self.asked, self._failed = 0, set(failed)

    def finished_ids(self):
        return set()

    def failed_ids(self):
        return self._failed

    def names(self, folder):
        return []

    def is_finished(self, key):
        self.asked += 1
        return True

    def failure_of(self, key):
        self.asked += 1
        return "a reason" if key in self._failed else None

    def try_again(self, key, *, anyway):
        return anyway

    def remove(self, name):
        pass


def ladder(n):
    """One base and n runs that need it."""
    base = Job("base", "base", {"number": -1, "keep": "weights"})
    runs = [Job(f"run-{i}", "adapt", {"number": i, "keep": None}, needs=(base.id,)) for i in range(n)]
    return Sweep("many", (base, *runs), {}, "")


def steps_of(sweep, store, monkeypatch):
    """Return how many comparisons and pushes the heap made while all jobs ran one after another."""
    import heapq

    from cptlaw_sweep.engines import base

    calls = 0

    class Counted:
        @staticmethod
        def heappush(*arguments):
            nonlocal calls
            calls += 1
            heapq.heappush(*arguments)

        @staticmethod
        def heappop(*arguments):
            nonlocal calls
            calls += 1
            return heapq.heappop(*arguments)

    monkeypatch.setattr(base, "heapq", Counted)
    queue = Queue(sweep, store, retry_failed=False, progress=Silent())
    order = []
    while ready := queue.ready(1):
        order.append(ready[0].name)
        queue.start(ready[0])
        queue.settle(ready[0])
    assert order == [job.name for job in sweep.jobs]
    assert not queue
    return calls


def test_work_grows_with_the_jobs_and_no_faster(monkeypatch):
    small, large = (steps_of(ladder(n), Counting(), monkeypatch) for n in (500, 2000))
    assert large <= 4.1 * small


def test_a_failed_base_fails_its_runs_in_one_pass_and_deep_chains_do_not_overflow():
    jobs = [Job("0", "trunk", {"number": 0, "keep": "state"})]
    for i in range(1, 3000):
        jobs.append(Job(str(i), "trunk", {"number": i, "keep": "state"}, needs=(jobs[-1].id,)))
    progress = Silent()
    queue = Queue(Sweep("deep", tuple(jobs), {}, ""), Counting([jobs[0].id]), retry_failed=False, progress=progress)
    assert not queue
    assert len(progress.failures) == 3000
    assert progress.failures["2999"] == "needs 2998, which failed"


def test_states_of_a_trunk_go_when_nobody_needs_them_and_come_back_when_the_recipe_grows(recipe, tmp_path):
    sweep, store = prepared(recipe(), tmp_path / "out")
    assert not train_here(sweep, store).failures
    first, last = (job for job in sweep.jobs if job.kind == "trunk")
    kept = set(store.names("models"))
    assert first.id not in kept
    assert last.id in kept
    before = results(sweep, store)
    # Another decay off the first stage: its state is trained again, to the same bits, and nothing else is.
    grown, store = prepared(
        recipe(pretrain={**RECIPE["pretrain"], "decay": "15%", "ptpp": [4, 6, 8]}), tmp_path / "out"
    )
    progress = train_here(grown, store)
    assert not progress.failures
    assert len(progress.done) == len(grown.jobs)
    assert {name: rows for name, rows in results(grown, store).items() if name in before and "p8" not in name} == {
        name: rows for name, rows in before.items() if "p8" not in name
    }
