"""Tokens of the new language added to the vocabulary: how many, how their rows are started, and what they are worth.

    cptlaw sweep studies/recipes/vocabulary.yaml -o runs/vocabulary --workers 1
    python -m studies vocabulary extend          # base models with new rows, into runs/bases
    cptlaw sweep studies/recipes/vocabulary_128.yaml -o runs/vocabulary --workers 1
    cptlaw sweep studies/recipes/vocabulary_512.yaml -o runs/vocabulary --workers 1
    python -m studies vocabulary measure         # studies/measured/vocabulary.csv
    python -m studies vocabulary                 # prints the tables; --write keeps them for studies/measured_tables.md

Base models have a tokenizer of 512 symbols, trained on English. New tokens are the most frequent pairs of French text
as that tokenizer cuts it, merged one after the other (byte pair encoding gone on with), so that every other text is cut
as before unless it holds such a pair. A new row of the embedding, which is the head's too, is started as

- ``random``: noise of the size that rows begin with;
- ``mean``: the mean of all rows;
- ``parts``: the mean of the rows of its parts in the old tokenizer;
- ``first``: a copy of the row of its first part;
- ``trained``: as ``parts``, then the new rows alone are trained, for a tenth of the tokens of the run.

Losses are in nats per byte of one validation text, whatever the tokenizer: sums of nats over all of it, by its bytes.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cptlaw_sweep.jobs import Job
from cptlaw_sweep.load_sweep import load_sweep
from cptlaw_sweep.prepare import is_validation
from cptlaw_sweep.store import Store
from studies.harness import MEASURED, ROOT, SWEEPS, progress, show, spread, write_result

ADDED = (128, 512)
HOW = ("random", "mean", "parts", "first", "trained")
RECIPES = ("vocabulary", *(f"vocabulary_{count}" for count in ADDED))
SAMPLE = 3_000_000  # bytes of French that new tokens are counted in
VALIDATION = 150_000  # bytes of each language that losses are measured on
CONTEXT, ROWS, STEPS, RATE = 128, 8, 43, 3e-3  # of the rows that are trained first: a tenth of the 432 steps of a run
TABLE = MEASURED / "vocabulary.csv"
OLD = 512


def documents(corpora: Path, corpus: str, limit: int, *, validation: bool) -> list[str]:
    """Return documents of a corpus on one side of the split of the sweeps, the same in every run, up to a size."""
    found, size = [], 0
    for path in sorted((corpora / corpus).glob("*.jsonl")):
        for line in path.open(encoding="utf-8"):
            document = json.loads(line)
            if is_validation(document["group"], 0.01) == validation:
                found.append(document["text"])
    order = np.random.default_rng(0).permutation(len(found))
    kept = []
    for place in order:
        kept.append(found[place])
        size += len(found[place].encode())
        if size >= limit:
            return kept
    return kept


def new_pairs(words: Counter[tuple[str, ...]], count: int, known: set[str]) -> list[tuple[str, str]]:
    """Return the pairs of symbols to merge, most frequent first, each after those before it were merged.

    Parameters
    ----------
    words
        How often each word occurs, as its symbols.
    count
        How many.
    known
        Symbols that there are already: no pair that comes to one of them is taken.
    """
    held = [(list(word), often) for word, often in words.items()]
    pairs: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], set[int]] = {}
    for place, (word, often) in enumerate(held):
        for pair in pairwise(word):
            pairs[pair] += often
            where.setdefault(pair, set()).add(place)
    made: list[tuple[str, str]] = []
    while len(made) < count:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if best[0] + best[1] in known:
            del pairs[best]
            continue
        made.append(best)
        known = known | {best[0] + best[1]}
        for place in where.pop(best):
            word, often = held[place]
            for pair in pairwise(word):
                pairs[pair] -= often
            merged, at = [], 0
            while at < len(word):
                both = tuple(word[at : at + 2]) == best
                merged.append(word[at] + word[at + 1] if both else word[at])
                at += 2 if both else 1
            held[place] = (merged, often)
            for pair in pairwise(merged):
                pairs[pair] += often
                where.setdefault(pair, set()).add(place)
        del pairs[best]
    return made


def extended_tokenizer(old: Any, texts: list[str], count: int) -> dict[str, Any]:
    """Return the document of a tokenizer with so many new tokens, counted in some texts."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(piece for piece, _ in old.pre_tokenizer.pre_tokenize_str(text))
    cut = {word: tuple(token.value for token in old.model.tokenize(word)) for word in words}
    document: dict[str, Any] = json.loads(old.to_str())
    model = document["model"]
    pieces: Counter[tuple[str, ...]] = Counter()
    for word, often in words.items():
        pieces[cut[word]] += often
    for left, right in new_pairs(pieces, count, set(model["vocab"])):
        model["vocab"][left + right] = len(model["vocab"])
        model["merges"].append([left, right])
    return document


