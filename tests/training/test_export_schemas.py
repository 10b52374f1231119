"""What `cptlaw export` writes, held against the schema of the installed trainer; others are skipped.

Last read: axolotl 0.19.0, llamafactory 0.9.5, nemo-automodel 0.7.0, torchtitan 0.3.0.
TRL and transformers: test_export.py.
Megatron-LM's arguments stand in its repository, in no wheel.
"""

import pytest
from tracker_logs import written_by

from cptlaw_sweep.trainers import export

ANSWER = {"question": "How?", "feasible": True, "tokens": 20e9, "replay": 0.2, "lr_peak": 2e-5}

AXOLOTL = """
import yaml
from axolotl.utils.schemas.config import AxolotlInputConfig
config = yaml.safe_load(open("axolotl.yaml"))
unknown = set(config) - set(AxolotlInputConfig.model_fields)
assert not unknown, unknown
read = AxolotlInputConfig(**config)
assert (read.max_steps, read.learning_rate, read.warmup_steps, len(read.datasets)) == (19074, 2e-5, 191, 2)
assert len(read.test_datasets) == 2
"""

LLAMAFACTORY = """
import dataclasses, os, yaml
os.environ["DISABLE_VERSION_CHECK"] = "1"
from llamafactory import hparams
groups = [getattr(hparams, name + "Arguments") for name in ("Data", "Finetuning", "Generating", "Model", "Training")]
config = yaml.safe_load(open("llamafactory.yaml"))
unknown = set(config) - {field.name for group in groups for field in dataclasses.fields(group)}
assert not unknown, unknown
of_data = {field.name for field in dataclasses.fields(groups[0])} & set(config)
data = groups[0](**{name: config[name] for name in of_data})
assert (data.dataset, data.interleave_probs) == (["source", "target"], [0.2, 0.8])
"""

AUTOMODEL = """
import inspect, yaml
from nemo_automodel.components.optim.scheduler import OptimizerParamScheduler
from nemo_automodel.components.training.step_scheduler import StepScheduler
config = yaml.safe_load(open("automodel.yaml"))
for part, taken in (("step_scheduler", StepScheduler), ("lr_scheduler", OptimizerParamScheduler)):
    unknown = set(config[part]) - set(inspect.signature(taken.__init__).parameters)
    assert not unknown, unknown
assert config["step_scheduler"]["max_steps"] == config["lr_scheduler"]["lr_decay_steps"] == 19074
"""

TORCHTITAN = """
import train_torchtitan
config = train_torchtitan.run()
assert (config.training.steps, config.lr_scheduler.warmup_steps) == (19074, 191)
assert [source.weight for source in config.dataloader.sources] == [0.2, 0.8]
"""


@pytest.mark.parametrize(
    ("to", "package", "script"),
    [
        ("axolotl", "axolotl", AXOLOTL),
        ("llamafactory", "llamafactory", LLAMAFACTORY),
        ("automodel", "nemo_automodel", AUTOMODEL),
        ("torchtitan", "torchtitan", TORCHTITAN),
    ],
)
def test_the_trainer_takes_what_is_exported(to, package, script, tmp_path):
    export(ANSWER, to, tmp_path)
    written_by(package, script, tmp_path)
