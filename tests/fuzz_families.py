"""The families of hostile cases of `fuzz`: one for each door of the package."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

import pandas as pd
from fuzz_world import COLUMNS, World

import cptlaw as cl
from cptlaw.cli import main as command_line
from cptlaw.cli.options import READING, read_table
from cptlaw.errors import CptlawError
from cptlaw.reading import parse_json, parse_yaml
from cptlaw.runs.points import as_points, point, read_points
from cptlaw.runs.where import parse
from cptlaw.schedules import read_schedules
from cptlaw.units import format_quantity, parse_probability, parse_quantity
from cptlaw_app.question import AnswerQueue, Problem, fields, read_upload
from cptlaw_app.tables import UploadStore, checked_upload
from cptlaw_sweep.trainers import TRAINERS, export

EXIT_CODES = {0, 2, 3, 4, 130}
LAWS = [
    "chinchilla",
    "kaplan",
    "ptpp-floor",
    "dcpt-l3",
    "ptpp-gate",
    "forgetting",
    "dcpt-l7:min_tokens=x",
    "no",
    "a:b=c",
]
CHEAP_LAWS = ["chinchilla", "kaplan", "ptpp-floor", "ptpp-gate", "dcpt-l3"]
ROWS = "ptpp in (31, 62, 124) and replay in (0.1, 0.25, 0.5)"


def _encodable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts a file can hold: no lone surrogates, no objects."""

    def text(value: Any) -> Any:
        return value if isinstance(value, float) else str(value).encode("utf-8", "replace").decode()

    cells: dict[int, list[Any]] = {}
    for place in range(len(frame.columns)):
        values = [text(value) for value in frame.iloc[:, place]]
        mixed = any(isinstance(value, str) for value in values)
        cells[place] = [str(value) for value in values] if mixed else values
    found = pd.DataFrame(cells)
    found.columns = [text(name) for name in frame.columns]
    return found


def csv(world: World) -> None:
    """A CSV file, damaged."""
    text = _encodable(world.frame()).to_csv(index=False, sep=world.draw.choice([",", ",", ",", ";", "\t"]))
    name = world.draw.choice(["r.csv", "r.csv", "r.tsv", "r.csv.gz", "r", "r.txt"])
    runs = cl.read_runs(world.write(name, world.bytes_of(text.encode("utf-8", "surrogatepass"))))
    _use(world, runs)


def json_lines(world: World) -> None:
    """JSON Lines or a list of records, damaged."""
    records = world.frame().to_dict("records")
    text = "\n".join(json.dumps(record, default=str) for record in records)
    if world.draw.random() < 0.3:
        text = json.dumps(records, default=str)
    if world.draw.random() < 0.2:
        text += "\n" + json.dumps(world.value(), default=str)
    _use(world, cl.read_runs(world.write("r.jsonl", world.bytes_of(text.encode("utf-8", "surrogatepass")))))


def parquet(world: World) -> None:
    """A Parquet file, damaged or not."""
    frame = _encodable(world.frame())
    frame = frame.loc[:, ~frame.columns.duplicated()]
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    content = buffer.getvalue() if world.draw.random() < 0.4 else world.bytes_of(buffer.getvalue())
    _use(world, cl.read_runs(world.write("r.parquet", content)))


def dataframe(world: World) -> None:
    """A DataFrame of pandas, with odd cells and columns."""
    frame = world.frame()
    if world.draw.random() < 0.2:
        frame.index = pd.Index([world.name() for _ in range(len(frame))])
    columns = {world.text(): world.text()} if world.draw.random() < 0.2 else None
    losses = (
        {world.text(): world.draw.choice([str(name) for name in frame.columns])} if world.draw.random() < 0.1 else None
    )
    _use(world, cl.read_runs(frame, columns=columns, losses=losses))


def _use(world: World, runs: Any) -> None:
    repr(runs)
    runs._repr_html_()
    runs.summary()
    assert len(runs.fingerprint) == 64
    runs.base_losses(runs.evals[0])
    runs.where(world.query())


