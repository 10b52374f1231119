"""What every answer is: a title, lines, tables and findings; text, notebook page and JSON follow from these.

An answer (`Result`) states what it found once, in these four parts. How it looks is decided here and nowhere else:
plain text in a pipe, colour and the width of the window on a terminal (`__rich_console__`), HTML in a notebook, and
JSON for programs.
"""

from __future__ import annotations

import html
import itertools
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from cptlaw.findings import MOST_SHOWN, Finding, Wording, group, in_python

if TYPE_CHECKING:
    import pandas as pd

# A label, which may be empty, and what there is to say.
Line = tuple[str, str]
Progress = Callable[[str], None]  # receives what is being done, a line at a time

IN_LIBRARY = "summary(verbose=True) shows all"

LEFT = ' style="text-align:left"'
"""What cells of text ask of a notebook, whose own style puts them at the right."""

_NUMBER = re.compile(r"[-+<>]?[0-9.,]+(e[-+]?[0-9]+)?[KMBT%]?|-|")
_COLOURS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@dataclass(frozen=True)
class Table:
    """A table of an answer, as it is shown: every cell is text.

    Parameters
    ----------
    columns
        Headings.
    rows
        Cells, a tuple for each row.
    caption
        What it lists; also what a screen reader says.
    note
        What its readers must know, under it.
    close
        Whether it follows the lines without a gap, as more of them.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    note: str = ""
    close: bool = False

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        formats: Mapping[str, Callable[..., str]] | None = None,
        caption: str = "",
        note: str = "",
    ) -> Table:
        """Return the columns of a frame with one number format each; what is missing is a dash."""
        known = formats or {}
        columns = []
        for name in frame.columns:
            show = known.get(name, _cell)
            columns.append(["-" if _missing(value) else show(value) for value in frame[name]])
        return cls(tuple(map(str, frame.columns)), tuple(zip(*columns, strict=True)), caption, note)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers alone; these are aligned at the right."""
        return tuple(
            all(_NUMBER.fullmatch(row[place]) for row in self.rows) and bool(self.rows)
            for place in range(len(self.columns))
        )

    def text(self, width: int | None = None) -> str:
        """Return the table in columns, for a pipe; where it is wider than `width`, cells of words go on below."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        gap = "  "
        if width is not None and sum(widths) + 2 * len(widths) - 2 > width:
            lines[0] = tuple(name.replace("_", "_ ") for name in self.columns)  # where a heading may go on below
            widths, gap = _narrower_widths(lines, widths, width)
            lines = [below for line in lines for below in _wrapped_rows(line, widths)]
        # Once for all lines: it looks at every cell.
        forms = [f"{{:{'>' if right else '<'}{room}}}" for right, room in zip(self.numeric, widths, strict=True)]
        shown = []
        for block in _column_blocks(widths, len(gap), width):  # as pandas prints what is wider still
            form = gap.join(forms[place] for place in block)
            shown += [form.format(*(line[place] for place in block)).rstrip() for line in lines]
        around = [[wrap_text(text, width)] if text else [] for text in (self.caption, self.note)]
        return "\n".join([*around[0], *shown, *around[1]])

    def to_html(self) -> str:
        """Return the table with everything escaped."""
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


class Result:
    """Base of all answers.

    A subclass gives `title`, and what it has of `lines`, `tables` and `findings`; its fields are its JSON unless it
    gives `to_dict` too. All four are public: pages and other programs build on them.
    """

    if TYPE_CHECKING:  # a value here would become the default of the dataclasses that derive from it

        @property
        def findings(self) -> tuple[Finding, ...]:
            """What was noticed, the worst first."""

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        raise NotImplementedError

    @property
    def lines(self) -> list[Line]:
        """The answer, line by line: labels and texts."""
        return []

    @property
    def details(self) -> list[Line]:
        """Lines for those who ask for everything: how the answer was found."""
        return []

    @property
    def tables(self) -> list[Table]:
        """What there is to list."""
        return []

    @property
    def most_findings(self) -> int:
        """How many kinds of findings are shown unless all are asked for."""
        return MOST_SHOWN

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON; what is not known or not finite is null."""
        result: dict[str, object] = plain(self)
        return result

    def to_json(self) -> str:
        """Return the answer as one JSON object."""
        return json.dumps(plain(self.to_dict()), indent=2, allow_nan=False)

    def summary(
        self,
        verbose: bool = False,
        quiet: bool = False,
        *,
        how: str = IN_LIBRARY,
        words: Wording = in_python,
        width: int | None = None,
    ) -> str:
        """Return the answer as text.

        Parameters
        ----------
        verbose
            Every finding instead of the worst ones, and the details.
        quiet
            No finding at all.
        how, words
            What shows all findings, and how an option is written here.
        width
            Characters of a line; what is longer goes on below. Lines are as long as they are where none is given.
        """
        parts = [as_text(self.title, self.lines + (self.details if verbose else []), self.tables, width)]
        if not quiet and self.findings:
            listed = finding_lines(self.findings, verbose, how, words, self.most_findings)
            parts.append("\n".join(wrap_text(line, width, "      ") for line in listed))
        gap = "\n" if self.most_findings == 1 and not verbose else "\n\n"
        return gap.join(parts)

    def __repr__(self) -> str:
        return self.summary()

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return as_html(self.title, self.lines, self.tables, self.findings)

    def __rich_console__(self, console: object, options: object) -> Iterator[object]:
        yield from on_terminal(self)


