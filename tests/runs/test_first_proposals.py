"""Tables in which nothing has a name that is known: what `read` proposes first reads each of them as the truth."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from messy_truth import LN2, wide
from messy_truth import TABLES as MESSY

import cptlaw as cl
from cptlaw.cli import main
from cptlaw.runs import UnreadColumnError, refuse_unread
from cptlaw.runs.question import as_flag

INPUTS = ["n_params", "tokens", "replay", "ptpp"]
TABLE = wide()[["run", *INPUTS, "source_loss", "target_loss"]]


def renamed(**names):
    return TABLE.rename(columns=names)


def millions(values):
    return [f"{value / 1e6:g}M" for value in values]


def ratios():
    parts = [f"{100 * share:g}:{100 - 100 * share:g}" for share in TABLE["replay"]]
    shown = TABLE.assign(**{"Model": millions(TABLE["n_params"]), "old:new": parts})
    shown = shown.assign(**{"D/N": shown["tokens"] / shown["n_params"], "PT tok/param": shown["ptpp"]})
    named = shown.rename(columns={"source_loss": "loss (old)", "target_loss": "loss (new)"})
    return named[["Model", "PT tok/param", "old:new", "D/N", "loss (old)", "loss (new)"]]


def units():
    shown = TABLE.assign(n_params=TABLE["n_params"] / 1e6, replay=100 * TABLE["replay"], tokens=TABLE["tokens"] / 1e9)
    shown = shown.rename(columns={"run": "exp", "n_params": "model", "ptpp": "pretraining", "tokens": "adapt tokens"})
    row = dict(zip(shown.columns, ("", "M params", "B tokens", "%", "tok/param", "nats", "nats"), strict=True))
    return pd.concat([pd.DataFrame([row]), shown.astype(object)])


def german():
    shown = TABLE.assign(replay=[f"{100 - 100 * share:g} %" for share in TABLE["replay"]])
    for name in ("source_loss", "target_loss"):
        shown[name] = [f"{value:.6f}".replace(".", ",") for value in TABLE[name]]
    shown["tokens"] = [f"{value:,.0f}".replace(",", ".") for value in TABLE["tokens"]]
    names = {"replay": "Neue Daten", "tokens": "Token", "ptpp": "Vortraining", "n_params": "Parameter"}
    return shown.rename(columns={**names, "source_loss": "Verlust alt", "target_loss": "Verlust neu"})


def flops_and_perplexities():
    shown = TABLE.assign(tokens=6 * TABLE["n_params"] * TABLE["tokens"])
    shown[["source_loss", "target_loss"]] = np.exp(TABLE[["source_loss", "target_loss"]])
    names = {"run": "id", "n_params": "arch_size", "tokens": "compute", "ptpp": "PT/N", "replay": "keep"}
    return shown.rename(columns={**names, "source_loss": "general_ppl", "target_loss": "medical_ppl"})


def bits():
    shown = TABLE.assign(tokens=TABLE["tokens"] / 1e6)
    shown[["source_loss", "target_loss"]] = TABLE[["source_loss", "target_loss"]] / LN2
    names = {"n_params": "params", "ptpp": "tpp", "replay": "alpha", "tokens": "Mtok"}
    return shown.rename(columns={**names, "source_loss": "en_bits_per_token", "target_loss": "ja_bits_per_token"})


def differences():
    start = TABLE["ptpp"].map({ptpp: 2.9 + 0.1 * place for place, ptpp in enumerate(TABLE["ptpp"].unique())})
    return TABLE.assign(base_general_loss=start, delta_general=TABLE["source_loss"] - start).drop(columns="source_loss")


def two_counts():
    old = TABLE["replay"] * TABLE["tokens"]
    return TABLE.assign(old_tokens=old, new_tokens=TABLE["tokens"] - old).drop(columns=["replay", "tokens"])


def a_column_called_mix():
    return renamed(replay="mix", source_loss="en_loss", target_loss="fr_loss")


def names_alone():
    rows = TABLE.itertuples()
    runs = [f"cpt_{r.n_params / 1e6:g}M_tpp{r.ptpp:g}_replay{100 * r.replay:g}_{r.tokens / 1e9:g}B" for r in rows]
    return TABLE.assign(run=runs, old_loss=TABLE["source_loss"], new_loss=TABLE["target_loss"])[
        ["run", "old_loss", "new_loss"]
    ]


def without_sense():
    names = {"n_params": "zq", "ptpp": "fov", "replay": "wlm", "tokens": "tau"}
    return TABLE.rename(columns={**names, "source_loss": "L1", "target_loss": "L2"}).drop(columns="run")


def nested():
    rows = [
        {
            "run": row.run,
            "cfg": {
                "size": f"{row.n_params / 1e6:g}M",
                "mixture": {"general": row.replay, "law": 1 - row.replay},
                "total_tokens": row.tokens,
                "chinchilla_ratio": row.ptpp,
            },
            "val": {"general": row.source_loss, "law": row.target_loss},
        }
        for row in TABLE.itertuples()
    ]
    return "\n".join(map(json.dumps, rows))


def long_of_steps():
    long = TABLE.melt(["run", *INPUTS], ["source_loss", "target_loss"], "split", "ce")
    long = long.assign(split=long["split"].map({"source_loss": "pile", "target_loss": "patents"}), gbs=256)
    long = long.assign(seq_len=2000, it=np.round(long["tokens"] / 512e3)).drop(columns="tokens")
    return long.rename(columns={"replay": "rho", "run": "exp_id", "ptpp": "pretrain_tpp"})


def pivoted():
    ratio = (TABLE["tokens"] / TABLE["n_params"]).round(6)
    settings = ["n_params", "ptpp", "replay", "ratio"]
    long = TABLE.assign(ratio=ratio).melt(settings, ["source_loss", "target_loss"], "eval")
    long = long.assign(eval=long["eval"].str.removesuffix("_loss"))
    table = long.pivot(index=["n_params", "ptpp", "replay", "eval"], columns="ratio", values="value").reset_index()
    names = {"n_params": "size", "ptpp": "pretrain", "replay": "old data"}
    return table.rename(columns={**names, **{one: f"{one:g} tok/param" for one in ratio.unique()}})


TABLES = {
    "ratios.tsv": ratios,
    "units.csv": units,
    "german.csv": german,
    "ppl.csv": flops_and_perplexities,
    "bits.csv": bits,
    "differences.csv": differences,
    "two_counts.csv": two_counts,
    "mix.csv": a_column_called_mix,
    "names.csv": names_alone,
    "no_sense.csv": without_sense,
    "nested.jsonl": nested,
    "steps.csv": long_of_steps,
    "pivot.csv": pivoted,
}


def write(path, made):
    if isinstance(made, str):
        path.write_text(made)
    elif path.name == "german.csv":
        made.to_csv(path, index=False, sep=";", encoding="utf-16")
    else:
        made.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code, capsys.readouterr().out


def points(runs):
    frame = runs.frame[(runs.frame["tokens"] > 0).to_numpy()]
    frame = frame.assign(role=[runs.role(name) for name in frame["eval"]])
    return frame[["role", "loss", *INPUTS]].sort_values(["role", "loss"]).reset_index(drop=True)


@pytest.mark.parametrize("name", TABLES)
def test_the_first_proposals_together_are_the_second_command(tmp_path, capsys, name):
    path = tmp_path / name
    write(path, TABLES[name]())
    code, out = run(capsys, "read", path, "--json")
    asked = json.loads(out)["open"]
    assert code == 2
    assert all(one["choices"] for one in asked)
    flags = dict.fromkeys(one["choices"][0] for one in asked)
    code, _ = run(capsys, "read", path, *(word for flag in flags for word in shlex.split(as_flag(flag))), "--json")
    assert code == 0
    found, expected = points(cl.read_runs(path)), points(cl.read_runs(TABLE))
    rounded = 2e-2 if name == "steps.csv" else 2e-5  # a run ends with a whole step
    pd.testing.assert_frame_equal(found, expected, rtol=rounded, check_dtype=False)


class FitsBeginError(Exception):
    """Carries the runs of which an answer would be made."""


@pytest.mark.parametrize("name", [*TABLES, *(table.name for table in MESSY if table.asked)])
def test_the_second_answer_as_printed_is_made_of_the_true_rows(tmp_path, capsys, monkeypatch, name):
    """Of one table the whole answer is compared, in test_messy_truth.py; from the same rows it is the same plan."""

    def from_runs(runs, question, *rest, **more):
        raise FitsBeginError(runs, question)

    path = tmp_path / name
    messy = {table.name: table.write for table in MESSY}
    messy[name](path) if name in messy else write(path, TABLES[name]())
    words = ["answer", path, "--n-params", "500M", "--ptpp", "100", "--tokens", "2B", "--max-forgetting", "10%"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    said = [line.strip() for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert ended.value.code == 2
    _, several, flags = said[-1].partition("If the first of each is right: ")
    flags = flags if several else next(line for line in said if line.startswith("--"))
    monkeypatch.setattr("cptlaw.answering.ask.from_runs", from_runs)
    with pytest.raises(FitsBeginError) as answered:
        main([*map(str, words), *shlex.split(flags)])
    found, question = answered.value.args
    assert {found.role(eval) for eval in found.evals} == {"source", "target"}
    assert question.max_forgetting == 0.1
    rounded = 2e-2 if name == "steps.csv" else 2e-5
    pd.testing.assert_frame_equal(points(found), points(cl.read_runs(TABLE)), rtol=rounded, check_dtype=False)


def test_what_a_user_says_of_a_unit_is_not_said_twice():
    """The column is read in millions by its name; whoever writes the unit means the numbers of the file."""
    frame = renamed(n_params="config.model.size_m").assign(**{"config.model.size_m": TABLE["n_params"] / 1e6})
    for columns in (None, {"n_params": "config.model.size_m:M"}, {"n_params": "config.model.size_m"}):
        assert cl.read_runs(frame, columns=columns).frame["n_params"].max() == TABLE["n_params"].max()


def test_old_tokens_are_no_tokens_added_to_a_vocabulary():
    assert "vocab_added" not in [one.meaning for one in cl.read(two_counts()).columns]


def test_an_answer_asks_at_once_for_all_that_is_missing():
    with pytest.raises(cl.errors.DataError) as raised:
        cl.answer(without_sense(), n_params="500M", tokens="2B", ptpp=100, max_forgetting="10%")
    *_, last, call = str(raised.value).splitlines()
    runs = eval(call.removeprefix("In Python: "), {"cl": cl, "frame": without_sense()})
    refuse_unread(runs)
    pd.testing.assert_frame_equal(points(runs), points(cl.read_runs(TABLE)), check_dtype=False)
    for part in ("--losses l1=L1,l2=L2", "--source-eval l1", "n_params=zq", "ptpp=fov", "replay=wlm", "tokens=tau"):
        assert part in last


LISTED = ("rr", "alpha", "old_ratio", "data.en_frac", "p_old", "tok_per_param", "PT/N", "D_cpt", "budget")


@pytest.mark.parametrize("name", LISTED)
def test_a_name_that_nobody_listed_is_asked_about_or_understood(name):
    for column in INPUTS:
        reading = cl.read(renamed(**{column: name}))
        understood = reading.runs is not None and column in reading.runs.frame.columns
        assert name in [one.name for one in reading.open if one.explains] or understood, column


@pytest.mark.parametrize("seed", range(5))
def test_whatever_settings_are_called_and_counted_in_they_are_asked_about(seed):
    draw = np.random.default_rng(seed)
    forms = {
        "n_params": (1.0, 1e-6),
        "tokens": (1.0, 1e-9, 1e-6),
        "replay": (1.0, 100.0),
        "ptpp": (1.0,),
    }
    scaled = {column: TABLE[column] * draw.choice(factors) for column, factors in forms.items()}
    words = {column: "".join(draw.choice(list("bcdfghjkmquvwxz"), size=6)) for column in forms}
    frame = TABLE.assign(**scaled).rename(columns=words).drop(columns="run")
    reading = cl.read(frame[list(draw.permutation(frame.columns))])
    assert not reading.understood
    for column in ("n_params", "tokens", "replay"):
        assert any(words[column] == one.name and one.choices for one in reading.open), column


def test_names_of_runs_that_some_lack_are_compared_all_the_same():
    """A run that is named in another way has no value there."""
    frame = names_alone()
    frame.loc[:2, "run"] = ["first", "second", "third"]
    assert {"cpt in run", "replay in run"} <= {one.name for one in cl.read(frame).open}


FEW = pd.DataFrame(
    {
        "run": list("aabbcc"),
        "N": "1.2B",
        "D_cpt": [2, 8] * 3,
        "rr": [10, 10, 25, 25, 50, 50],
        "wiki": [2.412, 2.398, 2.377, 2.361, 2.350, 2.339],
        "law": [2.105, 1.962, 2.131, 1.990, 2.189, 2.050],
    }
)


def test_what_grows_along_runs_is_asked_about_where_rows_would_repeat_each_other():
    choices = [one.choices[0] for one in cl.read(FEW).open]
    assert choices == ["--losses source=wiki,target=law", "tokens=D_cpt:B", "replay=rr%"]


def test_a_setting_of_three_runs_is_not_left_out_either():
    """The answer was 'forgetting -0.6 %, very likely (94 %)', of no replay at all."""
    how = {"losses": {"source": "wiki", "target": "law"}, "columns": {"tokens": "D_cpt:B"}}
    with pytest.raises(UnreadColumnError) as refused:
        refuse_unread(cl.read_runs(FEW, **how))
    assert [one.name for one in refused.value.asked if one.explains] == ["rr"]
