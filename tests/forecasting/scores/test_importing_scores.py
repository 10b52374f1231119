"""Scores of evaluation packages become rows of a runs table: files as the packages write them."""

import json

import pytest
from facts import refused

from cptlaw.cli import main
from cptlaw.errors import DataError
from cptlaw.importing import import_logs

HARNESS = {
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,strict-match": 0.125,
            "exact_match_stderr,strict-match": 0.0091,
            "exact_match,flexible-extract": 0.15,
            "exact_match_stderr,flexible-extract": 0.0098,
        },
        "hellaswag": {
            "alias": "hellaswag",
            "acc,none": 0.4,
            "acc_stderr,none": 0.0049,
            "acc_norm,none": 0.5,
            "acc_norm_stderr,none": 0.005,
        },
        "wikitext": {"alias": "wikitext", "bits_per_byte,none": 0.81, "bits_per_byte_stderr,none": "N/A"},
    },
    "group_subtasks": {"gsm8k": [], "hellaswag": []},
    "configs": {"gsm8k": {"task": "gsm8k", "num_fewshot": 5}},
    "versions": {"gsm8k": 3.0},
    "n-shot": {"gsm8k": 5},
    "n-samples": {"gsm8k": {"original": 1319, "effective": 1319}, "hellaswag": {"original": 10042, "effective": 1000}},
    "config": {"model": "hf", "model_args": "pretrained=out/124M-r25/checkpoint-500,dtype=float32", "limit": None},
    "git_hash": "abc",
    "date": 1732000000.0,
    "lm_eval_version": "0.4.5",
    "model_name": "out/124M-r25/checkpoint-500",
    "model_name_sanitized": "out__124M-r25__checkpoint-500",
}
LIGHT = {
    "config_general": {"lighteval_sha": "?", "num_fewshot_seeds": 1, "model_name": "org/124M-r25", "model_sha": ""},
    "results": {
        "lighteval|gpqa:main|0": {"extractive_match": 0.265625, "extractive_match_stderr": 0.020890058},
        "leaderboard|gsm8k|5": {"qem": 0.1, "qem_stderr": 0.0083},
        "all": {"extractive_match": 0.265625, "extractive_match_stderr": 0.020890058},
    },
    "versions": {"lighteval|gpqa:main|0": 0},
    "config_tasks": {"leaderboard|gsm8k": {"name": "gsm8k", "original_num_docs": 1319, "effective_num_docs": 1319}},
    "summary_tasks": {},
    "summary_general": {},
}
OLMES = {
    "task_name": "arc_challenge",
    "task_hash": "0",
    "model_config": {"model": "olmo-190m", "model_type": "hf"},
    "task_config": {"primary_metric": "acc_uncond"},
    "num_instances": 1172,
    "metrics": {"acc_raw": 0.25, "acc_per_char": 0.3, "bits_per_byte_corr": 1.2, "primary_score": 0.3},
}
COLUMNS = ("run_id", "step", "c4_en-validation/CrossEntropyLoss", "downstream_bpb/piqa_val_rc_5shot_bpb")
LADDER = f"""{",".join(COLUMNS)},downstream/piqa_val_rc_5shot_len_norm
190M-1xC,7272,3.6,1.27,0.62
370M-1xC,14000,3.4,1.2,0.66
"""


def by_eval(runs):
    return {row["eval"]: row for row in runs.frame.to_dict("records")}


def test_results_of_the_harness(tmp_path):
    folder = tmp_path / "out__124M-r25__checkpoint-500"
    folder.mkdir()
    (folder / "results_2024-11-19T10-00-00.000000.json").write_text(json.dumps(HARNESS))
    runs = import_logs(tmp_path, pattern="{n_params}-r{replay%}", batch_tokens="64K")
    rows = by_eval(runs)
    assert set(rows) == {"gsm8k", "hellaswag", "hellaswag:accuracy_norm", "wikitext"}
    assert runs.scores == {"gsm8k": "exact_match", "hellaswag": "accuracy", "hellaswag:accuracy_norm": "accuracy_norm"}
    assert rows["gsm8k"]["loss"] == 0.125  # of two filters the first
    assert (rows["gsm8k"]["n_items"], rows["hellaswag"]["n_items"]) == (1319, 1000)
    assert rows["wikitext"]["metric"] == "bpb"
    assert rows["gsm8k"]["run"] == "124M-r25"
    assert (rows["gsm8k"]["n_params"], rows["gsm8k"]["replay"]) == (124e6, 0.25)
    assert (rows["gsm8k"]["step"], rows["gsm8k"]["tokens"]) == (500, 32e6)


def test_samples_of_the_harness_count_the_items(tmp_path):
    value = {key: item for key, item in HARNESS.items() if key != "n-samples"}
    value["samples"] = {"gsm8k": [{"doc_id": i} for i in range(40)]}
    (tmp_path / "results.json").write_text(json.dumps(value))
    rows = by_eval(import_logs(tmp_path / "results.json"))
    assert rows["gsm8k"]["n_items"] == 40
    assert rows["hellaswag"]["n_items"] == pytest.approx(0.24 / 0.0049**2, rel=0.01)  # what the standard error tells


