"""What the cases of `fuzz` are made of: odd numbers, odd texts, spoilt tables, damaged bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ODD_NUMBERS = [
    0.0, -0.0, -1.0, 0.5, 1.0, 2.5, 1e-300, 5e-324, 1e300, 1.7e308, float("inf"), float("nan"), 1e3, 1e6, 1e9, 1e15,
]  # fmt: skip
ODD_TEXTS = [
    "", " ", "x", "nan", "-", "8.1B", "34%", "1e400", "1_0", "1__0", "0x_", "1,5", "=1+1", "@a", "+", "\u00e9",
    "\u202ea", "a\x1b[31mb", "a\x00b", "\ud800", "a" * 300, "1" * 3000, "1" * 3000 + "x", "9" * 400, "../../x",
    "..", "/etc/passwd", '"', "'", "`", "\n", "\t", "null", "true", "!!int x", "&a *a", "{", "[", "%", "1e5%",
    ".5K", "5e-324", "target", "source", "2024-13-45", "<img src=x onerror=alert(1)>", "${HOME}", "$(id)", "\u0661",
    "NA", "None", "-inf", "{x}",
]  # fmt: skip
COLUMNS = ["run", "eval", "loss", "n_params", "tokens", "replay", "ptpp", "step", "lr", "seed", "domain", "phase", "N"]


@dataclass
class World:
    """What cases need: a source of chance, a folder of their own, and two sound fits."""

    draw: random.Random
    folder: Path
    fits: tuple[Any, Any]
    fit_texts: tuple[str, str]

    def number(self) -> float:
        """Return a number, mostly odd."""
        if self.draw.random() < 0.5:
            return self.draw.choice(ODD_NUMBERS)
        return self.draw.choice([1, -1]) * 10 ** self.draw.uniform(-12, 14)

    def text(self) -> str:
        """Return a text, mostly odd."""
        if self.draw.random() < 0.7:
            return self.draw.choice(ODD_TEXTS)
        return "".join(
            chr(self.draw.choice([self.draw.randrange(32, 127), self.draw.randrange(0x2FF)])) for _ in range(8)
        )

    def name(self) -> str:
        """Return a text that pandas takes for a name."""
        return self.text().encode("utf-8", "replace").decode()

    def value(self, depth: int = 0) -> Any:
        """Return anything that JSON can hold, and a little more."""
        kind = self.draw.randrange(9 if depth < 4 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.draw.randrange(4))]
        if kind == 7:
            return {self.text(): self.value(depth + 1) for _ in range(self.draw.randrange(4))}
        if kind == 8:
            return [[[[self.draw.choice([None, {}, []])]]] * 50]
        return self.draw.choice([None, True, False, self.number(), self.text(), self.draw.randrange(-(10**30), 10**30)])

    def quantity(self) -> str:
        """Return a quantity as people type it, or nearly."""
        if self.draw.random() < 0.6:
            return f"{self.draw.uniform(0.1, 999):.3g}{self.draw.choice(['', 'K', 'M', 'B', 'T', '%', 'e9'])}"
        return self.draw.choice([self.text(), repr(self.number())])

    def frame(self, rows: int | None = None) -> pd.DataFrame:
        """Return a table of runs with some odd columns and cells."""
        n = self.draw.randrange(1, 25) if rows is None else rows
        rng = np.random.default_rng(self.draw.randrange(2**32))
        frame = pd.DataFrame(
            {
                "run": [f"r{place}" for place in range(n)],
                "eval": rng.choice(["target", "source"], n),
                "loss": rng.uniform(1.5, 4, n),
                "n_params": rng.choice([1e6, 3e6, 1e7], n),
                "tokens": rng.choice([0.0, 1e7, 3e7, 1e8], n),
                "replay": rng.choice([0.0, 0.1, 0.25, 0.5], n),
                "ptpp": rng.choice([15.0, 31.0, 124.0], n),
            }
        )
        for _ in range(self.draw.randrange(4)):
            self._spoil(frame)
        return frame

    def _spoil(self, frame: pd.DataFrame) -> None:
        name = self.draw.choice(list(frame.columns))
        kind = self.draw.randrange(6)
        if kind == 0 and len(frame.columns) > 1:
            del frame[name]
        elif kind == 1:
            texts = [self.text() for _ in range(len(frame))]
            frame[self.draw.choice([*COLUMNS, self.name()])] = pd.Series(texts, dtype=object, index=frame.index)
        elif kind == 2:
            frame.rename(columns={name: self.draw.choice([*COLUMNS, self.name()])}, inplace=True)
        elif kind == 3:
            frame[name] = self.number()
        else:
            if isinstance(frame[name], pd.DataFrame):  # twice there, by an earlier slip
                return
            cells = frame[name].astype(object).tolist()
            cells[self.draw.randrange(len(cells))] = self.draw.choice([self.value(), self.number(), self.text()])
            frame[name] = pd.Series(cells, dtype=object, index=frame.index)

    def bytes_of(self, content: bytes) -> bytes:
        """Return bytes that were damaged in a few places."""
        data = bytearray(content)
        for _ in range(self.draw.randrange(5)):
            at = self.draw.randrange(len(data) + 1)
            kind = self.draw.randrange(5)
            if kind == 0:
                del data[at : at + self.draw.randrange(20)]
            elif kind == 1:
                data[at:at] = self.text().encode("utf-8", "surrogatepass")
            elif kind == 2 and at < len(data):
                data[at] = self.draw.randrange(256)
            elif kind == 3:
                del data[at:]
            else:
                data[at:at] = data[: self.draw.randrange(50)]
        return bytes(data)

    def write(self, name: str, content: bytes | str) -> Path:
        """Write a file into the case's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return path

    def query(self) -> str:
        """Return a filter, or nearly."""
        words = [*COLUMNS, "and", "or", "not", "in", "(", ")", ",", "==", "<=", ">", "!=", "<"]
        some = [
            self.draw.choice([*self.draw.sample(words, 2), self.quantity(), repr(self.text())])
            for _ in range(self.draw.randrange(12))
        ]
        if self.draw.random() < 0.5:
            return " ".join(some)
        column, level = (
            self.draw.choice(["ptpp", "replay", "tokens", "run", "atpp"]),
            self.draw.choice(["31", "0.1", "1M", "'a'"]),
        )
        return f"{column} {self.draw.choice(['==', '<=', '>=', '!='])} {level}"

    def at(self) -> str:
        """Return a point, or nearly."""
        names = self.draw.sample(["n_params", "tokens", "replay", "ptpp", "N", "D", "r", "P", "x", "run"], 4)
        return ",".join(f"{name}={self.quantity()}" for name in names)
