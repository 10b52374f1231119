"""Known open base models by name."""

import json

import pytest
from facts import lacks, refused

import cptlaw as cl
from cptlaw.answering.base_models import base
from cptlaw.answering.pilots import write_pilots
from cptlaw.errors import DataError, UsageError
from cptlaw.importing.model_size import parameters_of_config


def test_a_name_fills_in_what_a_question_needs():
    asked = {"target_tokens": "100B", "shift": "language"}
    named = cl.answer(base="llama-3.1-8b", **asked)
    told = cl.answer(n_params=8.03e9, ptpp=15e12 / 8.03e9, lr_pretrain=3e-4, **asked)
    assert named.options == told.options
    assert named.lr_peak_hi == pytest.approx(3e-4)
    assert all(cell["base"] == "llama-3.1-8b" for cell in named.next_runs)
    assert dict(named.lines)["run next"].startswith("llama-3.1-8b (")


@pytest.mark.parametrize(
    ("base", "asked", "facts"),
    [
        ("qwen2.5-0.5b", {"n_params": "8B"}, ["n_params (--n-params)", "8B", "494M", "--base"]),
        ("qwen2.5-0.5b", {"n_params": 8e9, "ptpp": 36437}, ["n_params (--n-params)", "8B", "494M", "--base"]),
        ("llama-3.1-8b", {"ptpp": 100}, ["ptpp (--ptpp)", "100", "1,868", "--base"]),
    ],
)
def test_a_size_or_a_budget_that_is_not_the_base_models_is_refused(base, asked, facts):
    with refused(UsageError, *facts):
        cl.answer(base=base, tokens="1B", **asked)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("llama-3.1-8b", {"n_params": "8B", "ptpp": 1875}),
        ("qwen2.5-7b", {"n_params": "7B"}),
        ("llama-2-7b", {"n_params": "7B", "ptpp": None}),
        ("qwen2.5-0.5b", {"n_params": "0.36B"}),  # without embeddings
        ("gemma-2-2b", {"n_params": "2B"}),
    ],
)
def test_rounded_sizes_are_the_base_models_own(name, asked):
    assert base(name, asked).loaded_as


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


def test_a_name_that_is_too_long_for_a_file_is_no_model():
    with refused(UsageError, "(--base)", "1111"):
        cl.answer(base="1" * 3000, shift="language", tokens="10B")


def test_bases_are_listed_with_their_sources(call):
    code, out, _ = call("bases", "--json")
    assert code == 0
    listed = json.loads(out)["bases"]
    assert [each["name"] for each in listed] == list(cl.bases()["name"])
    assert all(each["source"] for each in listed)
    assert all(each["lr_pretrain"] is None or 1e-5 < each["lr_pretrain"] < 2e-3 for each in listed)
    assert {each["public_text"] for each in listed} == {"yes", "no"}
    assert "llama-3.1-8b" in call("bases")[1]


def known_by(name, needs_tokens=True, **more):
    return base(name, more, needs_tokens=needs_tokens).known