def filters(world: World) -> None:
    """A filter."""
    piece = world.draw.choice([world.query(), world.text() * world.draw.choice([1, 50])])
    frame = world.frame()
    parse(piece).mask(frame.loc[:, ~frame.columns.duplicated()])


def points(world: World) -> None:
    """Points to forecast: as text, as a table, as a mapping."""
    kind = world.draw.randrange(4)
    if kind == 0:
        frame = point(world.at())
    elif kind == 1:
        frame, _ = read_points(
            world.write("p.csv", world.bytes_of(_encodable(world.frame()).to_csv().encode("utf-8", "surrogatepass")))
        )
    elif kind == 2:
        frame = as_points({world.draw.choice(COLUMNS): world.value() for _ in range(3)})
    else:
        frame = as_points(world.frame())
    world.fits[0].forecast(frame)


def quantities(world: World) -> None:
    """A number as text."""
    text = world.quantity() if world.draw.random() < 0.5 else world.quantity() * world.draw.randrange(1, 3000)
    with contextlib.suppress(CptlawError):
        parse_probability(text)
    format_quantity(parse_quantity(world.draw.choice([text, world.value()])))


def yaml(world: World) -> None:
    """A schedules file, damaged; and any YAML or JSON."""
    phase = {"phase": "cpt", "steps": world.quantity(), "schedule": world.draw.choice(["wsd", "cosine", world.text()])}
    phase |= {
        "peak": world.quantity(),
        world.draw.choice(["decay", "warmup", "end", "file", world.text()]): world.quantity(),
    }
    if world.draw.random() < 0.5:
        phase |= {"steps": world.draw.choice(["100", 1e15, "2K"]), "schedule": "constant", "peak": "1e-3"}
    if world.draw.random() < 0.3:
        phase[world.draw.choice(list(phase))] = world.value()
    document = world.draw.choice([{"a": [phase]}, {"a": phase}, {world.text(): [phase, world.value()]}, world.value()])
    text = world.bytes_of(json.dumps(document, default=str).encode("utf-8", "surrogatepass"))
    for reader in (parse_yaml, parse_json):
        with contextlib.suppress(CptlawError):
            reader(text.decode("utf-8", "replace"), "x")
    read_schedules(world.write(world.draw.choice(["s.yaml", "s.json", "s.yml"]), text))


def recipes(world: World) -> None:
    """A recipe of a sweep, damaged."""
    from cptlaw_sweep.load_sweep import load_sweep

    world.write("old.jsonl", '{"text": "one two three"}\n' * 3)
    recipe: dict[str, Any] = {
        "text": {name: {"files": "old.jsonl", "validation": "10%"} for name in ("old", "new")},
        "context": 32, "batch": 4, "eval_sequences": 8, "models": {"2k": {"width": 12, "layers": 1, "heads": 2}},
        "pretrain": {"text": "old", "ptpp": [4, 8], "peak": 1e-2, "warmup": 10},
        "adapt": {"source": "old", "target": "new", "replay": [0, 0.25], "tokens_per_param": 2,
                  "schedules": {"schedule": "constant", "peak": 5e-3, "warmup": 5}},
    }  # fmt: skip
    for _ in range(world.draw.randrange(3)):
        part = recipe
        while True:
            key = world.draw.choice(list(part))
            if not isinstance(part[key], dict) or not part[key] or world.draw.random() < 0.3:
                break
            part = part[key]
        part[world.draw.choice([key, key, world.text()])] = world.draw.choice([world.value(), world.quantity(), "1e12"])
    text = json.dumps(recipe, default=str).encode("utf-8", "surrogatepass")
    load_sweep(world.write("sweep.yaml", text if world.draw.random() < 0.6 else world.bytes_of(text)))


