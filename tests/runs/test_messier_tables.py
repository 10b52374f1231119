"""Tables as people hold them, of one truth: what is proposed reads them, in one more command."""

import numpy as np
import pandas as pd
import pytest
from messy_truth import truth, wide

import cptlaw as cl
from cptlaw.runs.question import with_reply

SIZES = {2e7: "20M", 6e7: "60M", 1.8e8: "180M"}
KEYS = ["eval", "n_params", "ptpp", "tokens", "replay", "loss"]


def below_a_line_of_groups():
    table = wide(source="en", target="ja")[["run", "n_params", "ptpp", "lr_peak", "tokens", "replay", "en", "ja"]]
    return "Model,,,Training,,,Validation loss,\nname,params,ptpp,lr,D,replay,en,ja\n" + table.to_csv(
        index=False, header=False
    )


def parts_with_a_slash():
    mixes = [f"{100 * (1 - share):.0f}/{100 * share:.0f}" for share in wide()["replay"]]
    table = wide(source="loss_old", target="loss_new").assign(**{"mix (new/old)": mixes})
    return table.drop(columns="replay").to_csv(index=False)


def japanese():
    names = {"run": "実験", "eval": "評価", "loss": "損失", "n_params": "パラメータ数", "tokens": "トークン数"}
    table = truth().rename(columns={**names, "replay": "リプレイ率", "lr_peak": "学習率"})
    return table.replace({"評価": {"source": "英語", "target": "日本語"}}).to_csv(index=False)


def german():
    def number(value, digits):
        return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))

    table = wide()
    shown = {"Lauf": table["run"], "Parameter": [number(value, 0) for value in table["n_params"]]}
    shown |= {"Token": [number(value, 0) for value in table["tokens"]], "ptpp": table["ptpp"]}
    shown |= {"Anteil Altdaten": [f"{100 * value:.0f} %" for value in table["replay"]]}
    shown |= {f"Verlust {name}": [number(value, 4) for value in table[f"{name}_loss"]] for name in ("source", "target")}
    return pd.DataFrame(shown).to_csv(index=False, sep=";")


def on_its_side():
    return wide().set_index("run").T.to_csv()


def forgetting_in_percent():
    table = wide(source="old", target="new_loss")
    base = table.groupby(["n_params", "ptpp"])["old"].transform("min") - 0.05
    table["forgetting"] = [f"{100 * value:+.5f}%" for value in table["old"] / base - 1.0]
    return table.assign(**{"base old loss": base}).drop(columns="old").to_csv(index=False)


def long_names():
    names = {"run": "Experiment name", "n_params": "Model size (non-embedding parameters)"}
    names |= {"tokens": "Number of continual pre-training tokens", "replay": "Fraction of old data in the mixture"}
    names |= {"ptpp": "Pre-training tokens per parameter of the base model", "source_loss": "Final loss (old domain)"}
    return wide().rename(columns={**names, "target_loss": "Final loss (new domain)"}).to_csv(index=False)


@pytest.mark.parametrize(
    "write",
    [
        below_a_line_of_groups,
        parts_with_a_slash,
        japanese,
        german,
        on_its_side,
        forgetting_in_percent,
        long_names,
    ],
)
def test_what_is_proposed_reads_the_truth(write, tmp_path):
    path, how = tmp_path / "table.csv", {}
    path.write_text(write(), encoding="utf-8")
    for question in cl.read(path).open:
        how = with_reply(how, question.flag)
    reading = cl.read(path, **how)
    assert reading.understood
    assert not reading.open
    frame = reading.runs.frame
    assert frame["run"].nunique() in (72, 144)  # nobody asks which column names the runs
    found = frame.assign(eval=[reading.runs.role(name) for name in frame["eval"].astype(str)])
    found, true = (one[KEYS].sort_values(KEYS[:-1]).reset_index(drop=True) for one in (found, truth()))
    assert found["eval"].tolist() == true["eval"].tolist()
    np.testing.assert_allclose(found[KEYS[1:]].astype(float), true[KEYS[1:]], rtol=1e-6)


@pytest.mark.parametrize("one_name", [True, False])
def test_base_models_below_the_runs_are_the_reference(one_name):
    table = wide()
    models = table.groupby(["n_params", "ptpp"])[["source_loss", "target_loss"]].min().reset_index()
    names = "base model" if one_name else [f"base-{n:.0f}-{p:.0f}" for n, p in models[["n_params", "ptpp"]].to_numpy()]
    rows = models.assign(run=names, tokens="-", replay="-", lr_peak="-")
    runs = cl.read_runs(pd.concat([table.astype(object), rows.astype(object)], ignore_index=True))
    base = runs.frame[runs.frame["tokens"] == 0]
    assert len(base) == 2 * len(models) == 2 * base["run"].nunique()


def test_a_loss_of_base_models_alone_is_no_eval_of_the_runs():
    """Forgetting from the base model's loss to itself was 0.8 %, with 94 % probability."""
    table = wide()
    base = table.groupby(["n_params", "ptpp"])["source_loss"].transform("min") - 0.05
    runs = cl.read_runs(table.assign(base_source_loss=base).drop(columns="source_loss"))
    assert runs.evals == ("target",)
    assert any("base_source_loss" in note for note in runs.notes)


def test_runs_named_in_a_column_of_names_tell_what_no_column_does(tmp_path):
    path, table = tmp_path / "names.csv", wide(source="loss (en)", target="loss (ja)")
    named = [
        f"llama-{SIZES[n]}_ptpp{p:.0f}_old{100 * r:.0f}_{t / 1e6:.0f}Mtok"
        for n, p, r, t in table[["n_params", "ptpp", "replay", "tokens"]].to_numpy()
    ]
    table.assign(name=named)[["name", "loss (en)", "loss (ja)"]].to_csv(path, index=False)
    how = {}
    for question in cl.read(path).open:
        how = with_reply(how, question.flag)
    runs = cl.read(path, **how).runs
    assert sorted(runs.frame["n_params"].unique()) == sorted(SIZES)
    assert sorted(runs.frame["replay"].unique()) == [0.0, 0.1, 0.25, 0.5]
