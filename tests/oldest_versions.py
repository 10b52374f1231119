"""Print the oldest version of each dependency that pyproject.toml allows, for pip: `make oldest` tests with these.

python tests/oldest_versions.py parquet report app > constraints.txt
"""

import re
import sys
import tomllib
from pathlib import Path


def oldest(extras: list[str]) -> list[str]:
    """Return ``name==version`` for the dependencies of the package and of some extras."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(item for extra in extras for item in project["optional-dependencies"][extra])]
    pairs = [re.match(r"([\w-]+)>=([\d.]+)", item) for item in wanted]
    # numpy 1.26 and 1.26.0 are one version; pip takes a missing part for 0.
    return sorted({f"{found[1]}=={found[2]}" for found in pairs if found})


if __name__ == "__main__":
    print("\n".join(oldest(sys.argv[1:])))
