"""Tables as people hold them, of one truth: what is proposed reads them, in one more command."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from messy_truth import LN2, truth, wide

import cptlaw as cl
from cptlaw.runs.question import with_reply

SIZES = {2e7: "20M", 6e7: "60M", 1.8e8: "180M"}
LOSSES = {"en": "en_loss", "fr": "fr_loss"}
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


def parts_of_a_ratio():
    parts = [
        f"{one.denominator - one.numerator}:{one.numerator}" for one in map(Fraction, truth()["replay"].astype(str))
    ]
    return truth().assign(mixture=parts).drop(columns="replay").to_csv(index=False)


def units_in_words():
    table = truth()
    tokens = [
        f"{value / 1e9:g} Mrd.".replace(".", ",", 1) if value % 1e9 else f"{value / 1e9:g} Mrd."
        for value in table["tokens"]
    ]
    loss = [f"{value:.6f}".replace(".", ",") for value in table["loss"]]
    sizes = [f"{value / 1e6:g} million params" for value in table["n_params"]]
    return table.assign(n_params=sizes, tokens=tokens, loss=loss).to_csv(index=False, sep=";")


def a_mix_in_names_of_runs():
    table = wide(source="en_loss", target="fr_loss")
    runs = [f"run-{100 - 100 * share:.0f}-{100 * share:.0f}-{row}" for row, share in enumerate(table["replay"])]
    return table.assign(run=runs).drop(columns="replay").to_csv(index=False)


def ordered():
    return wide(source="en", target="fr").sort_values(["n_params", "ptpp", "replay", "tokens"], ignore_index=True)


def comma(values, digits):
    return [f"{value:.{digits}f}".replace(".", ",") for value in values]


def merged_cells():
    """Of a spreadsheet, saved as CSV: a value stands in the first of its rows."""
    table = ordered()
    shown = {"Model": [f"{n / 1e6:g}M" for n in table["n_params"]], "PT tok/param": table["ptpp"].map("{:g}".format)}
    shown |= {"Replay %": 100 * table["replay"], "Tokens (B)": table["tokens"] / 1e9}
    table = pd.DataFrame({**shown, "Val loss EN": table["en"], "Val loss FR": table["fr"]}).astype(object)
    new = (table[["Model", "PT tok/param"]] != table[["Model", "PT tok/param"]].shift()).any(axis=1)
    return table.assign(**{name: table[name].where(new) for name in ("Model", "PT tok/param")}).to_csv(index=False)


def french():
    table = ordered()
    shown = {"Taille du modèle": [f"{n:,.0f}".replace(",", "\u202f") for n in table["n_params"]]}
    shown |= {"Jetons de préentraînement par paramètre": comma(table["ptpp"], 1)}
    shown |= {
        "Part de rejeu (%)": comma(100 * table["replay"], 1),
        "Jetons (milliards)": comma(table["tokens"] / 1e9, 2),
    }
    shown |= {"perte (anglais)": comma(table["en"], 6), "perte (français)": comma(table["fr"], 6)}
    return pd.DataFrame(shown).to_csv(index=False, sep=";")


def units_in_brackets():
    names = {"n_params": "Params", "ptpp": "PT tokens/param", "replay": "general share", "tokens": "CPT tokens [1e6]"}
    table = ordered().assign(tokens=lambda frame: frame["tokens"] / 1e6).drop(columns=["run", "lr_peak"])
    table = table.rename(columns={**names, "en": "loss general [nats/token]", "fr": "loss legal [nats/token]"})
    return table.to_csv(index=False)


def bits_in_brackets():
    table = ordered()
    bits = {f"loss {name} (bits/token)": table[name] / LN2 for name in ("en", "fr")}
    return table.drop(columns=["en", "fr"]).assign(**bits).to_csv(index=False)


def perplexities_and_mixed_shares():
    shares = {0.0: "0", 0.1: "0.1", 0.25: "25%", 0.5: "50 %"}
    table = ordered().assign(replay=lambda frame: frame["replay"].map(shares))
    table = table.assign(ppl_en=np.exp(table["en"]), ppl_fr=np.exp(table["fr"]))
    return table.drop(columns=["en", "fr"]).to_csv(index=False)


def amounts_behind_evals():
    table = ordered().assign(each=lambda frame: (frame["tokens"] / frame["n_params"]).round(6))
    settings = ["n_params", "ptpp", "replay"]
    long = table.melt([*settings, "each"], ["en", "fr"], "eval", "loss")
    long["column"] = long["eval"] + " @" + long["each"].map("{:g}".format) + " tok/param"
    table = long.pivot(index=settings, columns="column", values="loss").reset_index()
    return table.rename(columns={"ptpp": "pretrain tok/param", "replay": "old fraction"}).to_csv(index=False)


def percent_called_replay():
    return ordered().assign(replay=lambda frame: 100 * frame["replay"]).rename(columns=LOSSES).to_csv(index=False)


def millions_called_n_params():
    return ordered().assign(n_params=lambda frame: frame["n_params"] / 1e6).rename(columns=LOSSES).to_csv(index=False)


def about_and_stars():
    table = ordered().assign(tokens=lambda frame: [f"~{tokens / 1e9:g}B" for tokens in frame["tokens"]])
    table["en"] = [f"{loss:.6f}{'*' if row % 11 == 0 else ''}" for row, loss in enumerate(table["en"])]
    return table.rename(columns=LOSSES).to_csv(index=False)


def old_tokens_beside_all():
    table = ordered().assign(**{"old tokens": lambda frame: frame["replay"] * frame["tokens"]})
    return table.drop(columns=["run", "replay"]).rename(columns=LOSSES).to_csv(index=False)


def new_tokens_beside_replay():
    table = ordered().assign(**{"new tokens": lambda frame: (1 - frame["replay"]) * frame["tokens"]})
    return table.drop(columns=["run", "tokens"]).rename(columns=LOSSES).to_csv(index=False)


def parts_in_a_column_of_replay():
    parts = [f"{100 - 100 * share:.0f}/{100 * share:.0f}" for share in truth()["replay"]]
    return truth().assign(replay=parts).to_csv(index=False)


@pytest.mark.parametrize(
    "write",
    [
        merged_cells,
        french,
        units_in_brackets,
        bits_in_brackets,
        perplexities_and_mixed_shares,
        amounts_behind_evals,
        parts_in_a_column_of_replay,
        percent_called_replay,
        millions_called_n_params,
        about_and_stars,
        old_tokens_beside_all,
        new_tokens_beside_replay,
        parts_of_a_ratio,
        units_in_words,
        a_mix_in_names_of_runs,
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
    assert frame["run"].nunique() in (36, 72, 144)  # nobody asks which column names the runs
    found = frame.assign(eval=[reading.runs.role(name) for name in frame["eval"].astype(str)])
    found, true = (one[KEYS].sort_values(KEYS[:-1]).reset_index(drop=True) for one in (found, truth()))
    assert found["eval"].tolist() == true["eval"].tolist()
    np.testing.assert_allclose(found[KEYS[1:]].astype(float), true[KEYS[1:]], rtol=1e-6)


@pytest.mark.parametrize("tokens", ["0", "-", ""])
def test_base_models_without_a_mix_leave_both_parts_of_the_runs_to_be_read(tokens):
    """The column was offered as a method or a domain: one dash hid that all else are parts of a hundred."""
    table = wide().astype({"tokens": object, "lr_peak": object})
    mixes = [f"{100 * (1 - share):.0f}/{100 * share:.0f}" for share in table["replay"]]
    models = table.groupby(["n_params", "ptpp"])[["source_loss", "target_loss"]].min().add(0.01).reset_index()
    rows = models.assign(run="base model", tokens=tokens, lr_peak="-", **{"mix (new/old)": "-"})
    both = pd.concat([table.assign(**{"mix (new/old)": mixes}).drop(columns="replay"), rows], ignore_index=True)
    assert [one.choices[0] for one in cl.read(both).open] == ["replay=1-mix (new/old)"]
    read = cl.read_runs(both, columns={"replay": "1-mix (new/old)"}).frame
    trained = read[read["tokens"] > 0].drop_duplicates("run").set_index("run")["replay"]
    np.testing.assert_allclose(trained[wide()["run"]].astype(float), wide()["replay"], rtol=1e-9)
    assert (read["tokens"] == 0).sum() == 2 * len(models)


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


def test_losses_before_and_after_are_those_of_base_models_and_runs():
    table = wide(source="en loss after", target="ja loss after")
    models = table.groupby(["n_params", "ptpp"])
    table["en loss before"] = models["en loss after"].transform("min") - 0.05
    table["ja loss before"] = models["ja loss after"].transform("max") + 0.4
    runs = cl.read_runs(table, source_eval="en", target_eval="ja")
    base = runs.frame[runs.frame["tokens"] == 0]
    assert runs.evals == ("en", "ja")
    assert len(base) == 2 * models.ngroups
    assert set(np.round(base["loss"], 6)) == set(
        np.round(table[["en loss before", "ja loss before"]].to_numpy().ravel(), 6)
    )


def test_both_parts_of_a_mix_in_a_few_names_are_asked_about_where_losses_tell_too_little():
    table = wide()
    table = table[(table["n_params"] == 6e7) & (table["ptpp"] == table["ptpp"].min())]
    table = table[table["tokens"] == table["tokens"].min()]
    assert len(table) == 4
    names = [f"run-{100 - 100 * share:.0f}-{100 * share:.0f}" for share in table["replay"]]
    reading = cl.read(table.assign(run=names).drop(columns="replay"))
    assert [one.choices[0] for one in reading.open] == ["replay=1-mix ratio in run%"]
    assert not reading.understood


def curves():
    table = wide()
    points = [
        table.assign(tokens=part * table["tokens"] / 3, source_loss=table["source_loss"] + 0.1 / part)
        for part in (1, 2, 3)
    ]
    return pd.concat(points, ignore_index=True).rename(columns={"run": "job"})


def test_a_run_is_what_the_column_of_its_name_says_and_not_each_point_of_its_curve():
    assert cl.read_runs(curves()).frame["run"].nunique() == 72


def test_where_two_columns_could_name_the_run_it_is_asked_which():
    table = curves()
    table["trial"] = [f"{job}-{row}" for row, job in enumerate(table["job"])]
    (asked,) = cl.read(table).open
    assert asked.choices == ("run=job", "run=trial")
    assert cl.read_runs(table, columns={"run": "trial"}).frame["run"].nunique() == 216
    # A column that says the same is no other answer.
    assert cl.read_runs(table.assign(trial="t-" + table["job"])).frame["run"].nunique() == 72


def test_merged_cells_of_a_sheet_with_two_lines_of_names(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book, table = openpyxl.Workbook(), ordered()
    sheet = book.active
    sheet.append(["CPT sweep, final numbers"])
    sheet.append([])
    sheet.append(["Model", None, "Data", None, "Val. loss"])
    sheet.append(["size", "pretrain tok/param", "old data", "tokens", "English", "French"])
    for row in table[["n_params", "ptpp", "replay", "tokens", "en", "fr"]].to_numpy().tolist():
        sheet.append(row)
    runs = len(table) // table["n_params"].nunique()
    for first in range(5, 5 + len(table), runs):
        sheet.merge_cells(start_row=first, end_row=first + runs - 1, start_column=1, end_column=1)
    book.save(tmp_path / "sweep.xlsx")
    how = {
        "columns": {"ptpp": "pretrain tok/param", "replay": "old data"},
        "source_eval": "English",
        "target_eval": "French",
    }
    frame = cl.read_runs(tmp_path / "sweep.xlsx", **how).frame
    assert frame["n_params"].value_counts().to_dict() == dict.fromkeys(SIZES, 2 * runs)
    assert sorted(frame.loc[frame["eval"] == "French", "loss"]) == sorted(table["fr"])


def test_reruns_are_told_apart_by_the_column_of_their_seeds():
    table = wide()
    again = pd.concat([table.assign(rep=1), table.assign(rep=2, source_loss=table["source_loss"] + 0.001)])
    runs = cl.read_runs(again, source_eval=None)
    assert runs.frame["run"].nunique() == 2 * len(table)
    assert not cl.read(again).open


def test_a_row_without_any_loss_is_told():
    table = wide()
    table.loc[17, ["source_loss", "target_loss"]] = np.nan
    runs = cl.read_runs(table)
    assert len(runs) == 2 * (len(table) - 1)
    assert any("row 17" in note for note in runs.notes)


def test_a_change_in_percent_is_added_to_the_loss_of_the_base_model():
    table = wide(source="en", target="fr_loss")
    table = table.assign(**{"Δ en (%)": 100 * (table["en"] / 3.0 - 1)})
    (asked,) = cl.read(table.drop(columns="en")).open[:1]
    assert "source=BASE*(1+`Δ en (%)`%)" in asked.question
    runs = cl.read_runs(table.drop(columns="en"), losses={"target": "fr_loss", "source": "3*(1+`Δ en (%)`%)"})
    np.testing.assert_allclose(np.sort(runs.on("source").frame["loss"]), np.sort(table["en"]))


def test_a_change_beside_no_loss_of_the_base_model_is_no_loss():
    """It was read as an eval of .04 nats per token."""
    table = wide(target="Loss (new)")
    table["Δ old loss"] = table.pop("source_loss") - 2.9 + 0.01 * np.arange(len(table)) % 0.1
    table["Δ old loss"] = table["Δ old loss"].clip(-0.1, 0.1)
    found = cl.read(table)
    assert not found.understood
    assert "'Δ old loss'" in found.open[0].question
    assert not found.open[0].choices
    read = cl.read(table.assign(base=2.9), losses={"source": "base+`Δ old loss`", "target": "Loss (new)"})
    assert read.understood