def fits(world: World) -> None:
    """A saved fit, tampered with; or a fit to odd numbers."""
    if world.draw.random() < 0.8:
        document = json.loads(world.draw.choice(world.fit_texts))
        for _ in range(world.draw.randrange(3)):
            part = document
            key = world.draw.choice(list(part))
            if isinstance(part[key], dict) and part[key] and world.draw.random() < 0.6:
                part = part[key]
                key = world.draw.choice(list(part))
            part[key] = world.draw.choice([world.value(), world.number(), world.text()])
        text = json.dumps(document, default=str).encode("utf-8", "surrogatepass")
        fit = cl.load_fit(world.write("t.json", text if world.draw.random() < 0.7 else world.bytes_of(text)))
        fit.summary()
        fit.predict({"n_params": 1e6, "tokens": 1e7, "replay": 0.1, "ptpp": 50})
        return
    frame = world.frame(world.draw.randrange(3, 12))
    name = world.draw.choice(
        [column for column in ("loss", "n_params", "tokens", "ptpp") if column in frame] or ["loss"]
    )
    values = [world.draw.choice([world.number(), *frame.get(name, [1.0])]) for _ in range(len(frame))]
    # As objects: pandas itself refuses half a character in a column of texts.
    frame[name] = pd.Series(values, index=frame.index, dtype=object)
    fit = cl.fit(world.draw.choice(CHEAP_LAWS), frame, on="target", starts=2, restraint="none")
    fit.summary()