class TestNames:
    @pytest.mark.parametrize(
        ("name", "n_params", "pt_tokens"),
        [
            ("meta-llama/Llama-3.1-8B", 8.03e9, 15e12),
            ("meta-llama/Meta-Llama-3.1-8B", 8.03e9, 15e12),
            ("unsloth/Llama-3.2-1B", 1.24e9, 9e12),
            ("Qwen/Qwen3-8B-Base", 8.19e9, 36e12),
            ("allenai/Olmo-3-7B", 7.3e9, 6.08e12),
            ("allenai/Olmo-3-1025-7B", 7.3e9, 6.08e12),
            ("google/gemma-3-12b-pt", 12.2e9, 12e12),
            ("EleutherAI/pythia-1.4b-deduped", 1.41e9, 300e9),
            ("LLAMA-2-7B", 6.74e9, 2e12),
            ("Qwen/Qwen2.5-7B", 7.62e9, 18e12),  # 7,615,616,512
            ("meta-llama/Llama-3.1-405B", 406e9, 15.6e12),  # 405,853,388,800
        ],
    )
    def test_ids_on_hugging_face(self, name, n_params, pt_tokens):
        found = base(name)
        assert found.known["n_params"] == n_params
        assert found.known["ptpp"] == pytest.approx(pt_tokens / n_params)
        assert found.findings == ()

    @pytest.mark.parametrize(
        ("name", "model"),
        [
            ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-Base"),
            ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
            ("google/gemma-3-12b-it", "google/gemma-3-12b-pt"),
            ("allenai/Olmo-3-7B-Think", "allenai/Olmo-3-1025-7B"),
            ("mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-v0.1"),
            ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3-Base"),
        ],
    )
    def test_a_post_trained_model_is_named_as_such(self, name, model):
        (finding,) = base(name, needs_tokens=False).findings
        assert (finding.severity, finding.code, finding.data["base"]) == ("warning", "not-a-base-model", model)

    def test_the_answer_says_so(self):
        codes = {one.code for one in cl.answer(base="Qwen/Qwen3-8B", tokens="1B", shift="language").findings}
        assert "not-a-base-model" in codes

    @pytest.mark.parametrize("name", ["Qwen/Qwen2.5-Coder-7B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "x", "", "/"])
    def test_another_model_of_a_family_is_not_taken_for_it(self, name):
        with pytest.raises(UsageError, match=r"--base.*config\.json.*--ptpp"):
            base(name)

    def test_near_names_are_proposed(self):
        with refused(UsageError, "'qwen3-8b'"):
            base("Qwen/Qwen-3-8B")

    def test_tokens_that_are_not_published_are_asked_for(self):
        with refused(UsageError, "Mistral-7B-v0.1", "7.24B", "--ptpp"):
            base("mistralai/Mistral-7B-v0.1")
        assert known_by("mistralai/Mistral-7B-v0.1", ptpp=500) == {"n_params": 7.24e9}
        assert cl.answer(base="mistralai/Mistral-7B-v0.1", ptpp=500, tokens="1B", shift="language").options


LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


class TestConfigs:
    def test_parameters_are_counted_and_tokens_asked_for(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(LLAMA))
        with refused(UsageError, "8.03B", "--ptpp"):
            base(str(path))
        for place in (path, tmp_path):
            assert known_by(str(place), ptpp=1875) == {"n_params": 8_030_261_248}

    def test_a_name_in_it_says_the_rest(self, tmp_path):
        (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"_name_or_path": "meta-llama/Llama-3.1-8B"}))
        assert known_by(str(tmp_path))["ptpp"] == pytest.approx(15e12 / 8.03e9)
        (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"_name_or_path": "meta-llama/Llama-2-70b-hf"}))
        assert "ptpp" not in known_by(str(tmp_path), needs_tokens=False)

    def test_what_is_no_config_is_refused(self, tmp_path):
        (tmp_path / "config.json").write_text('{"architectures": []}')
        with refused(UsageError, "(--base)", "config.json", "num_hidden_layers"):
            base(str(tmp_path))
        with pytest.raises(DataError, match="no such file"):
            base(str(tmp_path / "absent.json"))

    # What transformers 5.24 makes of these, counted on its meta device.
    @pytest.mark.parametrize(
        ("config", "count"),
        [
            ({"model_type": "qwen3", "head_dim": 32}, 212_096),
            ({"model_type": "qwen2"}, 175_424),
            ({"model_type": "gemma2", "head_dim": 32}, 180_288),
            ({"model_type": "gemma3_text", "head_dim": 32}, 180_480),
            ({"model_type": "olmo2"}, 175_328),
            ({"model_type": "gpt_neox"}, 164_544),
            ({"model_type": "mixtral", "num_local_experts": 4}, 396_992),
            ({"model_type": "qwen3_moe", "num_experts": 8, "moe_intermediate_size": 32, "head_dim": 16}, 250_400),
            ({"text_config": {"model_type": "gemma3_text", "head_dim": 32}, "model_type": "gemma3"}, 180_480),
        ],
    )
    def test_parameters_of_families(self, config, count):
        shape = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
        shape |= {"intermediate_size": 128, "vocab_size": 500}
        if "text_config" in config:
            config = config | {"text_config": shape | config["text_config"]}
        assert parameters_of_config(shape | config) == count


