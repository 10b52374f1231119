import gc

import pytest
import yaml
from small_sweep import RECIPE, write_language


@pytest.fixture(scope="module", autouse=True)
def what_other_tests_left_is_not_gone_over():
    """A trainer of Hugging Face collects garbage as it starts and ends: seconds each, after thousands of tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def recipe(tmp_path):
    """Write a recipe, changed as asked, with its text, and return its path."""

    def write(**changes):
        write_language(tmp_path / "old.jsonl", ["the", "old", "tongue", "is", "known", "to", "all"], 1)
        write_language(tmp_path / "new.jsonl", ["neue", "Sprache", "lernt", "man", "nur", "langsam"], 2)
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump({**RECIPE, **changes}))
        return path

    return write
