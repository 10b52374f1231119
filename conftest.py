"""Modules for libraries that are not installed are left out; `make test-training` installs torch and runs the sweep."""

from importlib.util import find_spec

_NEEDS = {
    "torch": ["cptlaw_sweep", "tests/training"],
    "transformers": ["cptlaw_sweep/integrations/huggingface.py"],
    "optuna": ["cptlaw_sweep/integrations/optuna_pruner.py"],
    "ray": ["cptlaw_sweep/integrations/ray_stopper.py"],
    "sklearn": ["cptlaw/sklearn.py"],
    "markdown_it": ["tests/test_pages.py"],
}
collect_ignore = [path for package, paths in _NEEDS.items() if not find_spec(package) for path in paths]
