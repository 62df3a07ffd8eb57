"""The environments that the tests and the examples use, and how each is made."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from scripts.environments.pythons import CLIENT

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_DEPENDENCIES = re.compile(r"^dependencies = \[\n(.*?)^\]", re.MULTILINE | re.DOTALL)


class Recipe(NamedTuple):
    """One virtual environment.

    requirements   files that pip installs together, below requirements/
    without_dependencies   files that pip installs after them, without what they depend on
    client         what worldsize itself depends on is installed too
    script         a shell script that makes it instead, called with the directory and the cache; it reads PYTHON
    pythons        the versions that it can be made with
    size           for the message, before it is made
    """

    requirements: tuple[str, ...]
    size: str
    without_dependencies: tuple[str, ...] = ()
    client: bool = False
    script: str | None = None
    pythons: tuple[str, ...] = CLIENT

    def inputs(self) -> list[str]:
        """The files that decide what is made."""
        files = [os.path.join("requirements", name) for name in (*self.requirements, *self.without_dependencies)]
        return [*files, os.path.join("scripts", "environments", self.script)] if self.script else files


TENSORFLOW_PYTHONS = ("3.10", "3.11", "3.12", "3.13")

RECIPES = {
    "horovod": Recipe(("horovod.txt", "torch.txt"), "2.4 GB", script="make-horovod.sh", pythons=("3.10", "3.11")),
    "deepspeed": Recipe(("deepspeed.txt", "torch.txt"), "1.2 GB", script="make-deepspeed.sh"),
    "main": Recipe(("torch.txt", "environments.txt", "test.txt", "light.txt", "accelerate.txt"), "1.6 GB", client=True),
    "tensorflow": Recipe(
        ("tensorflow.txt",), "1.8 GB", without_dependencies=("tensorflow-keras.txt",), pythons=TENSORFLOW_PYTHONS
    ),
    "jax": Recipe(("jax.txt",), "600 MB"),
    "mpi": Recipe(("mpi.txt",), "120 MB"),
    "azure": Recipe(("azure.txt",), "110 MB"),
}
"""By name, those that take longest first."""

UNIT_TESTS = {"py" + version: Recipe(("light.txt",), "60 MB", client=True, pythons=(version,)) for version in CLIENT}
"""What the unit tests need, on each Python; made only when they are named."""


def client_requirements() -> list[str]:
    """What worldsize depends on, as pyproject.toml says."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        found = _DEPENDENCIES.search(file.read())
    assert found is not None, "pyproject.toml has no dependencies"
    return re.findall(r'^ *"(.+)",$', found[1], re.MULTILINE)
