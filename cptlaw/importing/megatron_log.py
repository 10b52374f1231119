"""Megatron-LM, Megatron-DeepSpeed and Megatron-Bridge: what they print while training."""

from __future__ import annotations

import re
from pathlib import Path

from cptlaw.importing.history import History, Record
from cptlaw.importing.reader import file_run_name
from cptlaw.importing.text_log import NUMBER, TextLog, lines_of, to_number

_VALIDATION = re.compile(r"validation loss at (?P<place>[^|]*?) \| (?P<values>.*value:.*)")
_ITERATION = re.compile(r"iteration\s+(?P<step>[0-9]{1,18})/\s*[0-9]+ \|(?P<values>.*)")
_FIELD = re.compile(rf"(?<![^|:])(?P<name>[^|:]++):\s*(?P<value>{NUMBER})\s*(?:\||$)")
_SETTING = re.compile(r"^(?:\[[^\]]*\]:?)?\s+(?P<key>\w+) \.{3,} (?P<value>\S.*)$")
_STEP = re.compile(r"iteration\s+([0-9]{1,18})")
_SET = re.compile(r"\b(?:on|for)\s+(?:the\s+)?(?P<name>.+?)(?:\s+(?:set|data))?\s*$")


class MegatronLog(TextLog):
    """``iteration N/M | consumed samples: .. |`` and ``validation loss at iteration N | lm loss value: .. |``."""

    name = "megatron"
    title = "Megatron-LM log"
    looks_for = "lines such as 'validation loss at iteration 500 | lm loss value: 2.34E+00 | lm loss PPL: ..'"
    order = 70
    sign = re.compile(r"validation loss at [^|]*+\| .*value: |iteration\s+\d+/\s*\d+ \| consumed samples:")

    def read_one(self, path: Path, source: Path) -> History:
        """Read a log; a final validation without a number belongs to the last iteration."""
        records: list[Record] = []
        config: dict[str, object] = {}
        step: float | None = None
        for line in lines_of(path):
            if match := _VALIDATION.search(line):
                at = _STEP.search(match["place"])
                step = float(at[1]) if at else step
                values = _losses(match["place"], match["values"])
                records.append(Record(step, values))
            elif match := _ITERATION.search(line):
                step = float(match["step"])
                fields = {
                    field["name"].strip(): to_number(field["value"]) for field in _FIELD.finditer(match["values"])
                }
                records.append(Record(step, fields))
            elif match := _SETTING.match(line):
                config[match["key"]] = match["value"].strip()
        return History(file_run_name(path, source), path, tuple(records), config)


def _losses(place: str, values: str) -> dict[str, float]:
    """Return the losses of a validation line, named after the set that it says it is on."""
    on = _SET.search(" ".join(place.split()))
    # Older and newer versions, and the last evaluation, say or leave out that it is the validation set.
    prefix = "" if on is None or on["name"] in ("val", "valid", "validation") else f"{on['name']} "
    return {
        f"validation {prefix}{field['name'].strip().removesuffix(' value')}": to_number(field["value"])
        for field in _FIELD.finditer(values)
        if field["name"].strip().endswith("value")
    }
