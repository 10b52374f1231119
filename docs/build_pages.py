"""The pages of the site that follow from the code, and the links between the two: a hook of mkdocs.

Made here: a card for each law and their list, the columns of the runs table, the verbs of the command line, the pages
of the Python reference, the cards of the example tables, and the files at the top of the repository that belong on the
site. Nothing of it is kept in the repository, so nothing of it can grow stale.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from calculator_numbers import numbers_js
from curves import card_curve
from equations import NoEquationError, mathml
from mkdocs.structure.files import File, Files

import cptlaw
from cptlaw import examples, planning
from cptlaw.cli import commands
from cptlaw.laws import LAWS, Law, describe, law
from cptlaw.laws.parameters import option_text
from cptlaw.laws.registry import BUILT_IN
from cptlaw.reporting import figures
from cptlaw.runs.schema import COLUMNS
from cptlaw.units import format_quantity
from cptlaw_sweep import integrations

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the laboratory is not installed
from studies import provenance  # noqa: E402

COPIED = ("AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
AGAIN = "\x00"  # around the words of a link to a file that a page has named before
RESULT_FILES = re.compile(r"<!-- (?:table: (\w+)/|held: ([\w ]+?) -->)")
SEARCHES = yaml.safe_load((ROOT / "docs" / "searches.yaml").read_text("utf-8"))
BEHIND = ("reference/api/", "laws/", "examples/", "project/")  # in search, behind the pages that answer questions
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")

# Pages of the Python reference: title -> names of cptlaw. Names that stand nowhere here are listed under the last one.
API = {
    "Questions": (
        "answer",
        "bases",
        "check",
        "fit",
        "given_fit",
        "load_fit",
        "compare",
        "forecast",
        "suggest",
        "report",
    ),
    "Tables": ("read_runs", "Runs", "import_logs"),
    "Loss curves": ("forecast_run", "shift_of_runs", "fit_shift", "fit_out_of_domain"),
    "Sealed forecasts": ("register", "load_seal", "score", "Seal", "Scores"),
    "Laws on real runs": ("bench",),
    "Answers": ("Answer", "Check", "Fit", "Report", "Finding", "Law", "law"),
    "Errors and the rest": ("CptlawError", "DataError", "FitError", "UsageError"),
}
FIGURES = sorted(set(figures.__all__) - {"Figure"})  # each in a file of its own name
MODULES = {
    "Plans": ("cptlaw.planning", sorted(planning.__all__, key=lambda name: (not name.islower(), name))),
    "Figures": ("cptlaw.reporting.figures", ["figure.Figure", *(f"{name}.{name}" for name in FIGURES)]),
    "Example runs": ("cptlaw.examples", ("load", "path", "schedules")),
    "Laws of your own": ("cptlaw.laws", ("Law", "Shape", "Option", "Context")),
    "Testing a law": ("cptlaw.testing", ("check_law",)),
    "Sweep": ("cptlaw_sweep.sweep", ("sweep", "dry_run", "status", "tune_lr")),
    "Export": ("cptlaw_sweep.trainers", ("export",)),
    "Merge": ("cptlaw_sweep.merging", ("merge", "Merged")),
    "App": ("cptlaw_app", ("app",)),
    "Inside other trainers": ("cptlaw_sweep.integrations", integrations.__all__),
    "scikit-learn": ("cptlaw.sklearn", ("LawRegressor", "OrderedGroupSplit")),
}


def on_config(config: Any) -> Any:
    """Complete the navigation: laws, the reference, pages that nobody has put anywhere; link the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    config["repo_url"] = project.get("urls", {}).get("Repository", "")
    nav = {title: part for item in config["nav"] for title, part in item.items()}
    nav["Laws"] += [f"laws/{name}.md" for name in built_in()]
    python = next(item["Python"] for item in nav["Reference"] if "Python" in item)
    python += [{title: f"reference/api/{slug(title)}.md"} for title in (*API, *MODULES)]
    tables = next(item["Example tables"] for item in nav["Measured"] if "Example tables" in item)
    tables += [{name: f"examples/{Path(file).stem}.md"} for name, file in examples.EXAMPLES.items()]
    placed = set(_paths(config["nav"]))
    docs = Path(config["docs_dir"])
    found = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    nav["Measured"] += [path for path in found if path not in placed]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for path, text in made():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "calculator/numbers.js", content=numbers_js()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files of the repository into links to their pages; say which result files are out of date."""
    path = page.file.src_uri
    if path in SEARCHES:
        page.meta["tags"] = SEARCHES[path].split(", ")
    if path.startswith(BEHIND):
        page.meta["search"] = {"boost": 0.01}
    return f"{out_of_date_note(markdown)}{relinked(markdown, page.file.src_uri)}"


def made() -> Iterator[tuple[str, str]]:
    """Yield the pages that are made: their path on the site and their text."""
    yield "laws/index.md", list_of_laws()
    for name in built_in():
        yield f"laws/{name}.md", card(law(name))
    yield "reference/table.md", columns()
    yield "reference/verbs.md", verbs()
    yield "reference/api/index.md", api_index()
    for title, names in public_names().items():
        yield f"reference/api/{slug(title)}.md", _api_page(title, "cptlaw", names)
    for title, (module, names) in MODULES.items():
        yield f"reference/api/{slug(title)}.md", _api_page(title, module, names)
    yield "examples/index.md", list_of_examples()
    for file in examples.EXAMPLES.values():
        name = Path(file).with_suffix(".md").name
        yield f"examples/{name}", without_front_matter((ROOT / "cptlaw" / "examples" / name).read_text("utf-8"))
    for name in COPIED:
        yield f"project/{name}", (ROOT / name).read_text("utf-8")


# -- laws --------------------------------------------------------------------------------------------------------------


def built_in() -> list[str]:
    """Return the names of the laws of this package."""
    return [name for name in LAWS if LAWS[name].__module__.startswith(BUILT_IN)]


def list_of_laws() -> str:
    """Return the page that lists all laws."""
    rows = []
    for name in built_in():
        said = describe(law(name))
        rows.append(f"| [{name}]({name}.md) | `{said['equation']}` | {', '.join(said['inputs'])} | {said['status']} |")
    return "\n".join(
        [
            "# All laws",
            "",
            "[Which law when](../which_law.md) says which one to take; `--law auto`, the default, takes",
            "what the columns of the table allow: one law, or the average of several.",
            "A law is the mean of a forecast; how far off it may be,",
            "[an interval](../intervals.md) says. `cptlaw laws NAME` prints a card.",
            "",
            "*Status*: *published* laws are taken from their paper; of a *secondary source*, the formula was taken",
            "from another work that quotes it; a *reconstructed* law has a formula that no paper states in this form.",
            "",
            "| law | equation | reads | status |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def card(chosen: Law) -> str:
    """Return the page of a law, from what its class says."""
    said = describe(chosen)
    parts = [
        f"# {said['name']}",
        "",
        *_drawn(said["equation"]),
        f"    {said['equation']}",
        "",
        card_curve(chosen),
        "",
        f"{said['source']} (**{said['status']}**).",
        "",
    ]
    for label, key in (("When right", "right"), ("When wrong", "wrong"), ("Measured on", "measured")):
        if said[key]:
            parts += [f"**{label}**: {_linked_pages(said[key])}", ""]
    reads = ", ".join(f"`{name}`" for name in said["inputs"])
    parts += [f"**Reads** the columns {reads}.", *_conventions(chosen), "", "## Parameters", ""]
    parts += ["| parameter | kind | range | usual |", "|---|---|---|---|"]
    parts += [f"| `{name}` | amplitude | 0 or more | |" for name in said["amplitudes"]]
    for name, (low, high) in said["shapes"].items():
        usual = chosen.usual.get(name)
        shown = " to ".join(f"{value:.3g}" for value in _around(usual)) if usual else ""
        parts.append(f"| `{name}` | shape | {low:g} to {high:g} | {shown} |")
    parts += [f"| `{name}` | constant | {value:g} | |" for name, value in said["constants"].items()]
    if said["decreasing"]:
        parts += ["", f"It never rises with {', '.join(said['decreasing'])}; tests try to break that claim."]
    if said["diverges_at_zero"]:
        parts += ["", f"It is infinite where {' or '.join(said['diverges_at_zero'])} is 0."]
    if chosen.choices:
        parts += ["", "## Options", "", f"Written after the name, as `{chosen.name}:NAME=VALUE`.", ""]
        parts += ["| option | default | meaning |", "|---|---|---|"]
        for name, option in chosen.choices.items():
            meaning = f"{option.description} Expected: {option.expected}.".strip()
            parts.append(f"| `{name}` | {_default(option.default)} | {meaning} |")
    text = type(chosen).__doc__ or ""
    return "\n".join([*parts, "", "## In its own words", "", _docstring(text), ""])


def _drawn(equation: str) -> list[str]:
    """Return an equation as it is drawn, where it is one and not words."""
    try:
        return [mathml(equation), ""]
    except NoEquationError:
        return []


def _conventions(chosen: Law) -> list[str]:
    said, found = describe(chosen), []
    if {"n_params", "tokens"} & set(said["inputs"]):
        units = said["units"]
        counted = [format_quantity(units[name]) for name in ("n_params", "tokens")]
        text = f"N counts {counted[0]} parameters, D counts {counted[1]} tokens."
        found.append(text.replace("counts 1 ", "counts single "))
    ratio = {
        "source": "r is replay, the share of the source corpus, for both losses.",
        "own": "r is the share of the eval's own corpus: replay for the source loss, 1 - replay for the target loss.",
        "target": "r is the share of the target corpus, 1 - replay.",
    }
    if said["ratio_of"]:
        found.append(ratio[said["ratio_of"]])
    found.append(f"Fits minimise Huber's loss of log residuals with threshold {said['delta']:g}.")
    return found


def _around(usual: tuple[Any, ...]) -> tuple[float, float]:
    return float(usual[0]) - float(usual[1]), float(usual[0]) + float(usual[1])


def _default(value: Any) -> str:
    text = format_quantity(value, 6) if isinstance(value, float) else option_text(value)
    return f"`{text}`" if text else ""


def _linked_pages(text: str) -> str:
    def link(match: re.Match[str]) -> str:
        return f"[{match[1]}](../{match[1]}.md)" if (ROOT / match[0]).exists() else match[0]

    return re.sub(r"docs/(\w+)\.md", link, text)


def _docstring(text: str) -> str:
    """Return a docstring as Markdown: its indented equations stay indented."""
    return inspect.cleandoc(text)


# -- tables, verbs, reference ------------------------------------------------------------------------------------------


def columns() -> str:
    """Return the page of the columns that a runs table may have."""
    rows = []
    for column in COLUMNS.values():
        need = "yes" if column.required else ""
        aliases = ", ".join(f"`{name}`" for name in column.aliases.split())
        rows.append(f"| `{column.name}` | {column.expected} | {need} | {aliases} |")
    return "\n".join(
        [
            "# The runs table",
            "",
            "One row per measured loss, as CSV, TSV, Parquet, JSON Lines, or a DataFrame of pandas, polars or pyarrow.",
            "[A table of your own](../how_to/own_table.md) shows one.",
            "",
            "- `ptpp` is a property of the *base model*: its pre-training tokens per parameter.",
            "- Rows with `tokens` 0 are the base models' own losses: from these forgetting is counted.",
            "- Counts may be written `8.1B`, `517M`, `26e9`; shares `34%`.",
            "- Which other names were taken for a column is said once on stderr. Names are read in any case, with",
            "  spaces, dots and dashes for underscores; the one-letter names of papers count as written.",
            "- A law reads the columns that its [card](../laws/index.md) names. All other columns are kept, and can",
            "  be used in filters (`--where`).",
            "",
            "| column | holds | needed | other names |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def verbs() -> str:
    """Return the page of the command line: what `--help` says of each verb."""
    intro = "What `--help` says of each verb. Exit codes and JSON: [for programs](../project/AGENTS.md)."
    parts = ["# Command line", "", intro]
    for command in commands():
        if command.hidden:  # an old spelling
            continue
        parts += ["", f"## cptlaw {command.name}", "", _help(command, f"cptlaw {command.name}")]
        for name, under in getattr(command, "commands", {}).items():
            if under.hidden:
                continue
            parts += ["", f"### cptlaw {command.name} {name}", "", _help(under, f"cptlaw {command.name} {name}")]
    return "\n".join(parts)


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, terminal_width=100, max_content_width=100)
    return f"```text\n{command.get_help(context)}\n```"


def public_names() -> dict[str, list[str]]:
    """Return the public names of the package by page; those that stand on none are added to the last one."""
    pages = {title: list(names) for title, names in API.items()}
    placed = {name for names in pages.values() for name in names} | {"plan", "figures", "examples"}
    pages[list(pages)[-1]] += [name for name in cptlaw.__all__ if name not in placed]
    return pages


def api_index() -> str:
    """Return the first page of the Python reference."""
    lines = []
    for title, names in public_names().items():
        lines.append(f"- [{title}]({slug(title)}.md): {', '.join(f'`{name}`' for name in names)}")
    for title, (module, names) in MODULES.items():
        listed = ", ".join(f"`{name.rpartition('.')[2]}`" for name in names)
        lines.append(f"- [{title}]({slug(title)}.md) (`{module}`): {listed}")
    return "\n".join(
        [
            "# Python",
            "",
            "    import cptlaw as cl",
            "",
            "Every verb of the command line is one function. Plans are `cl.plan.min_tokens` and so on, figures",
            "`cl.figures.forgetting_map` and so on.",
            "",
            *lines,
        ]
    )


def _api_page(title: str, module: str, names: Any) -> str:
    return "\n".join([f"# {title}", *(f"\n::: {module}.{name}\n{_options(module, name)}" for name in names)])


def _options(module: str, name: str) -> str:
    """Return the table of the options that a function takes by name: its signature has them at run time alone."""
    owner = {"cptlaw": cptlaw, "cptlaw.planning": planning}.get(module)
    documented = inspect.getdoc(getattr(owner, name, None)) or ""
    listed = re.findall(r"^(\w+)\n    (.+)$", documented.partition("\nOptions\n-------\n")[2], re.M)
    rows = [f"| `{option}` | {meaning.replace('|', ' ')} |" for option, meaning in listed]
    return "\n".join(
        ["", f"Options of `{name}`, by name:", "", "| option | meaning |", "|---|---|", *rows, ""] if rows else []
    )


def list_of_examples() -> str:
    """Return the page of the example tables."""
    rows = []
    for name, file in examples.EXAMPLES.items():
        text = without_front_matter((ROOT / "cptlaw" / "examples" / file).with_suffix(".md").read_text("utf-8"))
        heading = text.lstrip("# ").splitlines()[0]
        rows.append(f"| [{name}]({Path(file).stem}.md) | {heading.partition(':')[2].strip()} |")
    return "\n".join(
        [
            "# Example tables",
            "",
            "`delphi-midtrain` and `watts-sizes` are figures of public studies, with their source; all others were",
            "measured for this project. Free to ship and cite. `cptlaw example NAME` prints the path of one,",
            "`cl.examples.load(NAME)` reads it.",
            "",
            "| name | runs |",
            "|---|---|",
            *rows,
        ]
    )


# -- result files of studies -------------------------------------------------------------------------------------------


def out_of_date_note(text: str) -> str:
    """Return what stands above a page whose result files were made with other code or data than today's."""
    used = {name for match in RESULT_FILES.finditer(text) for name in (match[1] or match[2]).split()}
    late = {name: moved for name, moved in provenance.out_of_date().items() if name in used}
    if not late:
        return ""
    lines = [f"    - `{name}`: {moved}" for name, moved in sorted(late.items())]
    intro = "Today's code gives other numbers than those below. What has changed, in a small part that is run anew:"
    return "\n".join(['!!! warning "Out of date"', "", f"    {intro}", "", *lines, "", ""])


