"""Faults that the suite must see: each is put into a copy of this tree, and the tests that should fail there are run.

    python tests/mutants.py            all of them: killed, or alive
    python tests/mutants.py replay     those with a word in their names

A text that a mutant replaces stands once in its file: where the code has changed, the mutant is to be written anew.
Where one is alive, a test is missing, or was cut too short.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Mutant(NamedTuple):
    """One fault."""

    name: str  # its kind, and what it does
    path: str
    text: str
    instead: str
    tests: str  # as pytest takes them, and -k


MUTANTS = [
    Mutant(
        "sign: a replay column is told from its complement by losses, turned round",
        "cptlaw/runs/candidates.py",
        "float(np.sign(3.0 * one.source if one.source else -one.target))",
        "float(np.sign(-3.0 * one.source if one.source else one.target))",
        "tests/runs/test_questions.py",
    ),
    Mutant(
        "sign: replay-reversed expects the losses to go the other way",
        "cptlaw/runs/data_errors.py",
        'value if role == "source" else -value',
        'value if role == "target" else -value',
        "tests/runs/test_data_errors.py::test_mistakes_that_few_rows_tell",
    ),
    Mutant(
        "sign: the source loss rises with replay, to tell roles",
        "cptlaw/runs/table.py",
        '(("source", -1.0), ("target", 1.0))',
        '(("source", 1.0), ("target", -1.0))',
        "tests/runs/test_roles.py",
    ),
    Mutant("unit: T stands for 1e9", "cptlaw/units.py", '"T": 12, "%"', '"T": 9, "%"', "tests/test_units.py"),
    Mutant(
        "unit: steps before the first count as tokens",
        "cptlaw/importing/assemble.py",
        "(record.step - wanted.first_step) * wanted.batch_tokens",
        "record.step * wanted.batch_tokens",
        "tests/importing/test_text_logs.py",
    ),
    Mutant(
        "orientation: the own share of a loss is that of the other",
        "cptlaw/laws/inputs.py",
        "np.where(is_share, values, 1.0 - values)",
        "np.where(is_share, 1.0 - values, values)",
        "tests/laws/test_dcpt.py",
    ),
    Mutant(
        "orientation: target tokens of a mix are its source tokens",
        "cptlaw/planning/mixes/expected.py",
        '"target_tokens": (1.0 - replay) * tokens, "source_tokens": replay * tokens',
        '"target_tokens": replay * tokens, "source_tokens": (1.0 - replay) * tokens',
        "tests/planning/test_trade_off.py",
    ),
    Mutant(
        "threshold: shares of a mix may miss one by a twentieth",
        "cptlaw/runs/corpora.py",
        "OFF = 5e-3",
        "OFF = 5e-2",
        "tests/laws/test_corpora.py -k share",
    ),
    Mutant(
        "word: an old domain is no source",
        "cptlaw/runs/tracker_names.py",
        'return None if old == new else "source" if old else "target"',
        'return None if old == new else "target" if old else "source"',
        "cptlaw/runs/tracker_names.py",
    ),
    Mutant(
        "weight: laws that erred more in rollouts weigh more",
        "cptlaw/fitting/weights.py",
        "np.log(self.share) - sharpness[:, None]",
        "np.log(self.share) + sharpness[:, None]",
        "tests/fitting/auto/test_auto.py -k weighed",
    ),
    Mutant(
        "weight: rollouts in another direction count as much",
        "cptlaw/fitting/weights.py",
        "np.maximum(cosine, 0.0) ** POWER",
        "1.0",
        "tests/fitting/auto/test_auto.py -k weighed",
    ),
    Mutant(
        "limit: forgetting is relative to the loss that it reaches",
        "cptlaw/planning/limits.py",
        "return base * (1.0 + value) if",
        "return base / (1.0 - value) if",
        "tests/planning/test_limits.py",
    ),
    Mutant(
        "limit: the best point that breaks its limits is taken",
        "cptlaw/planning/solve.py",
        "(reached - self.value) / max(abs(self.value), LEAST_SCALE)",
        "(self.value - reached) / max(abs(self.value), LEAST_SCALE)",
        "tests/planning/test_solve.py",
    ),
    Mutant(
        "risk: one side of a doubt is read as both",
        "cptlaw/planning/limits.py",
        "coverage = 2.0 * self.risk - 1.0",
        "coverage = self.risk",
        "tests/planning/test_limits.py",
    ),
    Mutant(
        "interval: what lies far from the runs is no less sure",
        "cptlaw/fitting/doubt.py",
        "of_distance = beyond_the_data(fit, away, coverage) ** 2",
        "of_distance = 0.0 * beyond_the_data(fit, away, coverage) ** 2",
        "tests/fitting/test_study_prior.py",
    ),
    Mutant(
        "seed: fits of two seeds are one",
        "cptlaw/fitting/fit_cache.py",
        '(name, value) != ("seed", 0)',
        'name != "seed"',
        "tests/fitting/test_fit_cache.py",
    ),
    Mutant(
        "path: what a killed writer left is another's",
        "cptlaw/writing.py",
        'entry.name.startswith(prefix) and entry.name.endswith(".part")',
        'entry.name.endswith(".part")',
        "tests/test_writing.py -k killed",
    ),
    Mutant(
        "message: a plan out of reach ends as one that is reached",
        "cptlaw/cli/output.py",
        "sys.exit(INFEASIBLE)",
        "sys.exit(0)",
        "tests/planning/test_schedule_plans.py -k infeasible_is",
    ),
    Mutant(
        "message: the share of one corpus is asked for the wrong way round",
        "cptlaw/runs/corpora.py",
        'choices = [f"replay={place}", f"replay=1-{place}"]',
        'choices = [f"replay=1-{place}", f"replay={place}"]',
        "tests/laws/test_corpora.py -k share",
    ),
    Mutant(
        "seal: a file that was changed is taken",
        "cptlaw/forecasting/sealing/seal.py",
        "if _sha256(document) != kept:",
        "if not kept:",
        "tests/forecasting/sealing/test_sealing.py",
    ),
]


def run(mutant, copy):
    """Return why a mutant is not killed; nothing where it is."""
    path = copy / mutant.path
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.text) != 1:
        return f"its text stands {source.count(mutant.text)} times in {mutant.path}: write it anew"
    path.write_text(source.replace(mutant.text, mutant.instead), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests.split()]
    done = subprocess.run(
        command,
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    path.write_text(source, encoding="utf-8")
    if done.returncode > 1:
        return f"its tests could not be run: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return "" if done.returncode else f"alive: {mutant.tests} passes"


def main(words):
    """Say what becomes of each mutant."""
    chosen = [one for one in MUTANTS if all(word in one.name for word in words)]
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / ROOT.name
        kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, kept.split("\0")):
            if (ROOT / name).exists():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        for mutant in chosen:
            why = run(mutant, copy)
            failed += bool(why)
            print(f"{'ALIVE ' if why else 'killed'}  {mutant.name}{': ' + why if why else ''}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} killed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
