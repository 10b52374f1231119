"""Merge an adapted model with its base: base + weight * (adapted - base), shard by shard.

Both losses along that line are measured in studies/merging.md. Weights are read and written as safetensors alone, since
nothing is unpickled.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

from cptlaw.errors import DataError, UsageError, join_names
from cptlaw.findings import Finding
from cptlaw.reading import plain_json
from cptlaw.result import Line, Result
from cptlaw.units import format_percent, format_quantity
from cptlaw.writing import make_folder
from cptlaw_sweep import require_training
from cptlaw_sweep.given_models import TOKENIZER_FILES, read_config
from cptlaw_sweep.templating import render

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
COPIED = (*TOKENIZER_FILES, "config.json", "generation_config.json", "chat_template.jinja")


@dataclass(frozen=True, repr=False)
class Merged(Result):
    """A model between a base model and its adaptation.

    Attributes
    ----------
    output
        The folder that was written.
    weight
        Share of the change that was kept: 0 is the base model, 1 the adapted one.
    n_params
        Numbers in its weights.
    shards
        Files that they are in.
    change
        Norm of (adapted - base) over that of the base: how far the adaptation went.
    findings
        What was noticed.
    """

    output: str
    weight: float
    n_params: int
    shards: int
    change: float
    findings: tuple[Finding, ...] = ()

    @property
    def title(self) -> str:
        """What was merged."""
        return (
            f"{format_percent(self.weight)} of the adaptation kept, {format_quantity(float(self.n_params))} parameters"
        )

    @property
    def lines(self) -> list[Line]:
        """Where it is, and how far the two models are apart."""
        return [("written", self.output), ("change", f"{format_percent(self.change)} of the norm of the base weights")]


def merge(base: str | Path, adapted: str | Path, output: str | Path, *, weight: float) -> Merged:
    """Write the model at base + weight * (adapted - base), in the precision of the adapted one, with its tokenizer.

    Parameters
    ----------
    base, adapted
        Folders as `save_pretrained` of transformers writes them, in safetensors, whole or in shards.
    output
        A folder that is not there yet, or is empty.
    weight
        From 0 (the base model) to 1 (the adapted one).

    Raises
    ------
    UsageError
        If the weight lies outside, or the extra `training` is not installed.
    DataError
        If the two are not the same model, a file is missing or damaged, or the output holds something.
    """
    require_training()
    if not 0 <= weight <= 1:
        raise UsageError(f"weight {weight:g}: expected 0, the base model, to 1, the adapted one.")
    output = Path(output)
    taken = DataError(f"{output} is there already. Name a folder that is new: nothing is written over.")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise taken
    start, end = (_Weights(Path(folder)) for folder in (base, adapted))
    names = _shared_names(start, end)
    parent = make_folder(output.absolute().parent)
    # Written beside its place and moved there whole, so that no half of a model lies under its name.
    part = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=parent))
    try:
        change = _write_shards(start, end, names, weight, part)
        for name in COPIED:
            if (end.folder / name).is_file():
                shutil.copyfile(end.folder / name, part / name)
        card = render("merged_model.md", base=start.folder.name, adapted=end.folder.name, weight=weight)
        (part / "README.md").write_text(card, encoding="utf-8")
        part.chmod(0o755)
        try:
            if output.exists():
                output.rmdir()
            part.rename(output)
        except OSError:
            if output.exists():  # another merge was faster
                raise taken from None
            raise
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return Merged(str(output), weight, change["numbers"], len(end.files), (change["apart"] / change["norm"]) ** 0.5)


class _Weights:
    """The safetensors files of a model's folder: which file holds a tensor."""

    def __init__(self, folder: Path):
        self.folder, self.config = folder, read_config(folder)
        index = folder / INDEX
        if index.is_file():
            self.file_of = _read_index(index)
        elif (folder / WHOLE).is_file():
            with _opened(folder / WHOLE) as file:
                self.file_of = dict.fromkeys(file.keys(), WHOLE)
        elif (folder / "adapter_config.json").is_file():
            raise DataError(
                f"{folder} holds an adapter. Add it to its base model (`merge_and_unload` of peft) and save that."
            )
        else:
            raise DataError(
                f"{folder}: there is no {WHOLE} and no {INDEX}. Load the model and save it with `save_pretrained`."
            )
        self.files = list(dict.fromkeys(self.file_of.values()))
        for name in self.files:
            if not isfile(folder / name):  # a name may be longer than any file's
                raise DataError(f"{folder}: {INDEX} names {name}, which is not there. Copy the whole model.")