# -- links -------------------------------------------------------------------------------------------------------------


def relinked(text: str, page: str) -> str:
    """Return the text of a page with its links to files of the repository turned into links of the site.

    Parameters
    ----------
    text
        Markdown.
    page
        Path of the page on the site.
    """
    here = origin(page)
    if here is None:
        return text
    named: set[str] = set()  # files that are not on the site are named once a page

    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if picture or not path or ":" in path:
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        on_site = place(file)
        if on_site is None:
            if words.strip("`") == posixpath.basename(file):
                return words
            if file in named:
                return f"{AGAIN}{words}{AGAIN}"
            where = f"`{file}`" if named else f"`{file}` in the repository"
            named.add(file)
            return f"{words}: {where}" if match.string[match.start() - 1] == "(" else f"{words} ({where})"
        return f"[{words}]({posixpath.relpath(on_site, posixpath.dirname(page) or '.')}{hash_}{anchor})"

    # Nothing is left of "([table](..))" where its file is not on the site, and was named before.
    return re.sub(rf"\s*\({AGAIN}[^{AGAIN}()]*{AGAIN}\)", "", LINK.sub(link, text)).replace(AGAIN, "")


def origin(page: str) -> str | None:
    """Return the file of the repository that a page shows; ``None`` for pages that are made."""
    folder, name = posixpath.split(page)
    if folder == "project":
        return name
    if folder == "examples":
        return None if name == "index.md" else f"cptlaw/examples/{name}"
    return f"docs/{page}" if (ROOT / "docs" / page).exists() else None


def place(file: str) -> str | None:
    """Return the page of the site that shows a file of the repository."""
    if file in COPIED:
        return f"project/{file}"
    if file == "README.md":
        return "index.md"
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file.startswith("cptlaw/examples/") and file.endswith(".md"):
        return file.removeprefix("cptlaw/")
    return None


def without_front_matter(text: str) -> str:
    """Return a card without the YAML above it."""
    return re.sub(r"\A---\n.*?\n---\n+", "", text, flags=re.S)


def slug(title: str) -> str:
    """Return a title as a file name."""
    return re.sub(r"[^a-z]+", "_", title.lower()).strip("_")


def _paths(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for item in part if isinstance(part, list) else part.values() if isinstance(part, dict) else ():
        yield from _paths(item)
