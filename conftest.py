"""Without the extra `training`, its modules and tests are left out; `make test-training` installs it and runs them."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["cptlaw/training", "tests/training"]
