"""The columns of a runs table: their names, other names in use for them, and the values they may hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

# Positive counts of parameters or tokens below this were almost surely meant in millions or billions.
SMALLEST_RAW_COUNT = 1000.0

# Tokens per parameter, of pre-training or of adaptation: told by their values.
TPP = ("tpp", "tokens_per_param", "tokens_per_parameter")
# Tokens of the base model's pre-training, unless they are its corpus' part of a mix: told by their values.
BASE_TOKENS = ("base_tokens", "tokens_base", "base_model_tokens", "base_train_tokens", "base_training_tokens")

N_PARAMS_KINDS = ("non_embedding", "total")


@dataclass(frozen=True)
class Column:
    """One column that cptlaw knows.

    Parameters
    ----------
    name
        The canonical name.
    meaning
        What the column holds, with its unit.
    numeric
        Whether it holds float64 numbers; else it holds text.
    lowest, highest
        The closed range of its numbers.
    positive
        Whether zero is excluded from that range.
    raw_count
        Whether it counts single parameters or tokens, so that small positive numbers are a slip of units.
    whole
        Whether its numbers have no fractions.
    required
        Whether a row that lacks it is unusable for every law.
    aliases
        Other names, with spaces between, in lower case with underscores. One-letter aliases are matched as written, all
        others in any case.
    last_resort
        A name that, written just so, is taken for this column where no other column is.
    """

    name: str
    meaning: str
    numeric: bool = True
    lowest: float = 0.0
    highest: float = math.inf
    positive: bool = False
    raw_count: bool = False
    whole: bool = False
    required: bool = False
    aliases: str = ""
    last_resort: str | None = None

    @property
    def expected(self) -> str:
        """What a value of this column must be, in words."""
        if not self.numeric:
            return f"text ({self.meaning})"
        if self.highest < math.inf:
            span = f"a number from {self.lowest:g} to {self.highest:g}"
        elif self.positive:
            span = "a finite number above 0"
        else:
            span = f"a finite number, {self.lowest:g} or more" if self.lowest > -math.inf else "a finite number"
        return f"{span} ({self.meaning})"


COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column(
            "run",
            "the id of one training run",
            numeric=False,
            required=True,
            aliases="run_id run_name",
            last_resort="Name",  # the first column of a table that Weights & Biases exports
        ),
        Column(
            "eval",
            "the name of a validation set",
            numeric=False,
            required=True,
            aliases="eval_name eval_set validation_set val_set",
        ),
        Column(
            "loss",
            "cross-entropy in nats per token",
            positive=True,
            required=True,
            aliases="L val_loss valid_loss validation_loss eval_loss",
            last_resort="value",  # of a table that names a metric in each row
        ),
        Column(
            "n_params",
            "parameters of the model",
            positive=True,
            raw_count=True,
            aliases="N params parameters num_params n_parameters num_parameters model_size model_params total_params "
            "n_params_total non_embedding non_embedding_params params_non_embedding n_non_embedding_params "
            "n_params_noembed parameter_count param_count nparams params_count model_parameters num_model_params",
        ),
        Column(
            "tokens",
            "adaptation tokens, replay included",
            raw_count=True,
            aliases="D cpt_tokens adaptation_tokens n_tokens num_tokens tokens_seen train_tokens training_tokens "
            "trained_tokens tokens_trained num_input_tokens_seen consumed_tokens",
        ),
        Column(
            "replay",
            "share of the mix drawn from the source corpus",
            highest=1.0,
            aliases="r replay_ratio replay_share replay_fraction replay_frac replay_rate replay_proportion replay_prop "
            "replay_prob replay_probability replay_weight rehearsal rehearsal_ratio rehearsal_fraction",
        ),
        Column(
            "ptpp",
            "pre-training tokens per parameter",
            positive=True,
            aliases=f"P pretraining_tokens_per_param pretraining_tokens_per_parameter pretrain_tpp pt_tpp {TPP[0]}",
        ),
        Column(
            "pt_tokens",
            "tokens of the base model's pre-training",
            raw_count=True,
            aliases="pretraining_tokens pretrain_tokens pre_training_tokens n_pretraining_tokens",
        ),
        Column("step", "optimiser step", aliases="steps global_step iteration iterations iter iters n_steps num_steps"),
        Column("phase", "pretrain or cpt, where a run has steps of both", numeric=False, aliases="training_phase"),
        Column("lr", "learning rate at this step", aliases="learning_rate"),
        Column(
            "lr_peak",
            "highest learning rate of the run",
            aliases="peak_lr max_lr peak_learning_rate max_learning_rate lr_max cpt_peak_lr cpt_lr",
        ),
        Column("lr_pretrain", "highest learning rate of pre-training", aliases="pretrain_lr pt_lr_peak pretraining_lr"),
        Column("lr_end", "last learning rate of the run", aliases="end_lr final_lr min_lr lr_min lr_final"),
        Column("warmup", "steps of the warm-up, or their share below 1", aliases="warmup_steps warmup_ratio"),
        Column("lr_schedule", "shape of the schedule", numeric=False, aliases="schedule sched lr_scheduler"),
        Column("seed", "random seed", lowest=-math.inf, aliases="random_seed"),
        Column(
            "batch_tokens",
            "tokens of one optimiser step",
            positive=True,
            aliases="tokens_per_batch tokens_per_step",
        ),
        Column("flops", "training compute in FLOP", aliases="train_flops training_flops"),
        Column("samples", "training samples, as fine-tuning sets count", aliases="n_train_samples train_samples"),
        Column("merge_weight", "weight of the adapted model in a merge with its base", highest=1.0, aliases="merge_w"),
        Column("lora_rank", "rank of the adapters", positive=True, whole=True, aliases="lora_r adapter_rank"),
        Column("vocab_added", "tokens added to the vocabulary", whole=True, aliases="added_tokens"),
        Column("method", "how the model was adapted: full, lora, merge, ..", numeric=False, aliases="adaptation"),
        Column("unique_tokens", "unique tokens of the run, without repetition", positive=True, raw_count=True),
        Column("bits_weights", "bits of the weights in training", positive=True),
        Column("bits_activations", "bits of the activations in training", positive=True),
        Column("bits_kv", "bits of the attention cache in training", positive=True),
        Column("bits_post", "bits of the weights, quantised after training", positive=True),
        Column("from_loss", "another loss, from which this one is forecast", positive=True),
        Column("domain", "target corpus of the run", numeric=False, aliases="target_domain target_corpus cpt_dataset"),
        Column("tokenizer", "the tokenizer that the loss is counted in", numeric=False, aliases="tokeniser"),
        Column(
            "metric",
            "what the row's value is: loss, bpb, accuracy, exact_match, pass@k, ..",
            numeric=False,
            aliases="metric_name",
        ),
        Column(
            "n_items",
            "questions of the benchmark that a score counts",
            positive=True,
            whole=True,
            aliases="n_samples num_samples n_questions num_instances n_examples",
        ),
        Column(
            "chance",
            "score of guessing at random",
            highest=0.99,  # at 1 nothing is left to learn, and what laws divide by is zero
            aliases="random_baseline chance_level random_chance",
        ),
        Column("n_params_kind", "non_embedding or total", numeric=False, aliases="params_kind"),
        Column("n_params_non_embedding", "parameters without embeddings", positive=True, raw_count=True),
    )
}

# What the columns of a mix of k corpora begin with; the rest is the name of the corpus.
MIX = "mix_"
# Columns that say which mix it is, or not of what the share is.
NAMES_OF_MIXES = frozenset("id ids name set index label number type kind hash ratio".split())

_ALIASES: dict[str, str] = {alias: column.name for column in COLUMNS.values() for alias in column.aliases.split()}
LAST_RESORTS: dict[str, str] = {column.last_resort: column.name for column in COLUMNS.values() if column.last_resort}


def normal_name(name: str) -> str:
    """Return a column name in lower case with underscores, the form in which aliases are listed."""
    return re.sub(r"[\s.-]+", "_", name.strip()).lower()


@lru_cache(maxsize=1024)
def canonical_name(name: str) -> str | None:
    """Return the canonical column that a name stands for, or ``None``.

    One-letter names are the letters of the papers and count as written (``N``, ``D``, ``r``, ``P``, ``L``);
    every other name counts in any case, with spaces, dots or dashes for underscores.

    Examples
    --------
    >>> canonical_name("N"), canonical_name("Val-Loss"), canonical_name("n"), canonical_name("mix_Pile CC")
    ('n_params', 'loss', None, 'mix_Pile_CC')
    """
    word = name.strip()
    if corpus := corpus_of(word):
        return MIX + corpus
    if len(word) > 1:
        word = normal_name(word)
    return word if word in COLUMNS else _ALIASES.get(word)


def corpus_of(column: str) -> str | None:
    """Return the corpus whose share of the mix a column holds, or ``None``; its name keeps its case.

    Examples
    --------
    >>> corpus_of("mix_arxiv"), corpus_of("mix"), corpus_of("tokens")
    ('arxiv', None, None)
    """
    if re.search(r"\(.*[/:].*\)| in run$", column):
        return None  # both parts in one cell, as in "mix (new/old)", or a number in the name of a run
    name = re.sub(r"\W+", "_", column.strip())
    corpus = name[len(MIX) :] if name[: len(MIX)].lower() == MIX else ""
    return corpus if corpus and corpus.lower() not in NAMES_OF_MIXES else None


def column_of(canonical: str) -> Column:
    """Return what is known of a canonical column, those of a mix among them."""
    if canonical in COLUMNS:
        return COLUMNS[canonical]
    return Column(canonical, f"share of the corpus {corpus_of(canonical)} in the mix", highest=1.0)


def mix_columns(columns: Iterable[object]) -> tuple[str, ...]:
    """Return the columns of a mix of k corpora, in the order in which the table has them."""
    return tuple(str(name) for name in columns if str(name).startswith(MIX) and corpus_of(str(name)))
