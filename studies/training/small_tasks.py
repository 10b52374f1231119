"""Tasks that models of 18K to 46K parameters can do, scored on the weights that a sweep kept.

    cptlaw sweep studies/recipes/french_to_english.yaml -o runs/fr-en --workers 1
    python -m studies small_tasks measure studies/recipes/french_to_english.yaml --store runs/fr-en
    python -m studies small_tasks             # prints the tables; --write keeps them for studies/measured_tables.md

Each item is a context of held-out text and some continuations of one length in bytes; the right one counts as found
where the model gives it the highest probability. Up to 300 items each, the same for every model:

- ``cloze``: the next word, among four of the same language (chance 1/4);
- ``language``: the next word, beside one of the other language (1/2);
- ``brackets``: the bracket that closes, round or square, where half of the items have each (1/2);
- ``copy``: the second of two made-up words that were just read, beside a third (1/2).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import cptlaw as cl
from cptlaw_sweep.jobs import Job
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.store import Store
from studies.harness import MEASURED, ROOT, progress, show, write_result
from studies.training.vocabulary import documents

ITEMS, BEFORE, TEXT = 300, 96, 3_000_000
TABLE, RUNS = MEASURED / "small_tasks.csv", MEASURED / "french_to_english.csv"
LAW, LINKED = "score-sigmoid", ("language_english", "language_french")
HELD = 45936
CORPORA = ("french", "english")
WORD = re.compile(r"(?<=[ \u2019'])[^\W\d_]{5,9}(?= )")
SHARED = ("n_params", "ptpp", "seed", "replay")


class Item(NamedTuple):
    """A context and its continuations, the right one first."""

    context: bytes
    options: tuple[bytes, ...]


def words_of(texts: list[str]) -> list[tuple[bytes, bytes]]:
    """Return words of running text, each with what stands before it."""
    found = []
    for text in texts:
        for match in WORD.finditer(text):
            before = text[: match.start()].encode()
            if len(before) >= BEFORE:
                found.append((before[-BEFORE:], match.group().encode()))
    return found


def next_words(texts: list[str], others: list[str], count: int) -> list[Item]:
    """Return items: a word of a text, among words of the same length in bytes drawn from other running text."""
    random = np.random.default_rng(0)
    own, pool = words_of(texts), [word for _, word in words_of(others)]
    by_length: dict[int, list[bytes]] = {}
    for word in pool:
        by_length.setdefault(len(word), []).append(word)
    items: list[Item] = []
    for place in random.permutation(len(own)):
        context, word = own[place]
        different = [each for each in random.choice(by_length.get(len(word), [word]), 20) if bytes(each) != word]
        drawn = list(dict.fromkeys(bytes(each) for each in different))[: count - 1]
        if len(drawn) == count - 1:
            items.append(Item(context, tuple(each + b" " for each in (word, *drawn))))
        if len(items) == ITEMS:
            break
    return items


def brackets(texts: list[str]) -> list[Item]:
    """Return items: where a bracket closes that was opened within the context and is the last one open."""
    random = np.random.default_rng(0)
    found: dict[bytes, list[Item]] = {b")": [], b"]": []}
    for text in texts:
        raw = text.encode()
        for match in re.finditer(rb"[\])]", raw):
            context = raw[max(0, match.start() - BEFORE) : match.start()]
            opened = {b")": b"(", b"]": b"["}[match.group()]
            inside = context.rpartition(opened)[2]
            if len(context) == BEFORE and opened in context and not set(inside) & set(b"()[]") and len(inside) > 1:
                other = b")" if match.group() == b"]" else b"]"
                found[match.group()].append(Item(context, (match.group(), other)))
    count = min(ITEMS // 2, *(len(each) for each in found.values()))
    return [each[place] for each in found.values() for place in random.permutation(len(each))[:count]]


def copies() -> list[Item]:
    """Return items: two made-up words, the first again, and then the second or another one."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    made = [["".join(random.choice(letters, 5)) for _ in range(3)] for _ in range(ITEMS)]
    return [Item(f"{a} {b} {a} {b} {a} ".encode(), (f"{b} ".encode(), f"{c} ".encode())) for a, b, c in made]


