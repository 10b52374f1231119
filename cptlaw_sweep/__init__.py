"""The sweep: train the runs that a law needs, on one core or on a cluster.

Reading and pricing a recipe needs nothing beyond the package; training needs ``pip install 'cptlaw[training]'``.
"""

from __future__ import annotations

from importlib.util import find_spec

from cptlaw.errors import UsageError


def require_training() -> None:
    """Refuse to train where the extra `training` is not installed."""
    for package in ("torch", "transformers", "accelerate", "fsspec"):
        if not _is_there(package):
            raise UsageError(
                f"training needs {package}, which is not installed. Install it with: pip install 'cptlaw[training]'"
            )


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False
