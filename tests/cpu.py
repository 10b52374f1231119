"""CPU of each test: printed at the end of a run, written with `--cpu=FILE`, and held to a limit.

    python -m pytest -n auto --cpu=cpu.json    the suite, and what each test cost
    python tests/cpu.py cpu.json               fails where a test costs more than it may, and says no reason

Counted are this process and the processes that a test waits for. A fixture that several tests share is counted under
its own name. A test above the limit is marked, with the reason that it must cost so much:
`@pytest.mark.dear("why it must")`.
"""

import collections
import json
import os
import sys
import time
from pathlib import Path

import pytest

LIMIT, SLACK = 3.0, 6.0  # seconds of CPU, and how much slower the slowest machine may be (two busy cores double it)


def spent():
    """Return the seconds of CPU of this process and of those that it waited for."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


class Meter:
    """What the test that runs has spent, less what its shared fixtures spent."""

    def __init__(self):
        self.fixtures = {}
        self.shared = 0.0  # of fixtures that end within another one, so that nothing is counted twice

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.fixtures, self.shared, self.start = {}, 0.0, spent()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        start, before = spent(), self.shared
        try:
            return (yield)
        finally:
            own = spent() - start - (self.shared - before)
            self.shared += own
            name = f"{fixturedef.baseid or 'conftest.py'}::[{fixturedef.argname}]"
            self.fixtures[name] = self.fixtures.get(name, 0.0) + own

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "teardown":
            reasons = [mark.args[0] for mark in item.iter_markers("dear")]
            item.user_properties += [
                ("cpu", spent() - self.start - self.shared),
                ("shared", self.fixtures),
                ("dear", reasons),
            ]


class Bill:
    """What all tests cost, where the run is led from."""

    def __init__(self, path):
        self.path, self.tests, self.fixtures, self.dear = path, {}, collections.Counter(), {}

    def pytest_runtest_logreport(self, report):
        found = dict(report.user_properties)
        if report.when == "teardown" and "cpu" in found:
            self.tests[report.nodeid] = round(found["cpu"], 3)
            self.fixtures.update(found["shared"])
            if found["dear"]:
                self.dear[report.nodeid] = found["dear"][0]

    def pytest_terminal_summary(self, terminalreporter):
        both = self.tests | dict(self.fixtures)
        rooms = collections.Counter()
        for name, seconds in both.items():
            rooms[room(name)] += seconds
        terminalreporter.section("CPU")
        terminalreporter.line(f"{sum(both.values()):.0f} s: {len(self.tests)} tests and what they share")
        terminalreporter.line(", ".join(f"{name} {seconds:.0f}" for name, seconds in rooms.most_common()))
        for name in sorted(both, key=both.get)[:-11:-1]:
            terminalreporter.line(f"{both[name]:7.1f} s  {name}")
        if self.path:
            shared = {name: round(seconds, 3) for name, seconds in self.fixtures.items()}
            kept = {"tests": self.tests, "shared": shared, "dear": self.dear}
            Path(self.path).write_text(json.dumps(kept, indent=1), encoding="utf-8")


def room(name):
    """Return the top folder of tests, or the package of a doctest."""
    first, *rest = name.split("::")[0].split("/")
    return rest[0] if first == "tests" and len(rest) > 1 else first


def pytest_addoption(parser):
    parser.addoption("--cpu", metavar="FILE", help="write the CPU of each test into this file")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput") and config.pluginmanager.has_plugin("terminalreporter"):
        config.pluginmanager.register(Bill(config.getoption("--cpu")))


def main(path):
    """Say which tests cost more than they may."""
    kept = json.loads(Path(path).read_text(encoding="utf-8"))
    found = {name: cost for name, cost in kept["tests"].items() if cost > LIMIT * SLACK and name not in kept["dear"]}
    for name, cost in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{cost:7.1f} s  {name}: above {LIMIT:g} s of CPU (times {SLACK:g}); ask less, or pytest.mark.dear(WHY)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
