"""NeMo: the progress lines of a pre-training job.

A validation loss is not printed when it is measured but shown in every line from then on, so a value counts where it
first appears, and belongs to the step of the line before: that is where training stood when it was measured.
"""

from __future__ import annotations

import re
from pathlib import Path

from cptlaw.importing.history import SAMPLES_NAMES, History, Record, first_of
from cptlaw.importing.reader import file_run_name
from cptlaw.importing.text_log import NUMBER, TextLog, lines_of, to_number

_FIELD = re.compile(rf"(?<![\w/.-])(?P<name>[A-Za-z_][\w/.-]*+)(?:: |=)(?P<value>{NUMBER})(?=[\s,|\]]|$)")
_LINE = re.compile(r"global_step(?:: |=)")


class NemoLog(TextLog):
    """``Training epoch 0, iteration 9/99 | lr: .. | global_step: 9 | reduced_train_loss: .. | val_loss: ..``."""

    name = "nemo"
    title = "NeMo log"
    looks_for = "lines with global_step and reduced_train_loss, as in '.. | global_step: 120 | .. | val_loss: 4.106'"
    order = 80
    sign = re.compile(
        r"global_step(?:: |=).*reduced_train_loss(?:: |=)|reduced_train_loss(?:: |=).*global_step(?:: |=)"
    )

    def read_one(self, path: Path, source: Path) -> History:
        """Read a log."""
        records: list[Record] = []
        shown: dict[str, float] = {}
        before: Record | None = None
        for line in lines_of(path):
            if not _LINE.search(line):
                continue
            fields = {field["name"]: to_number(field["value"]) for field in _FIELD.finditer(line)}
            if "global_step" not in fields:
                continue
            evals = {name: value for name, value in fields.items() if name.startswith("val")}
            new = {name: value for name, value in evals.items() if shown.get(name) != value}
            shown |= evals
            here = {name: value for name, value in fields.items() if name not in evals}
            # Steps count from 0: global_step 9 means that 10 steps are done.
            now = Record(fields["global_step"] + 1.0, here)
            if new:
                at = before or now
                samples = first_of(at.values, SAMPLES_NAMES)
                known = {} if samples is None else {"consumed_samples": samples}
                records.append(Record(at.step, new | known))
            records.append(now)
            before = now
        return History(file_run_name(path, source), path, tuple(records))