def test_results_of_lighteval(tmp_path):
    (tmp_path / "results_2025-02-05T10-01-31.876443.json").write_text(json.dumps(LIGHT))
    runs = import_logs(tmp_path)
    rows = by_eval(runs)
    assert set(rows) == {"gpqa:main", "gsm8k"}
    assert runs.scores == dict.fromkeys(rows, "exact_match")
    assert rows["gpqa:main"]["n_items"] == 448  # gpqa main has so many
    assert rows["gsm8k"]["n_items"] == 1319
    assert rows["gsm8k"]["run"] == "124M-r25"


def test_metrics_of_olmes(tmp_path):
    (tmp_path / "task-000-arc_challenge-metrics.json").write_text(json.dumps(OLMES))
    runs = import_logs(tmp_path)
    rows = by_eval(runs)
    assert set(rows) == {"arc_challenge", "arc_challenge:accuracy", "arc_challenge:bpb"}
    assert rows["arc_challenge:bpb"]["loss"] == 1.2
    assert rows["arc_challenge"]["n_items"] == 1172


@pytest.mark.parametrize("told", [{"task_config": {"primary_metric": "acc_uncond"}}, {"task_config": {}}])
def test_the_primary_metric_of_olmes_keeps_the_name_of_its_task(tmp_path, told):
    """Its suites take another normalisation for each task, and publish that; a checkpoint stands in the path alone."""
    metrics = {"acc_raw": 0.31, "acc_per_token": 0.33, "acc_per_char": 0.35, "acc_uncond": 0.37, "primary_score": 0.37}
    place = {"model": "olmo-190M_step4000-hf", "model_path": "weka://bucket/checkpoints/olmo-190M/step4000-hf"}
    told = OLMES | {"metrics": metrics, "model_config": place} | told
    (tmp_path / "task-000-arc_challenge-metrics.json").write_text(json.dumps(told))
    runs = import_logs(tmp_path)
    rows = by_eval(runs)
    assert {name: row["loss"] for name, row in rows.items()} == {"arc_challenge": 0.37, "arc_challenge:accuracy": 0.31}
    assert runs.scores["arc_challenge"] == "accuracy_norm"
    assert (rows["arc_challenge"]["run"], rows["arc_challenge"]["step"]) == ("olmo-190M", 4000)


def test_tries_of_lighteval(tmp_path):
    """Keys of tasks without a suite, and pass@k as it is written since 2025, with the tries that were drawn."""
    results = {
        "math_500|0": {"pass@k:k=1&n=4": 0.62, "pass@k:k=1&n=4_stderr": 0.0217},
        "aime24|0": {"math_pass@1:16_samples": 0.1, "maj@16": 0.2},
        "all": {"pass@k:k=1&n=4": 0.62},
    }
    tasks = {"math_500|0": {"effective_num_docs": 500}, "aime24|0": {"effective_num_docs": -1}}
    (tmp_path / "results_a.json").write_text(json.dumps(LIGHT | {"results": results, "config_tasks": tasks}))
    runs = import_logs(tmp_path)
    assert runs.scores == {"aime24": "pass@1", "math_500": "pass@1"}
    assert by_eval(runs)["math_500"]["n_items"] == 500


def test_a_table_of_a_ladder(tmp_path):
    path = tmp_path / "ladder.csv"
    path.write_text(LADDER)
    runs = import_logs(path, pattern="{n_params}-{any}")
    assert runs.evals == ("c4_en", "piqa_val_rc_5shot_bpb", "piqa_val_rc_5shot_len_norm")
    assert runs.scores == {"piqa_val_rc_5shot_len_norm": "accuracy_norm"}
    assert set(runs.frame["n_params"]) == {190e6, 370e6}


def test_a_file_without_scores_is_said(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(HARNESS | {"results": {"gsm8k": {"alias": "gsm8k"}}}))
    with refused(DataError, "results.json", "lm-evaluation-harness"):
        import_logs(tmp_path)


def test_a_file_cut_short_is_no_model_left_out(tmp_path):
    whole = tmp_path / "results_a.json"
    whole.write_text(json.dumps(HARNESS), encoding="utf-8")
    cut = tmp_path / "results_b.json"
    cut.write_text(json.dumps(HARNESS)[:60], encoding="utf-8")
    for source in (tmp_path, cut):
        with refused(DataError, "results_b.json", "line 1"):
            import_logs(source, tmp_path / "runs.csv")
    assert not (tmp_path / "runs.csv").exists()


def test_the_next_command_needs_enough_scores(tmp_path, capsys):
    source = tmp_path / "results_a.json"
    source.write_text(json.dumps(HARNESS), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["import", str(source), "-o", str(tmp_path / "runs.csv")])
    assert not ended.value.code
    assert "next:" not in capsys.readouterr().err


@pytest.mark.parametrize("odd", [5, [1], "x", None])
def test_what_is_no_number_or_object_in_a_score_file_is_left_out(tmp_path, odd):
    harness = {"results": {"piqa": {"acc,none": 0.5, "f1,none": odd}, "mmlu": odd}, "samples": odd, "n-samples": odd}
    light = {"config_general": {"model_config": odd}, "results": {"a|piqa|0": {"acc": 0.5}}, "config_tasks": odd}
    for content in ({**harness, "config": odd}, light):
        (tmp_path / "results_1.json").write_text(json.dumps(content))
        runs = import_logs(tmp_path)
        assert runs.frame.loc[runs.frame["eval"] == "piqa", "loss"].tolist() == [0.5]