def seals(world: World) -> None:
    """A forecast to seal, and a seal to score, both tampered with; the SHA-256 mostly computed anew."""
    point = {"on": "target", "law": "ptpp-floor", "n_params": 1e6, "tokens": 1e7, "loss": 2.0, "lo": 1.9, "hi": 2.1}
    law = {"law": "ptpp-floor", "on": "target", "fitted_runs": "0123456789ab"}
    forecast = {"points": [point, dict(point)], "interval": 0.9, "intervals": [law]}
    if world.draw.random() < 0.5:
        _tamper(world, forecast)
    content = json.loads(json.dumps(cl.register(forecast).to_dict()))
    _tamper(world, content)
    if world.draw.random() < 0.8:
        content.pop("sha256", None)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
        content["sha256"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    text = json.dumps(content, default=str).encode("utf-8", "surrogatepass")
    str(cl.score(world.write("seal.json", text), cl.read_runs(world.frame())))


def exports(world: World) -> None:
    """An answer to export, tampered with, and any numbers beside it; nothing is left where it is refused."""
    draw = world.draw
    answer: dict[str, Any] = {"question": "How?", "feasible": True, "tokens": 20e9, "replay": 0.2, "lr_peak": 2e-5}
    answer |= draw.choice([{}, {"mix": {"a": 0.5, world.text(): 0.3, "b/c": 0.2}}, {"base": world.text()}])
    _tamper(world, answer)
    near = {
        "gpus": [1, 7, 8, 0.5], "context": [512, 4096, 0, 0.4, "1e12"], "batch": [1, 256, -1], "warmup": [0, "1%", 1],
        "end": [0, 0.1, 1, -1], "lr_peak": [1e-4, 0], "base": ["org/model", ""],
    }  # fmt: skip
    how = {name: draw.choice([*some, world.quantity()]) for name, some in near.items() if draw.random() < 0.2}
    to = draw.choice([*TRAINERS, world.text()])
    text = json.dumps(answer, default=str).encode("utf-8", "surrogatepass")
    given = answer if draw.random() < 0.3 else world.write("answer.json", text)
    try:
        written = export(given, to, world.folder / "out", **how)
    except CptlawError:
        assert not (world.folder / "out").exists(), "files of a refused answer"
        raise
    for path in written:
        content = path.read_text()
        if path.suffix == ".yaml":
            assert "trust_remote_code" not in parse_yaml(content, path.name)
        elif path.suffix == ".py":
            ast.parse(content)


def _tamper(world: World, document: dict[str, Any]) -> None:
    for _ in range(world.draw.randrange(3)):
        part: Any = document
        while isinstance(part, dict | list) and part:
            key = world.draw.choice(list(part) if isinstance(part, dict) else range(len(part)))
            if not isinstance(part[key], dict | list) or world.draw.random() < 0.2:
                part[key] = world.draw.choice([world.value(), world.number(), world.text()])
                break
            part = part[key]


def imports(world: World) -> None:
    """A file or folder of logs, damaged."""
    logs = {
        "trainer_state.json": json.dumps({"global_step": 2, "log_history": [{"step": 1, "eval_fr_loss": 2.5}]}),
        "wandb-history.jsonl": '{"_step": 1, "eval/loss": 2.5}\n{"_step": 2, "eval/loss": 2.4}\n',
        "megatron.log": "iteration 5/ 10 | consumed samples: 5 |\nvalidation loss at iteration 5 | lm value: 2.3 |\n",
        "nemo.log": "global_step: 9 | reduced_train_loss: 2.5 | val_loss: 4.1\nglobal_step: 10 | x: 2.5\n",
        "titan.log": "step: 20  loss:  6.2  memory: 1 tps: 5\nvalidate step: 20  loss:  6.19  memory: 1 tps: 5\n",
        "chart.csv": 'Step,"a - eval/loss","a - eval/loss__MIN","a - eval/loss__MAX"\n1,2.5,2.5,2.5\n',
        "metrics.csv": "step,eval_fr_loss,tokens\n1,2.5,1000\n2,2.4,2000\n",
        "metrics.jsonl": '{"step": 1, "eval_loss": 2.5}\n',
        "config.yaml": "lr: 1e-3\nmodel: {n_params: 1M}\n",
    }
    names = world.draw.sample(list(logs), world.draw.randrange(1, 4))
    for name in names:
        text = logs[name].replace("2.5", world.draw.choice(["2.5", "2.5", world.text()]))
        world.write(f"logs/{name}", world.bytes_of(text.encode("utf-8", "surrogatepass")))
    source = world.folder / "logs" / world.draw.choice(["", "", names[0]])
    options: dict[str, Any] = {}
    every = {
        "batch_tokens": world.quantity(),
        "pattern": world.draw.choice(["{any}", "{n_params}-{replay%}", "{x}"]),
        "constants": {world.draw.choice(COLUMNS): world.quantity()},
        "first_step": world.quantity(),
        "mapping": {world.draw.choice(["loss:a", "tokens", world.text()]): "eval_loss"},
    }
    for key, value in every.items():
        if world.draw.random() < 0.15:
            options[key] = value
    cl.import_logs(source, world.folder / world.draw.choice(["out.csv", "out.jsonl", "out.parquet"]), **options)


def logs_of_steps(world: World) -> None:
    """A table without a column of runs, with objects and lists in its cells."""
    frame = world.frame().drop(columns="run", errors="ignore").astype(object)
    frame = frame.loc[:, ~frame.columns.duplicated()]  # of two columns of one name none can be filled
    frame["step"] = pd.Series(range(len(frame)), index=frame.index, dtype=object)
    for name in world.draw.sample(["config", "opt.lr", "replay_pct", "Tokens (B)", "n_params", "domain", "mix"], 3):
        frame[name] = pd.Series([world.value() for _ in range(len(frame))], index=frame.index, dtype=object)
    if world.draw.random() < 0.5:
        lines = "".join(json.dumps(row, default=str) + "\n" for row in frame.to_dict("records"))
        str(cl.read_runs(world.write("log.jsonl", lines)))
    str(cl.read_runs(frame))


def score_files(world: World) -> None:
    """Results of an evaluation package with anything where it has numbers."""
    odd = {"acc,none": world.value(), "acc_stderr,none": world.value(), world.text(): 0.5}
    whole = {
        "results": {"piqa": odd, "a|b|0": world.value()},
        "task_name": world.value(),
        "metrics": odd,
        **{name: world.value() for name in ("n-samples", "samples", "config", "config_general", "model_config")},
    }
    for name in world.draw.sample(list(whole), 2):
        del whole[name]
    name = world.draw.choice(["results_1.json", "task-1-metrics.json"])
    world.write(f"scores/{name}", json.dumps(whole))
    cl.import_logs(world.folder / "scores", world.folder / "out.csv")


def databases(world: World) -> None:
    """A database of MLflow with anything where it has numbers and names."""
    cells = [None, "x", 1, 2.5, world.name(), world.number(), b"x"]
    with contextlib.closing(sqlite3.connect(world.folder / "mlflow.db")) as database:
        database.executescript(
            "create table runs(run_uuid, name, lifecycle_stage, start_time); create table tags(run_uuid, key, value);"
            "create table params(run_uuid, key, value);"
            "create table metrics(run_uuid, step, key, value, is_nan, timestamp);"
        )
        for _ in range(world.draw.randrange(4)):
            run, *rest = (world.draw.choice(cells) for _ in range(4))
            database.execute("insert into runs values(?, ?, 'active', 1)", ("a", rest[0]))
            database.execute("insert into metrics values(?, ?, ?, ?, 0, 1)", (world.draw.choice(["a", run]), *rest))
            database.execute("insert into params values('a', ?, ?)", rest[:2])
        database.execute("insert into metrics values('a', 1, 'eval_loss', 2.5, 0, 1)")
        database.commit()
    cl.import_logs(world.folder / "mlflow.db", world.folder / "out.csv")


def plans(world: World) -> None:
    """A question to the planner."""
    target, source = world.fits
    draw = world.draw

    def some(**values: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if draw.random() < 0.5}

    size = draw.choice(["125K", "46K", 1e6, 1e13, world.quantity()])
    common = some(
        ptpp=draw.choice([31, 124, 279, world.quantity()]), base_source_loss=draw.choice([3.5, world.quantity()])
    )
    common |= some(
        max_forgetting=draw.choice(["2%", "100%", world.quantity()]), max_source_loss=draw.choice([4, world.quantity()])
    )
    kind = draw.randrange(4)
    if kind == 0:
        limits = some(max_target_loss=draw.choice([4, 3, world.quantity()]), max_tokens=world.quantity())
        plan: Any = cl.plan.min_tokens(target, source, n_params=size, **common, **limits)
    elif kind == 1:
        plan = cl.plan.trade_off(target, source, n_params=size, tokens=draw.choice(["10M", world.quantity()]), **common)
    elif kind == 2:
        plan = cl.plan.limited_data(
            target, source=source, n_params=size, target_tokens=draw.choice(["1M", world.quantity()]), **common
        )
    else:
        common = {name: value for name, value in common.items() if name == "ptpp"}
        plan = cl.plan.allocate(
            target,
            budget=draw.choice(["1e15", world.quantity()]),
            replay=draw.choice(["50%", world.quantity()]),
            **common,
        )
    plan.summary()
    json.dumps(plan.to_dict(), default=lambda value: value.item())


def uploads(world: World) -> None:
    """An upload of the app."""
    name = world.draw.choice(["r.csv", "r.jsonl", "r.parquet", world.text(), world.text() + ".csv", "a" * 400 + ".csv"])
    content = world.bytes_of(_encodable(world.frame()).to_csv(index=False).encode("utf-8", "surrogatepass"))
    upload = checked_upload(name, content)
    with contextlib.suppress(CptlawError):
        read_upload(
            upload, lambda path: read_table(path, {name: () if name == "columns" else None for name in READING})
        )


def readings(world: World) -> None:
    """What is understood of a table, with replies kept beside it, damaged or not, and others given."""
    draw = world.draw
    table = world.write("r.csv", _encodable(world.frame()).to_csv(index=False).encode("utf-8", "surrogatepass"))
    replies = {name: draw.choice([{world.text(): world.text()}, {draw.choice(COLUMNS): draw.choice(COLUMNS)},
                                  world.value()])
               for name in draw.sample(["columns", "losses", "split", "unit", "source_eval", "target_eval",
                                        "n_params_kind", world.text()], 3)}  # fmt: skip
    text = json.dumps(replies, default=str).encode("utf-8", "surrogatepass")
    world.write("r.csv.cptlaw.yaml", text if draw.random() < 0.6 else world.bytes_of(text))
    given = {"columns": {draw.choice(COLUMNS): draw.choice([world.quantity(), "loss/2", "1-replay", world.text()])}}
    reading = cl.read(table, **(given if draw.random() < 0.3 else {}))
    reading.summary()
    json.dumps(reading.to_dict(), default=str)


def spreadsheets(world: World) -> None:
    """A spreadsheet, with anything in its cells, damaged or not."""
    draw, frame = world.draw, _encodable(world.frame())
    rows = [list(frame.columns), *frame.astype(object).to_numpy().tolist()]
    lines = []
    for number, row in enumerate(rows, 1):
        kinds = [draw.choice(["inlineStr"] * 9 + ["d", "b", "e", "s", "n"]) for _ in row]
        texts = [escape(str(one)) for one in row]
        cells = [
            f'<c t="{kind}"><is><t>{text}</t></is><v>{text}</v></c>' for kind, text in zip(kinds, texts, strict=True)
        ]
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    main, kind = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "application/vnd.openxmlformats-"
    of = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="{kind}'
        f'package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{kind}officedocument.'
        f'spreadsheetml.sheet.main+xml"/><Override PartName="/xl/s.xml" ContentType="{kind}officedocument.'
        'spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" '
        f'Type="{of}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{of}"><sheets><sheet name="a" sheetId="1" r:id="b"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="b" '
        f'Type="{of}/worksheet" Target="s.xml"/></Relationships>',
        "xl/s.xml": f'<worksheet xmlns="{main}"><sheetData>{"".join(lines)}</sheetData></worksheet>',
    }  # fmt: skip
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, text in parts.items():
            content = text.encode("utf-8", "replace")
            packed.writestr(name, world.bytes_of(content) if draw.random() < 0.05 else content)
    content = buffer.getvalue() if draw.random() < 0.8 else world.bytes_of(buffer.getvalue())
    _use(world, cl.read_runs(world.write("r.xlsx", content)))


