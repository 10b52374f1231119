"""What a plan may be asked stands spelled out in its signature, from the one declaration of its scenario."""

import inspect

import pytest

import cptlaw as cl
from cptlaw.planning.scenario import SCENARIOS, AnswerQuestion, options_of


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_option_is_a_named_argument_with_its_type(name):
    function = getattr(cl.plan, name.replace("-", "_"))
    found = inspect.signature(function).parameters
    assert not [one for one in found.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    for option, entry in options_of(SCENARIOS[name]).items():
        parameter = found[option]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.annotation is not inspect.Parameter.empty
        needed = option in SCENARIOS[name].__required_keys__
        assert parameter.default == (inspect.Parameter.empty if needed else entry.default)


def test_every_part_of_a_question_is_a_named_argument_of_answer():
    found = inspect.signature(cl.answer).parameters
    assert {one.kind for name, one in found.items() if name != "runs"} == {inspect.Parameter.KEYWORD_ONLY}
    assert set(options_of(AnswerQuestion)) <= set(found)
