"""The sweep: train the runs that a law needs, on one core or on a cluster. Needs ``pip install 'cptlaw[training]'``."""

from __future__ import annotations

from cptlaw.errors import UsageError

try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
    import yaml  # noqa: F401
except ImportError as missing:
    raise UsageError(
        f"training needs {missing.name}, which is not installed. Install it with: pip install 'cptlaw[training]'"
    ) from None
