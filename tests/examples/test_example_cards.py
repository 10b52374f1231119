"""The example tables are a data set of Hugging Face: the front matter of their card names every table, and loads it."""

from pathlib import Path

import pytest
import yaml

from cptlaw import examples

FOLDER = Path(examples.__file__).parent


def front_matter():
    _, head, body = (FOLDER / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), body


def test_every_example_is_a_configuration_of_the_data_set():
    head, body = front_matter()
    files = {item["config_name"]: item["data_files"] for item in head["configs"]}
    assert files == examples.EXAMPLES
    assert [item["config_name"] for item in head["configs"] if item.get("default")] == ["en-fr-pilot"]
    assert head["license"] == "apache-2.0"
    for name, file in files.items():
        assert f"`{name}`" in body
        assert (FOLDER / file).exists()
        assert (FOLDER / file).with_suffix(".md").exists()


def test_the_size_that_the_card_claims():
    head, _ = front_matter()
    rows = sum((FOLDER / file).read_text(encoding="utf-8").count("\n") - 1 for file in examples.EXAMPLES.values())
    assert head["size_categories"] == ["10K<n<100K"]
    assert 10_000 < rows < 100_000


@pytest.mark.filterwarnings("ignore")  # those of datasets and of what it loads
def test_datasets_loads_a_table(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(FOLDER), "docs-to-manuals", split="train", cache_dir=str(tmp_path))
    runs = examples.load("docs-to-manuals")
    assert loaded.num_rows == len(runs.frame)
    assert set(loaded.unique("eval")) == {"source", "target"}
    assert loaded["loss"][0] == runs.frame["loss"].iloc[0]
