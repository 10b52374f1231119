"""Known open base models by name."""

import json

import pytest

import cptlaw as cl
from cptlaw.errors import UsageError


def test_a_name_fills_in_what_a_question_needs():
    asked = {"target_tokens": "100B", "shift": "language"}
    named = cl.answer(base="llama-3.1-8b", **asked)
    told = cl.answer(n_params=8.03e9, ptpp=15e12 / 8.03e9, lr_pretrain=3e-4, **asked)
    assert named.options == told.options
    assert named.lr_peak_hi == pytest.approx(3e-4)
    assert dict(named.lines)["run next"].count("llama-3.1-8b on ") == 3
    assert cl.answer(base="llama-3.1-8b", ptpp=100, **asked).options != named.options


@pytest.mark.parametrize(
    ("base", "more", "noted"),
    [("llama-3.1-8b", {}, True), ("llama-3.1-8b", {"replay_of": "own"}, False), ("olmo-2-7b", {}, False)],
)
def test_where_nobody_has_its_text_it_is_asked_of_what_the_replay_is(base, more, noted):
    codes = {one.code for one in cl.answer(base=base, tokens="1B", **more).findings}
    assert ("text-not-public" in codes) == noted


def test_an_unknown_name_is_told_of():
    with pytest.raises(UsageError, match=r"--base.*llama-3.1-8b"):
        cl.answer(base="llama-3.1-8", target_tokens="1B")


def test_bases_are_listed_with_their_sources(call):
    code, out, _ = call("bases", "--json")
    assert code == 0
    listed = json.loads(out)["bases"]
    assert [each["name"] for each in listed] == list(cl.bases()["name"])
    assert all(each["source"] for each in listed)
    assert all(each["lr_pretrain"] is None or 1e-5 < each["lr_pretrain"] < 2e-3 for each in listed)
    assert {each["public_text"] for each in listed} == {"yes", "no"}
    assert "llama-3.1-8b" in call("bases")[1]
