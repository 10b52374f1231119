"""A sound table to spoil, and the message that a bad one gets."""

import pytest

from cptlaw.errors import DataError
from cptlaw.runs import read_runs

HEADER = "run,eval,loss,n_params,tokens,replay,ptpp\n"
GOOD = "good,target,2.5,1M,20M,0.25,15\n"


def message_of(source, **kwargs):
    with pytest.raises(DataError) as caught:
        read_runs(source, **kwargs)
    return str(caught.value)


def write(tmp_path, content, name="runs.csv"):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file