def _read_index(path: Path) -> dict[str, str]:
    try:
        document = plain_json(path.read_text(encoding="utf-8"))["weight_map"]
        files = {str(name): str(file) for name, file in document.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: expected a weight_map of tensors to files ({error}). Copy the model again.") from None
    outside = [file for file in files.values() if Path(file).name != file]
    if outside:
        raise DataError(f"{path}: {outside[0]!r} lies outside of the folder. Copy the model again.")
    return files


def _opened(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Copy the model again.") from None


def _tensor(weights: _Weights, opened: Mapping[str, Any], name: str) -> Any:
    from safetensors import SafetensorError

    file = weights.file_of[name]
    try:
        return opened[file].get_tensor(name)
    except SafetensorError as error:
        raise DataError(f"{weights.folder / file}: {error}. Copy the model again.") from None


def _shared_names(start: _Weights, end: _Weights) -> list[str]:
    """Return the tensors that are merged; a tied head that one of the two repeats is left to its embeddings."""
    mine, others = set(start.file_of), set(end.file_of)
    alone = mine ^ others
    if end.config.get("tie_word_embeddings", True):
        alone -= {name for name in alone if name.endswith(("lm_head.weight", "embed_out.weight"))}
    if alone:
        raise DataError(
            f"{start.folder} and {end.folder} are not the same model: {join_names(sorted(alone))} "
            f"{'is' if len(alone) == 1 else 'are'} in one of them alone. Name a model and its own base."
        )
    return [name for name in end.file_of if name in mine]


def _write_shards(start: _Weights, end: _Weights, names: list[str], weight: float, part: Path) -> dict[str, Any]:
    """Write the files of the adapted model with merged tensors; one file is in memory at a time."""
    import torch
    from safetensors.torch import save_file

    norm = apart = 0.0
    numbers = written = 0
    with ExitStack() as stack:
        of_base = {file: stack.enter_context(_opened(start.folder / file)) for file in start.files}
        for file in end.files:
            merged: dict[str, torch.Tensor] = {}
            with _opened(end.folder / file) as adapted:
                for name in (name for name in names if end.file_of[name] == file):
                    one, other = (_tensor(*given, name) for given in ((start, of_base), (end, {file: adapted})))
                    if one.shape != other.shape:
                        raise DataError(
                            f"{name} has the shape {tuple(one.shape)} in {start.folder} and {tuple(other.shape)} in "
                            f"{end.folder}. Expected a model and its own base, with the same vocabulary."
                        )
                    if not other.is_floating_point():  # masks and positions
                        merged[name] = other
                        continue
                    change = other.float() - one.float()
                    # Added in single precision and only then rounded, or small changes would be lost.
                    merged[name] = (one.float() + weight * change).to(other.dtype).contiguous()
                    norm += float(one.double().square().sum())
                    apart += float(change.double().square().sum())
                    numbers += other.numel()
            save_file(merged, str(part / file), metadata={"format": "pt"})
            written += sum(each.numel() * each.element_size() for each in merged.values())
    if end.files != [WHOLE]:
        index = {"metadata": {"total_size": written}, "weight_map": {name: end.file_of[name] for name in names}}
        (part / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return {"norm": norm or 1.0, "apart": apart, "numbers": numbers}