@lru_cache
def tasks(corpora: Path) -> dict[str, tuple[list[Item], float]]:
    """Return the items of each task, with the chance of guessing."""
    texts = {name: documents(corpora, name, TEXT, validation=True) for name in CORPORA}
    made = {}
    for name, other in (CORPORA, CORPORA[::-1]):
        made[f"cloze_{name}"] = (next_words(texts[name], texts[name], 4), 0.25)
        made[f"language_{name}"] = (next_words(texts[name], texts[other], 2), 0.5)
    made["brackets"] = (brackets([text for each in texts.values() for text in each]), 0.5)
    made["copy"] = (copies(), 0.5)
    return made


def share_right(model: Any, items: list[Item]) -> float:
    """Return the share of the items whose first option a model finds likeliest."""
    import torch

    rows = [(item.context, option) for item in items for option in item.options]
    longest = max(len(context) + len(option) for context, option in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    counts = np.zeros((len(rows), longest - 1), dtype=np.float32)
    for place, (context, option) in enumerate(rows):
        whole = context + option
        ids[place, : len(whole)] = np.frombuffer(whole, dtype=np.uint8)
        counts[place, len(context) - 1 : len(whole) - 1] = 1
    sums = []
    with torch.no_grad():
        for at in range(0, len(rows), 64):
            piece = torch.from_numpy(ids[at : at + 64])
            logits = model(input_ids=piece[:, :-1], use_cache=False).logits
            logs = torch.log_softmax(logits, -1).gather(-1, piece[:, 1:, None])[..., 0]
            sums.append((logs * torch.from_numpy(counts[at : at + 64])).sum(1).numpy())
    found, right, start = np.concatenate(sums), 0, 0
    for item in items:
        here = found[start : start + len(item.options)]
        right += bool(here[0] > here[1:].max())
        start += len(item.options)
    return right / len(items)


def rows_of(store: Store, job: Job, corpora: Path, cache: Path, known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the scores of a run from an eighth of its length on, and of its base model where that is not known."""
    from cptlaw_sweep import saved_models  # needs torch, which the tables do not
    from cptlaw_sweep.models import load_weights

    base = f"base-{job.columns['base']}"
    steps = saved_models.kept_steps(store, job.id)
    if not steps or steps[-1] < job.definition["steps"][1]:  # not trained to its end
        return
    steps = [step for step in steps if any(abs(step * times - steps[-1]) < times for times in (1, 2, 4, 8))]
    folders = {step: saved_models.folder_of(job.id, step) for step in steps}
    if base not in known:
        folders[0] = f"models/{job.definition['start']['weights']}"
    for step, folder in sorted(folders.items()):
        model = load_weights(store.get_folder(folder, cache)).eval()
        shared = {name: job.columns.get(name) for name in SHARED if step or name in ("n_params", "ptpp", "seed")}
        for name, (items, chance) in tasks(corpora).items():
            yield {
                "run": job.name if step else base, "eval": name, "metric": "accuracy",
                "loss": round(share_right(model, items), 6), "n_items": len(items), "chance": chance,
                "tokens": step * int(job.columns["batch_tokens"]), **shared,
            }  # fmt: skip


def measure(recipes: list[Path], store: Store, corpora: Path, cache: Path) -> None:
    """Write the scores of the runs of some recipes; those that the table has are not measured again."""
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.exists() else []
    for recipe in recipes:
        for job in load_sweep(recipe).jobs:
            known = {row["run"] for row in rows}
            if job.kind == "adapt" and job.name not in known:
                rows += rows_of(store, job, corpora, cache, known)
                pd.DataFrame(rows).to_csv(TABLE, index=False)
                progress(f"{job.name}: {len(rows)} rows")


def table() -> pd.DataFrame:
    """Return losses and scores of the runs, as one runs table."""
    scores = pd.read_csv(TABLE)
    losses = pd.read_csv(RUNS)
    losses = losses[losses["run"].isin(scores["run"])]
    return pd.concat([losses[[*SHARED, "run", "eval", "loss", "tokens"]], scores], ignore_index=True)


def held_out() -> pd.DataFrame:
    """Return what the scores of 46K are forecast to from the smaller sizes, beside its base's and the next size's."""
    runs = cl.read_runs(table(), n_params_kind="total")
    frame = pd.read_csv(TABLE)
    rows = []
    for name in LINKED:
        fit = cl.fit(LAW, runs, on=name, where=f"n_params < {HELD}")
        mine = frame[(frame["eval"] == name) & (frame["tokens"] > 0)]
        asked = mine[mine["n_params"] == HELD].reset_index(drop=True)
        said = fit.forecast(asked[["n_params", "ptpp", "replay", "tokens"]])
        smaller = mine[mine["n_params"] == mine.loc[mine["n_params"] < HELD, "n_params"].max()]
        base = frame[(frame["eval"] == name) & (frame["tokens"] == 0) & (frame["n_params"] == HELD)]["loss"].iloc[0]
        measured = asked["loss"].to_numpy()
        off = said["loss"].to_numpy() - measured
        inside = (said["lo"].to_numpy() <= measured) & (measured <= said["hi"].to_numpy())
        rows.append(
            {"task": name, "scores": str(len(asked)), "error, points": f"{100 * np.abs(off).mean():.1f}",
             "mean error": f"{100 * off.mean():+.1f}",
             "as its base model": f"{100 * np.abs(base - measured).mean():.1f}",
             "as the size below": f"{100 * np.abs(smaller['loss'].to_numpy() - measured).mean():.1f}",
             "half-width": f"{50 * (said['hi'] - said['lo']).mean():.0f}",
             "90 % intervals that held": f"{int(inside.sum())} of {len(asked)}"}
        )  # fmt: skip
    return pd.DataFrame(rows)


def ends() -> pd.DataFrame:
    """Return scores before CPT and at its end, by size and replay, per cent right."""
    frame = pd.read_csv(TABLE)
    frame["size"] = [f"{size / 1e3:.0f}K" for size in frame["n_params"]]
    last = frame[frame["tokens"] == frame.groupby("run")["tokens"].transform("max")]
    when = np.where(last["tokens"] == 0, "base model", "replay " + last["replay"].map("{:g}".format))
    order = list(dict.fromkeys(frame["eval"]))
    found = last.assign(model=when).pivot_table(index=["n_params", "size", "model"], columns="eval", values="loss")
    found = found[order].map(lambda share: f"{100 * share:.0f}").reset_index().drop(columns="n_params")
    chance = frame.groupby("eval")["chance"].first()
    row = {"size": "", "model": "by chance"} | {name: f"{100 * chance[name]:.0f}" for name in order}
    return pd.concat([pd.DataFrame([row]), found], ignore_index=True)


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables."""
    return {"ends": ends(), "held_out": held_out()}


def probe() -> Any:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    runs = cl.read_runs(table(), n_params_kind="total")
    fit = cl.fit(LAW, runs, on=LINKED[0], where="n_params < 40000")
    return fit.predict(fit.data)


def main() -> None:
    """Print the tables, or write them; or score models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=["measure"])
    parser.add_argument("recipes", nargs="*", type=Path)
    parser.add_argument("--store", default=str(ROOT / "runs" / "fr-en"))
    parser.add_argument("--corpora", type=Path, default=ROOT / "corpora")
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / "cache")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.what == "measure":
        measure(asked.recipes, Store(asked.store), asked.corpora, asked.cache)
    elif asked.write:
        write_result("small_tasks", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