def plain(value: object) -> Any:
    """Return what JSON can hold: answers and tables as objects and lists, numbers without a value as null."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (field.name for field in fields(value) if field.repr and not field.name.startswith("_"))
        return {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a frame
        return plain(value.to_dict("records"))
    if hasattr(value, "tolist"):  # a number or an array of NumPy
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_text(title: str, lines: Sequence[Line] = (), tables: Iterable[Table] = (), width: int | None = None) -> str:
    """Return an answer without its findings, for a pipe."""
    longest = max((len(label) for label, _ in lines), default=0)
    below = " " * (longest + 4 if longest else 2)
    labelled = [f"  {label:<{longest}}  {text}".rstrip() if longest else f"  {text}" for label, text in lines]
    head = [wrap_text(title, width, "  "), *(wrap_text(line, width, below) for line in labelled)]
    inner = None if width is None else width - 2
    shown = (("" if table.close else "\n", table.text(inner)) for table in tables if table.rows)
    return "\n".join([*head, *(gap + _indented(text) for gap, text in shown)])


def wrap_text(text: str, width: int | None, below: str = "") -> str:
    """Return text in lines of at most `width`, those after the first begun with `below`; words are never broken."""
    if width is None or len(text) <= width:
        return text
    ahead = re.match(r"\s*(?:\S.*?\s{2,})?", text)
    start = ahead[0] if ahead and len(ahead[0]) == len(below) else ""
    return textwrap.fill(
        text[len(start) :],
        width,
        initial_indent=start,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _narrower_widths(lines: Sequence[Sequence[str]], widths: Sequence[int], width: int) -> tuple[list[int], str]:
    """Return widths of columns that fit into `width`, and the gap between them; the widest give way first."""
    least = [max(len(word) for line in lines for word in (line[place].split() or [""])) for place in range(len(widths))]
    result = list(widths)
    gap = "  " if sum(least) + 2 * len(least) - 2 <= width else " "
    while sum(result) + len(gap) * (len(result) - 1) > width and any(map(int.__gt__, result, least)):
        wide = [place for place in range(len(result)) if result[place] > least[place]]
        result[max(wide, key=result.__getitem__)] -= 1
    return result, gap


def _column_blocks(widths: Sequence[int], gap: int, width: int | None) -> list[list[int]]:
    """Return which columns are printed beside each other, block by block; the first column is in every block."""
    result, room = [[0]], float("inf") if width is None else width - widths[0]
    left = room
    for place in range(1, len(widths)):
        if left < widths[place] + gap and len(result[-1]) > 1:
            result.append([0])
            left = room
        result[-1].append(place)
        left -= widths[place] + gap
    return result


def _wrapped_rows(line: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield the printed lines of one row of a table whose cells are wrapped to `widths`."""
    cells = [
        [part.replace("_ ", "_") for part in wrap_text(cell, room).splitlines()]  # run names stay whole
        for cell, room in zip(line, widths, strict=True)
    ]
    yield from itertools.zip_longest(*cells, fillvalue="")