def started(rows: Any, parts: list[list[int]], how: str, spread: float) -> Any:
    """Return the new rows of an embedding."""
    import torch

    torch.manual_seed(0)
    if how == "random":
        return spread * torch.randn(len(parts), rows.shape[1])
    if how == "mean":
        return rows.mean(0).expand(len(parts), -1).clone()
    if how == "first":
        return torch.stack([rows[each[0]] for each in parts])
    return torch.stack([rows[each].mean(0) for each in parts])


def train_rows(model: Any, ids: np.ndarray, old: int) -> None:
    """Train the new rows of a model alone, the rest frozen."""
    import torch

    from cptlaw_sweep.models import mean_loss

    rows = model.get_input_embeddings().weight
    for parameter in model.parameters():
        parameter.requires_grad_(parameter is rows)
    start = rows.detach()[:old].clone()
    optimizer = torch.optim.AdamW([rows], lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
    windows = len(ids) // (CONTEXT + 1)
    order = np.random.default_rng(0).permutation(windows)[: STEPS * ROWS].reshape(STEPS, ROWS)
    for step, chosen in enumerate(order):
        batch = np.stack([ids[place * (CONTEXT + 1) : (place + 1) * (CONTEXT + 1)] for place in chosen])
        optimizer.zero_grad()
        mean_loss(model, torch.from_numpy(batch.astype(np.int64))).backward()
        rows.grad[:old] = 0
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 10)
        optimizer.step()
    with torch.no_grad():
        rows[:old] = start  # to the bit, whatever the optimiser did
    for parameter in model.parameters():
        parameter.requires_grad_(True)


def extend(store: Store, corpora: Path, bases: Path, cache: Path) -> None:
    """Write each base model of vocabulary.yaml with new tokens, for each count and start, as folders."""
    import tokenizers
    import transformers

    from cptlaw_sweep import saved_models  # needs torch, which the tables do not

    sweep = load_sweep(SWEEPS / "vocabulary.yaml")
    texts = documents(corpora, "french", SAMPLE, validation=False)
    for job in {job.columns["base"]: job for job in sweep.jobs if job.kind == "adapt"}.values():
        name = f"{job.columns['model']}-s{job.columns['seed']}"
        source = store.get_folder(f"models/{job.definition['start']['weights']}", cache)
        kept = store.get_folder(saved_models.folder_of(job.id, saved_models.kept_steps(store, job.id)[0]), cache)
        old = tokenizers.Tokenizer.from_file(str(kept / "tokenizer.json"))
        for count in ADDED:
            document = extended_tokenizer(old, texts, count)
            new = tokenizers.Tokenizer.from_str(json.dumps(document))
            added = [token for token, place in document["model"]["vocab"].items() if place >= OLD]
            parts = [[old.token_to_id(piece.value) for piece in old.model.tokenize(token)] for token in added]
            for how in HOW:
                place = bases / f"{name}-v{count}-{how}"
                if (place / "tokenizer.json").exists():
                    continue
                progress(place.name)
                base = transformers.AutoModelForCausalLM.from_pretrained(str(source))
                config = transformers.AutoConfig.from_pretrained(str(source), vocab_size=OLD + count)
                model = transformers.AutoModelForCausalLM.from_config(config)
                weights = base.state_dict()
                rows = weights["transformer.wte.weight"]
                spread = float(config.initializer_range)
                joined = rows.new_empty((OLD + count, rows.shape[1]))
                joined[:OLD], joined[OLD:] = rows, started(rows, parts, how, spread)
                weights["transformer.wte.weight"] = weights["lm_head.weight"] = joined
                model.load_state_dict(weights)
                if how == "trained":
                    ids = np.concatenate([each.ids for each in new.encode_batch(texts[:400])])
                    train_rows(model, ids, OLD)
                shutil.rmtree(place, ignore_errors=True)
                model.save_pretrained(str(place))
                fast = transformers.PreTrainedTokenizerFast(tokenizer_object=new, eos_token="<|endoftext|>")
                fast.save_pretrained(str(place))


