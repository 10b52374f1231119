"""Hostile cases of `tests/fuzz.py`, all families in turn, a thousand at night; and rows at the ends of a float."""

import sys
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
from cptlaw import examples
from cptlaw.errors import CptlawError
from cptlaw.laws import LAWS, law

sys.path.insert(0, str(Path(__file__).parent))
import fuzz

CHUNKS = 5
# Every 15th row, to which as many laws are fitted as to more: what is asked is how verbs end, and a fit that takes all
# its steps costs as the rows.
PILOT = examples.load("en-fr-pilot").where("ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5)").frame.iloc[::15]


@pytest.mark.dear("two hundred cases, so that each family has some")
@pytest.mark.parametrize("chunk", [0, *(pytest.param(chunk, marks=pytest.mark.nightly) for chunk in range(1, CHUNKS))])
def test_hostile_input_ends_well(chunk):
    defects = [defect for defect in fuzz.cases(1000 // CHUNKS, seed=chunk) if defect is not None]
    assert [f"seed {chunk}, case {found.number} ({found.family}): {found.what}" for found in defects] == []


@pytest.mark.dear("a third of all laws, whose fits take all their steps")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.nightly), 7])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("loss", 1e308),
        ("loss", 1e49),
        ("ptpp", 1e300),
        ("tokens", 1e49),
        *(
            pytest.param(*end, marks=pytest.mark.nightly)
            for end in (("loss", 5e-324), ("loss", 1e-49), ("ptpp", 1e49), ("n_params", 1e49), ("replay", 1e-49))
        ),
    ],
)
def test_numbers_at_the_ends_are_fitted_or_refused(column, value, every):
    frame = pd.DataFrame(PILOT).copy()
    frame[column] = np.where(np.arange(len(frame)) % every == 0, value, frame[column])
    try:
        runs = cl.read_runs(frame)  # once, so that its rows are judged once for all laws
    except CptlawError as error:
        assert len(str(error)) < 12_000  # noqa: PT017  either is right
        return
    # Such a fit takes all its steps, seconds of them: each law is checked at all of these, and fitted at about a third.
    turn = zlib.crc32(f"{column} {value} {every}".encode())
    for place, name in enumerate(LAWS):
        if not law(name).needs_schedules:
            for verb, options in ((cl.check, {}), (cl.fit, {"starts": 1}))[: 2 if (place + turn) % 3 == 0 else 1]:
                try:
                    verb(name, runs, "target", **options).summary()
                except CptlawError as error:
                    assert len(str(error)) < 12_000  # noqa: PT017  either is right


@pytest.mark.parametrize("gone", ["tokens", "n_params", "ptpp", "replay", "run", "seed"])
def test_a_column_that_is_not_there_is_told(gone):
    frame = pd.DataFrame(PILOT).drop(columns=gone)
    try:
        runs = cl.read_runs(frame)
    except CptlawError as error:
        assert len(str(error)) < 12_000  # noqa: PT017  either is right
        return
    for name in LAWS:
        try:
            cl.check(name, runs, "target").summary()
        except CptlawError as error:
            assert len(str(error)) < 12_000  # noqa: PT017  either is right
