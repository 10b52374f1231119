"""New tokens and small tasks: what is measured is what the studies say it is."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from studies.training.small_tasks import Item, brackets, copies, next_words, share_right
from studies.training.vocabulary import extended_tokenizer, new_pairs, per_byte, started

tokenizers, torch = pytest.importorskip("tokenizers"), pytest.importorskip("torch")

TEXT = "the cat sat on the mat, the cat ate the rat (and the bat) " * 30
OTHER = "le chat dort sur le tapis, les chats mangent les souris [et les rats] " * 30


@pytest.fixture
def old():
    """Return a byte-level tokenizer trained on the first text alone."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=270, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    return made


def test_pairs_are_merged_most_frequent_first_and_each_on_those_before():
    words = Counter({("a", "b", "c"): 5, ("a", "b"): 2, ("c", "d"): 3})
    assert new_pairs(words, 3, set()) == [("a", "b"), ("ab", "c"), ("c", "d")]
    assert new_pairs(words, 1, {"ab"}) == [("b", "c")]


def test_a_longer_vocabulary_cuts_the_new_text_shorter_and_loses_nothing(old):
    document = extended_tokenizer(old, [OTHER], 20)
    new = tokenizers.Tokenizer.from_str(json.dumps(document))
    assert new.get_vocab_size() == old.get_vocab_size() + 20
    assert sorted(document["model"]["vocab"].values()) == list(range(new.get_vocab_size()))
    assert len(new.encode(OTHER).ids) < 0.8 * len(old.encode(OTHER).ids)
    assert new.decode(new.encode(OTHER).ids) == OTHER
    assert {token: place for token, place in new.get_vocab().items() if place < old.get_vocab_size()} == old.get_vocab()


def test_rows_start_as_they_are_called():
    rows = torch.arange(12.0).reshape(4, 3)
    parts = [[1, 3], [2]]
    assert started(rows, parts, "first", 1.0).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert started(rows, parts, "parts", 1.0).tolist() == [[6, 7, 8], [6, 7, 8]]
    assert started(rows, parts, "mean", 1.0).tolist() == [[4.5, 5.5, 6.5]] * 2
    assert started(rows, parts, "random", 0.1).std() < 0.3


class Table(torch.nn.Module):
    """A model that knows the next byte from the last one: counts of pairs of a text."""

    def __init__(self, text):
        super().__init__()
        self.logs = torch.full((256, 256), -9.0)
        raw = text.encode()
        for (first, second), often in Counter(pairwise(raw)).items():
            self.logs[first, second] = float(np.log(often))

    def forward(self, input_ids, use_cache=False):
        """Return logits."""
        return type("Logits", (), {"logits": self.logs[input_ids]})


def test_losses_per_byte_are_those_of_the_text_whatever_the_tokenizer(old):
    even = type("Even", (torch.nn.Module,), {})()
    even.forward = lambda input_ids, use_cache: type("Logits", (), {"logits": torch.zeros(*input_ids.shape, 270)})
    loss, size = per_byte(even, old, [TEXT, OTHER], 0)
    count = sum(len(each.ids) for each in old.encode_batch([TEXT, OTHER])) + 2
    length = len((TEXT + OTHER).encode())
    assert size == pytest.approx(length / count)
    assert loss == pytest.approx((count - 1) * np.log(270) / length)


def test_items_have_one_right_answer_and_a_model_of_the_text_finds_it():
    words = next_words([TEXT.replace("cat", "horse").replace("rat", "mouse")], [OTHER], 2)
    assert words
    assert all(len({len(option) for option in item.options}) == 1 for item in words)
    closing = brackets([TEXT, OTHER])
    assert sorted({item.options[0] for item in closing}) == [b")", b"]"]
    assert all(item.context.count(b"(" if item.options[0] == b")" else b"[") for item in closing)
    assert share_right(Table(TEXT), [Item(b"the ", (b"cat", b"zzz")), Item(b"the ", (b"zzz", b"cat"))]) == 0.5
    assert all(item.options[0] != item.options[1] and item.options[0] in item.context for item in copies())