def test_a_mixture_of_experts_costs_what_its_active_parameters_do(tmp_path):
    asked = {"target_tokens": "20B", "shift": "language"}
    told = cl.answer(n_params="30.5B", n_active="3.3B", ptpp=36e12 / 30.5e9, **asked)
    asked["max_forgetting"] = "5%"
    named = cl.answer(base="qwen3-30b-a3b", **asked)
    dense = cl.answer(n_params=30.5e9, ptpp=36e12 / 30.5e9, **asked)
    assert (named.tokens, named.forgetting) == (dense.tokens, dense.forgetting)
    for plan in (named, *named.options, *named.next_runs):
        tokens, flops, hours = (plan[key] if isinstance(plan, dict) else getattr(plan, key) for key in KEYS)
        assert flops == pytest.approx(6 * 3.3e9 * tokens)
        assert hours == pytest.approx(flops / (989e12 * 0.4 * 3600))
    assert named.batch_tokens < dense.batch_tokens  # of a smaller model
    assert named.steps > dense.steps
    assert "mixture-of-experts" in {one.code for one in named.findings}
    assert lacks(named.question, "30.5B", "3.3B") == []
    # As the command that writes the pilots asks it, and for compute that is given.
    assert [row["flops"] for row in told.options] == pytest.approx([row["flops"] for row in named.options])
    assert "--n-active 3.3B" in named.commands[0]
    recipe, *manifests = write_pilots(named, tmp_path)
    assert lacks(recipe.read_text().splitlines()[0], "30.5B", "3.3B") == []
    assert {json.loads(path.read_text())["n_active"] for path in manifests} == {3.3e9}
    spent = cl.answer(base="qwen3-30b-a3b", budget=6e20, shift="language")
    assert spent.options[0]["tokens"] == pytest.approx(1e20 / 3.3e9)
    with refused(UsageError, "--n-active", "40B", "30.5B"):
        cl.answer(n_params="30.5B", n_active="40B", ptpp=1000, tokens="1B", shift="language")


KEYS = ("tokens", "flops", "gpu_hours")


@pytest.mark.dear("an answer with next runs")
def test_next_runs_of_a_mixture_of_experts_cost_what_its_active_parameters_do():
    asked = {"ptpp": 558, "tokens": "4M", "max_forgetting": "25%"}
    found = cl.answer(cl.examples.load("en-fr-pilot"), n_params=124_672, n_active=12_467, **asked)
    own = [one for one in found.next_runs if one["tokens"] and one["n_active"]]
    assert own
    for one in own:
        assert one["flops"] == pytest.approx(6 * 12_467 * one["tokens"])
    assert any("suggest" in command and "--n-active 12467" in command for command in found.commands)


def test_active_parameters_are_published_or_counted(call):
    listed = {one["name"]: one for one in json.loads(call("bases", "--json")[1])["bases"]}
    assert listed["qwen3-30b-a3b"]["n_active"] == 3.3e9
    assert listed["mixtral-8x7b"]["n_active"] == 12.9e9
    assert listed["llama-3.1-8b"]["n_active"] == listed["llama-3.1-8b"]["n_params"]
    assert "n_active" not in base("llama-3.1-8b").known
    with_experts = {name for name, one in listed.items() if one["n_active"] < one["n_params"]}
    assert len(with_experts) == 11
    qwen = {"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32}
    qwen |= {"num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "intermediate_size": 6144}
    qwen |= {"moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}
    mixtral = {**LLAMA, "vocab_size": 32000, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    for config, name in ((qwen, "qwen3-30b-a3b"), (mixtral, "mixtral-8x7b")):
        counted = parameters_of_config(config), parameters_of_config(config, active=True)
        published = listed[name]["n_params"], listed[name]["n_active"]
        assert counted == pytest.approx(published, rel=0.02)
    assert parameters_of_config(LLAMA, active=True) == parameters_of_config(LLAMA)


def test_a_config_with_experts_says_what_is_active(tmp_path):
    experts = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | experts))
    assert known_by(str(tmp_path), ptpp=100)["n_active"] == pytest.approx(12.9e9, rel=0.01)


def test_forty_models_are_known_with_size_tokens_and_source():
    listed = cl.bases()
    published = listed.dropna(subset=["pt_tokens"])
    assert len(published) >= 80
    assert listed["name"].is_unique
    ids = [one for several in listed["hugging_face"].str.split() for one in several]
    assert len(set(ids)) == len(ids)
    assert listed["source"].str.len().min() > 10
    assert published["ptpp"].between(1, 1e5).all()
    # The number before a B or an M in a name is the size, but for embeddings, which some names leave out.
    said = listed["name"].str.extract(r"(?:^|-)(\d+(?:\.\d+)?)(b|m)(?:\d|$)")
    sizes = said[0].astype(float) * said[1].map({"b": 1e9, "m": 1e6})
    assert ((listed["n_params"] / sizes).dropna().between(0.85, 1.5)).all()
