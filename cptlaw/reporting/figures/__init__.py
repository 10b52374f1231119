"""Figures: one function each, data in, figure out.

Every one returns a `Figure`: a Plotly drawing, its caption in words, and its data as a table for other tools. None is
listed: a function in a file of its own name is a figure.
"""

import importlib
import pkgutil

from cptlaw.reporting.figures.figure import Figure

__all__ = ["Figure"]

for _module in pkgutil.iter_modules(__path__):
    # The file is imported under the name of its function, so the function takes the place of the file here.
    _found = getattr(importlib.import_module(f"{__name__}.{_module.name}"), _module.name, None)
    if callable(_found):
        globals()[_module.name] = _found
        __all__ += [_module.name]


def __dir__() -> list[str]:
    return sorted(__all__)  # what tab completion shows: public names only
