"""Where laws are known by name.

Nothing is listed here. A class with a name registers itself when it is defined: a built-in law when its file in this
folder is imported, a law of a package beside the core or of any other through the entry-point group ``cptlaw.laws``,
any other when the notebook or module that defines it runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from threading import RLock
from typing import TypeVar

from cptlaw.errors import UsageError
from cptlaw.laws.described import Described
from cptlaw.plugins import BESIDE, LAWS, plugin_entries

SomeLaw = TypeVar("SomeLaw", bound=Described)

SYNONYMS = {"dcpt": "dcpt-l3"}
_HERE = "cptlaw.laws."
BUILT_IN = (_HERE, BESIDE)  # begins the modules of laws that come with the core


class Registry(Mapping[str, type[SomeLaw]]):
    """All laws by name, in the order of listings. Built-in laws and those of installed packages load on first use.

    Attributes
    ----------
    broken
        Entry points of installed packages that could not be loaded, with the reason.
    """

    def __init__(self) -> None:
        self._classes: dict[str, type[SomeLaw]] = {}
        self._loading = RLock()
        self._built_in = self._installed = False
        self.broken: dict[str, str] = {}

    def add(self, cls: type[SomeLaw]) -> None:
        """Register a class under its name.

        A second class of the same name and module replaces the first, as when a notebook's cell runs again.

        Raises
        ------
        UsageError
            If the name belongs to a built-in law or to another package's.
        """
        if not cls.__module__.startswith(BUILT_IN):
            self._load_built_in()  # so that a clash is found whichever comes first
        name = cls.name
        if not isinstance(name, str) or not name or set(name) & set(":, \t\n"):
            raise UsageError(
                f"class {cls.__qualname__}: the name of a law is text without spaces, : and ,; not {name!r}."
            )
        known = self._classes.get(name)
        rerun = known is not None and (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__)
        built_in = known is not None and known.__module__.startswith(BUILT_IN)
        if (known is not None and not rerun and (built_in or known.__module__ != cls.__module__)) or name in SYNONYMS:
            owner = "a built-in law" if known is None or built_in else f"a law of {known.__module__}"
            raise UsageError(
                f"class {cls.__qualname__}: {name!r} is the name of {owner}, and files know laws by their name. Give "
                f"the class another one: name = ..."
            )
        self._classes[name] = cls

    def is_registered(self, chosen: SomeLaw) -> bool:
        """Say whether a law's name stands for a class like its own, so that a file can name it."""
        known = self._classes.get(chosen.name)
        own = type(chosen)
        return known is not None and (known.__module__, known.__qualname__) == (own.__module__, own.__qualname__)

    def __getitem__(self, name: str) -> type[SomeLaw]:
        if name not in self._classes:
            self._load_built_in()
        if name not in self._classes:
            self._load_installed()
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        self._load_built_in()
        self._load_installed()
        return iter(sorted(self._classes, key=self._place))

    def _place(self, name: str) -> tuple[bool, int]:
        cls = self._classes[name]
        return not cls.__module__.startswith(BUILT_IN), cls.order

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _load_built_in(self) -> None:
        with self._loading:
            if not self._built_in:
                self._built_in = True
                package = importlib.import_module("cptlaw.laws")
                for module in pkgutil.walk_packages(package.__path__, _HERE):
                    importlib.import_module(module.name)
                self._load_entries(own=True)

    def _load_installed(self) -> None:
        with self._loading:
            if not self._installed:
                self._installed = True
                self._load_entries(own=False)

    def _load_entries(self, own: bool) -> None:
        """Load laws of packages that come with the core, or of all others."""
        for entry in plugin_entries(LAWS).values():
            if entry.value.startswith(BESIDE) == own:
                try:
                    entry.load()
                except Exception as error:  # noqa: BLE001 - another package's fault must not stop this one
                    self.broken[f"{entry.name} = {entry.value}"] = f"{type(error).__name__}: {error}"