def merges(world: World) -> None:
    """Two models to merge, their weights, index and config tampered with; nothing is left where that is refused."""
    from safetensors.torch import save
    from torch import ones

    from cptlaw_sweep.merging import merge

    draw = world.draw
    for name in ("base", "adapted"):
        config: dict[str, Any] = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1}
        _tamper(world, config)
        weights = save({"a": ones(draw.choice([2, 2, 2, 2, 3])), draw.choice(["b", "b", "b", "c"]): ones(3, 2)})
        content = weights if draw.random() < 0.7 else world.bytes_of(weights)
        world.write(f"{name}/config.json", json.dumps(config, default=str).encode("utf-8", "surrogatepass"))
        if draw.random() < 0.3:
            index: dict[str, Any] = {"metadata": {}, "weight_map": dict.fromkeys("ab", "part.safetensors")}
            _tamper(world, index)
            text = json.dumps(index, default=str).encode("utf-8", "surrogatepass")
            world.write(f"{name}/model.safetensors.index.json", text)
            world.write(f"{name}/part.safetensors", content)
        else:
            world.write(f"{name}/model.safetensors", content)
    weight = draw.choice([0.5, 0.0, 1.0, world.number()])
    try:
        merge(world.folder / "base", world.folder / "adapted", world.folder / "out", weight=weight).summary()
    except CptlawError:
        assert not (world.folder / "out").exists(), "files of a refused merge"
        raise