@lru_cache
def validation(corpora: Path, corpus: str) -> list[str]:
    """Return the texts that losses are measured on."""
    return documents(corpora, corpus, VALIDATION, validation=True)


def per_byte(model: Any, tokenizer: Any, texts: list[str], end: int) -> tuple[float, float]:
    """Return the loss of texts in nats per byte, and their bytes per token."""
    import torch

    ids = np.concatenate([[*each.ids, end] for each in tokenizer.encode_batch(texts)])
    size = sum(len(text.encode()) for text in texts)
    total, model = 0.0, model.eval()
    with torch.no_grad():
        # Windows that share one token, as in training, each token but the first predicted once.
        starts = list(range(0, len(ids) - 1, CONTEXT))
        whole = [ids[at : at + CONTEXT + 1] for at in starts if at + CONTEXT < len(ids)]
        pieces = [np.stack(whole[at : at + 64]) for at in range(0, len(whole), 64)]
        pieces += [ids[None, starts[-1] :]] if len(whole) < len(starts) else []
        for piece in pieces:
            rows = torch.from_numpy(piece.astype(np.int64))
            logits = model(input_ids=rows[:, :-1], use_cache=False).logits
            total += float(
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")
            )
    return total / size, size / len(ids)


def rows_of(store: Store, job: Job, corpora: Path, cache: Path) -> Iterator[dict[str, Any]]:
    """Yield both losses of a run before its first step, at its end, and at a half, a quarter and an eighth of it."""
    import tokenizers

    from cptlaw_sweep import saved_models  # needs torch, which the tables do not
    from cptlaw_sweep.models import load_weights

    name = str(job.columns["model"])
    base, _, rest = name.partition("-v")
    count, _, how = rest.partition("-")
    given = job.places.get("model")
    steps = saved_models.kept_steps(store, job.id)
    if not steps or steps[-1] < job.definition["steps"][1]:  # not trained to its end
        return
    steps = [step for step in steps if any(abs(step * times - steps[-1]) < times for times in (1, 2, 4, 8))]
    where = {step: store.get_folder(saved_models.folder_of(job.id, step), cache) for step in steps}
    where[0] = Path(given) if given else store.get_folder(f"models/{job.definition['start']['weights']}", cache)
    tokenizer = tokenizers.Tokenizer.from_file(str(where[steps[0]] / "tokenizer.json"))
    replay = float(job.columns["replay"])
    for step in sorted(where):
        model = load_weights(where[step])
        losses = {
            corpus: per_byte(model, tokenizer, validation(corpora, corpus), 0) for corpus in ("english", "french")
        }
        before = STEPS if how == "trained" else 0
        tokens = (step + before) * int(job.columns["batch_tokens"])
        size = {corpus: found[1] for corpus, found in losses.items()}
        read = round(tokens * (replay * size["english"] + (1 - replay) * size["french"]))
        for role, corpus in (("source", "english"), ("target", "french")):
            yield {
                "run": job.name, "eval": role, "loss": round(losses[corpus][0], 6), "n_params": model.num_parameters(),
                "tokens": tokens, "text_bytes": read,
                "replay": replay, "seed": int(base.rpartition("-s")[2] if given else job.columns["seed"]),
                "vocab_added": int(count or 0), "method": how or "none", "bytes_per_token": round(size[corpus], 4),
                "lr_peak": job.columns["lr_peak"], "ptpp": job.columns["ptpp"], "metric": "nats_per_byte",
            }  # fmt: skip


