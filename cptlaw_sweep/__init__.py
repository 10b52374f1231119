"""The sweep: train the runs that a law needs, on one core or on a cluster.

Reading and pricing a recipe needs nothing beyond the package; training needs ``pip install 'cptlaw[training]'``.
"""

from __future__ import annotations

from importlib.util import find_spec

from cptlaw.errors import needed_for


def require_training() -> None:
    """Refuse to train where the extra `training` is not installed."""
    with needed_for("training", "cptlaw[training]"):
        for package in ("torch", "transformers", "accelerate", "fsspec"):
            if find_spec(package) is None:  # looked for and not imported: a dry run and a status need none of them
                raise ModuleNotFoundError(name=package)