def bases(world: World) -> None:
    """A base model: its name, nearly, or a config.json, tampered with."""
    draw = world.draw
    config: dict[str, Any] = {
        "model_type": draw.choice(["llama", "qwen2", "gpt2", "gpt_neox", "deepseek_v3", "gemma3", world.text()]),
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
        "num_key_value_heads": 2, "intermediate_size": 128, "kv_lora_rank": 8, "n_embd": 64, "n_layer": 2,
        "num_experts": 4, "_name_or_path": draw.choice(["meta-llama/Llama-3.1-8B", world.text()]),
    }  # fmt: skip
    for name in draw.sample(list(config), draw.randrange(4)):
        config[name] = draw.choice([world.value(), world.number(), world.text()])
    text = json.dumps(config, default=str).encode("utf-8", "surrogatepass")
    path = world.write("model/config.json", text if draw.random() < 0.8 else world.bytes_of(text))
    named = draw.choice([str(path), str(path.parent), "llama-3.1-8b", "Qwen/Qwen3-8B-Base", world.text()])
    how = {"tokens": draw.choice(["10B", world.quantity()]), "ptpp": draw.choice([100, None, world.quantity()])}
    cl.answer(base=named, shift="language", **how).summary()


def app_forms(world: World) -> None:
    """A form of the app, filled with anything, about no runs or an upload."""
    draw, queue = world.draw, AnswerQueue(UploadStore())
    form = {"table": "none", "n_params": "8B", "ptpp": "1875", "tokens": "20B", "shift": "language"}
    names = [one.name for one in fields()]
    for name in draw.sample(names, draw.randrange(5)):
        form[name] = draw.choice(
            [world.quantity(), world.text(), *next(one for one in fields() if one.name == name).choices]
        )
    answer = queue.ask(form)
    if not isinstance(answer, Problem):
        json.dumps(answer.to_dict(), default=str)
    text = _encodable(world.frame()).to_csv(index=False).encode("utf-8", "surrogatepass")
    form["table"] = draw.choice([queue.uploads.keep(checked_upload("r.csv", world.bytes_of(text))), world.text()])
    queue.read(form)