def measure(store: Store, corpora: Path, cache: Path) -> None:
    """Write the table; runs that it has are not measured again."""
    rows = pd.read_csv(TABLE).to_dict("records") if TABLE.exists() else []
    known = {row["run"] for row in rows}
    for recipe in RECIPES:
        for job in load_sweep(SWEEPS / f"{recipe}.yaml").jobs:
            if job.kind == "adapt" and job.name not in known:
                rows += rows_of(store, job, corpora, cache)
                pd.DataFrame(rows).to_csv(TABLE, index=False)
                progress(f"{job.name}: {len(rows)} rows")


def at_end(frame: pd.DataFrame) -> pd.DataFrame:
    """Return both losses of each run before CPT, at its end, and at the text and the French loss of its plain run.

    The plain run is the one of the same seed without new tokens, at its end. In between losses are read off a line in
    the logarithm of tokens.
    """
    found = []
    lines = {run: part.pivot_table(index="tokens", columns="eval", values="loss") for run, part in frame.groupby("run")}
    facts = frame.drop_duplicates("run").set_index("run")
    sizes = frame.pivot_table(index="run", columns="eval", values="bytes_per_token")["target"]
    for run, line in lines.items():
        plain = facts.index[(facts["vocab_added"] == 0) & (facts["seed"] == facts.loc[run, "seed"])][0]
        end, text = lines[plain].iloc[-1], lines[plain].index[-1] * sizes[plain] / sizes[run]
        read = line[line.index > 0]
        tokens = np.log(read.index)
        enough = np.interp(-end["target"], -read["target"], tokens)
        row = {name: facts.loc[run, name] for name in ("seed", "vocab_added", "method")}
        for on in ("source", "target"):
            row |= {f"{on} before": line[on].iloc[0], on: line[on].iloc[-1]}
            row[f"{on} at text"] = np.interp(np.log(text), tokens, read[on])
        row |= {"share": np.exp(enough) / lines[plain].index[-1], "there": np.interp(enough, tokens, read["source"])}
        found.append(row | {"bytes": sizes[run]})
    return pd.DataFrame(found)


def tables() -> dict[str, pd.DataFrame]:
    """Return what new tokens are worth, by their count and how their rows start."""
    ends = at_end(pd.read_csv(TABLE))
    rows = []
    for (count, how), part in ends.groupby(["vocab_added", "method"]):
        rows.append(
            {
                "order": (count, ("none", *HOW).index(how)),
                "tokens added": str(count),
                "rows start as": how,
                "bytes per token": f"{part['bytes'].mean():.2f}",
                "French before": spread(part["target before"]),
                "French": spread(part["target"]),
                "French, equal text": spread(part["target at text"]),
                "tokens to the French loss without": f"{100 * part['share'].mean():.0f} %",
                "English before": spread(part["source before"]),
                "English": spread(part["source"]),
                "English at that French loss": spread(part["there"]),
            }
        )
    return {"added": pd.DataFrame(sorted(rows, key=lambda row: row["order"])).drop(columns="order")}


def probe() -> pd.DataFrame:
    """Return numbers behind the tables, unrounded (`studies.provenance`)."""
    return at_end(pd.read_csv(TABLE))


def main() -> None:
    """Print the tables, or write them; or make and measure the models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=["extend", "measure"])
    parser.add_argument("--store", default=str(ROOT / "runs" / "vocabulary"))
    parser.add_argument("--corpora", type=Path, default=ROOT / "corpora")
    parser.add_argument("--bases", type=Path, default=ROOT / "runs" / "bases")
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / "cache")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.what == "extend":
        extend(Store(asked.store), asked.corpora, asked.bases, asked.cache)
    elif asked.what == "measure":
        measure(Store(asked.store), asked.corpora, asked.cache)
    elif asked.write:
        write_result("vocabulary", tables())
    else:
        print(show(tables()))


if __name__ == "__main__":
    main()
