"""Modules for libraries that are not installed are left out; `make test-training` installs torch and runs the sweep."""

import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests"))  # by its folder: a package called tests may be installed
pytest_plugins = ["cpu"]
NEEDS = {
    "torch": ["cptlaw_sweep", "tests/training"],
    "transformers": ["cptlaw_sweep/integrations/huggingface.py"],
    "optuna": ["cptlaw_sweep/integrations/optuna_pruner.py"],
    "ray": ["cptlaw_sweep/integrations/ray_stopper.py"],
    "sklearn": ["cptlaw/sklearn.py"],
    "markdown_it": ["tests/test_pages.py"],
}
LEFT_OUT = [ROOT / path for package, paths in NEEDS.items() if not find_spec(package) for path in paths]


def pytest_ignore_collect(collection_path):
    """Leave out what is in a folder too, which `collect_ignore` does not do for a folder that pytest is started on."""
    return True if any(collection_path.is_relative_to(path) for path in LEFT_OUT) else None
