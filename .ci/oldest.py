"""The oldest releases that pyproject.toml allows, as constraints for pip: what the project and the extras named on the
command line ask for by ``>=`` is printed with ``==``."""

import re
import sys
import tomllib
from pathlib import Path


def constraints(*extras: str) -> list[str]:
    """``name==version`` for each requirement with a lower bound; constraints know no extras in brackets."""
    project = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *(r for extra in extras for r in project["optional-dependencies"][extra])]
    return [re.sub(r"(\[.*?\])?>=", "==", requirement) for requirement in required if ">=" in requirement]


if __name__ == "__main__":
    print("\n".join(constraints(*sys.argv[1:])))
