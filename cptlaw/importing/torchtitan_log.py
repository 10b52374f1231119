"""torchtitan: what its metrics logger prints. Every rank prints the same lines; they count once."""

from __future__ import annotations

import re
from pathlib import Path

from cptlaw.importing.history import History, Record
from cptlaw.importing.reader import file_run_name
from cptlaw.importing.text_log import NUMBER, TextLog, lines_of, to_number

_LINE = re.compile(rf"(?P<kind>validate )?step:\s*(?P<step>[0-9]{{1,18}})\s+loss:\s*(?P<loss>{NUMBER})(?P<rest>.*)")
_FIELD = re.compile(rf"(?<![A-Za-z_])(?P<name>[A-Za-z_]++):\s*(?P<value>{NUMBER})(?=\s|$|%|\()")
_SIZE = re.compile(r"size:\s*([\d,]+) total parameters")


class TorchtitanLog(TextLog):
    """``step: 20  loss: 6.2251  memory: .. tps: ..`` and ``validate step: 20  loss: 6.1903 ..``."""

    name = "torchtitan"
    title = "torchtitan log"
    looks_for = "lines such as 'validate step: 20  loss:  6.1903  memory: .. tps: ..'"
    order = 90
    sign = re.compile(rf"step:\s*\d+\s+loss:\s*(?:{NUMBER})\s.*tps:")

    def read_one(self, path: Path, source: Path) -> History:
        """Read a log."""
        records: list[Record] = []
        config: dict[str, object] = {}
        for line in lines_of(path):
            if match := _LINE.search(line):
                name = "validation loss" if match["kind"] else "train loss"
                values = {name: to_number(match["loss"])}
                values |= {field["name"]: to_number(field["value"]) for field in _FIELD.finditer(match["rest"])}
                records.append(Record(float(match["step"]), values))
            elif match := _SIZE.search(line):
                config["total_parameters"] = to_number(match[1])
        return History(file_run_name(path, source), path, tuple(records), config)