def as_html(
    title: str, lines: Iterable[Line] = (), tables: Iterable[Table] = (), findings: Iterable[Finding] = ()
) -> str:
    """Return an answer for a notebook, with everything escaped; all but the worst findings are folded."""
    rows = "".join(
        f"<tr><th{LEFT}>{html.escape(label)}</th><td{LEFT}>{html.escape(text)}</td></tr>" for label, text in lines
    )
    parts = [f"<p><b>{html.escape(title)}</b></p>", f"<table><tbody>{rows}</tbody></table>" if rows else ""]
    parts += [table.to_html() for table in tables if table.rows]
    noticed = [finding for finding, _ in group(findings)]
    parts.append(_list(noticed[:MOST_SHOWN]))
    everything = list(dict.fromkeys(findings))
    if len(everything) > len(noticed[:MOST_SHOWN]):
        parts.append(f"<details><summary>All {len(everything)} findings</summary>{_list(everything)}</details>")
    return "".join(parts)


def finding_lines(
    findings: Iterable[Finding],
    verbose: bool = False,
    how: str = "-v shows all",
    words: Wording = in_python,
    most: int = MOST_SHOWN,
) -> list[str]:
    """Return findings as lines: the worst kinds and how many more there are, or all of them.

    Parameters
    ----------
    findings
        What was noticed.
    verbose
        Whether all are given.
    how
        What shows all of them.
    words
        How an option is written here.
    most
        How many kinds are shown; of one alone the others are counted on its own line.

    Examples
    --------
    >>> finding_lines([Finding("warning", "far", f"row {row} lies far out.") for row in (1, 2)])
    ['warning: row 1 lies far out. [far] (+1 like it, -v shows all)']
    """
    if verbose:
        return [line for finding, _ in group(findings, by_code=False) for line in finding.text(words).splitlines()]
    groups = group(findings)
    if most == 1 and groups:
        first, *rest = groups[0][0].text(words).splitlines()
        others = sum(count for _, count in groups) - 1
        return [first + (f" (and {others} other{'s' if others > 1 else ''}, {how})" if others else ""), *rest]
    lines, said = [], False
    for finding, count in groups[:most]:
        more = "" if count == 1 else f" (+{count - 1} like it{'' if said else f', {how}'})"
        said = said or count > 1
        first, *rest = finding.text(words).splitlines()
        lines += [first + more, *rest]
    left = sum(count for _, count in groups[most:])
    if left:
        lines.append(f"and {left} other{'s' if left > 1 else ''}{'' if said else f', {how}'}")
    return lines


def on_terminal(
    answer: Result, verbose: bool = False, quiet: bool = False, how: str = "", words: Wording = in_python
) -> Iterator[object]:
    """Yield an answer as what rich prints: with colour, and wrapped at the width of the window."""
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    # Cells are `Text`, never markup: a run may be called [red].
    yield Text(answer.title, style="bold")
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    lines = answer.lines + (answer.details if verbose else [])
    for label, text in lines:
        grid.add_row(Text(f"  {label}"), Text(text))
    if lines:
        yield grid
    for table in answer.tables:
        if not table.rows:
            continue
        listed = Grid(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for name, right in zip(table.columns, table.numeric, strict=True):
            listed.add_column(Text(name), justify="right" if right else "left", overflow="fold", no_wrap=right)
        for row in table.rows:
            listed.add_row(*(Text(cell) for cell in row))
        yield from ([] if table.close else [Text("")])
        yield from ([Text(f"  {table.caption}")] if table.caption else [])
        yield Padding(listed, (0, 0, 0, 2))
        yield from ([Text(f"  {table.note}", style="dim")] if table.note else [])
    if not quiet and answer.findings:
        yield Text("")
        for line in finding_lines(answer.findings, verbose, how or IN_LIBRARY, words, answer.most_findings):
            severity = line.partition(":")[0]
            style = _COLOURS.get(severity)
            shown = Text(line, style="" if style else "dim")
            if style:
                shown.stylize(style, 0, len(severity) + 1)
            yield shown


def _list(findings: Iterable[Finding]) -> str:
    items = "".join(f"<li>{html.escape(str(finding))}</li>" for finding in findings)
    return f"<ul>{items}</ul>" if items else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