def command_lines(world: World) -> None:
    """A command line."""
    draw = world.draw
    runs = world.write("r.csv", _encodable(world.frame()).to_csv(index=False).encode("utf-8", "surrogatepass"))
    fit = world.write("t.json", world.fit_texts[0])
    law, on = draw.choice(LAWS), draw.choice(["target", "source", world.text()])
    output = str(draw.choice([runs, fit, "o.json"]))
    words = draw.choice(
        [
            ["laws", draw.choice([law, world.text()])],
            ["check", str(runs), "--law", law, "--on", on, "--where", world.query()],
            ["fit", str(runs), "--law", law, "--on", on, "--starts", "2", "-o", output],
            ["forecast", str(fit), "--at", world.at(), "--interval", world.quantity()],
            ["forecast", str(fit), "--points", str(runs)],
            ["given", law, "--on", on, "--params", f"E={world.quantity()},A=1,B=2,alpha=.3,beta=.3", "-o", "g.json"],
            ["import", str(runs), "-o", draw.choice(["i.csv", str(runs), world.text() or "x"])],
            ["plan", draw.choice(["allocate", "nothing"]), "--target", str(fit), "--budget", world.quantity()],
            ["example", draw.choice(["en-fr-pilot", world.text()])],
            [world.text(), world.text()],
        ]
    )  # fmt: skip
    if draw.random() < 0.3:
        words.insert(draw.randrange(len(words) + 1), draw.choice(["--json", "--strict", world.text()]))
    # No shell can pass a zero byte; a byte that is no text comes as one of the upper halves of characters.
    words = [word.replace("\0", "").replace("\ud800", "\udc80") for word in words]
    with contextlib.redirect_stdout(_strict_stream()), contextlib.redirect_stderr(_strict_stream()) as told:
        try:
            command_line(words)
        except SystemExit as ended:
            code = ended.code or 0
    assert code in EXIT_CODES, f"exit code {code}"
    assert "Traceback" not in told.getvalue_text()


class _Stream(io.TextIOWrapper):
    def getvalue_text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]


def _strict_stream() -> _Stream:
    return _Stream(io.BytesIO(), encoding="utf-8", write_through=True)


Family = Callable[[World], None]
FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        csv, json_lines, parquet, dataframe, filters, points, quantities, yaml, recipes, fits, seals, exports, imports,
        logs_of_steps, score_files, databases, plans, uploads, command_lines, readings, spreadsheets, merges, bases,
        app_forms,
    )
    if family is not merges or importlib.util.find_spec("torch")
}  # fmt: skip
