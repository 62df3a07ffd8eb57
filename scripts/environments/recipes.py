"""The environments that the tests and the examples use, and how each is made."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from scripts.environments.pythons import CLIENT

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LIST = re.compile(r"^(\w+) = \[(.*?)\]$", re.MULTILINE | re.DOTALL)
_EXTRAS = re.compile(r"worldsize\[(.*)\]")


class Recipe(NamedTuple):
    """One virtual environment.

    requirements   files that pip installs together, below requirements/
    without_dependencies   files that pip installs after them, without what they depend on
    extras         what worldsize itself depends on is installed too, with these extras; None: nothing of it
    script         a shell script that makes it instead, called with the directory and the cache; it reads PYTHON
    files          what the script reads, below the checkout
    pythons        the versions that it can be made with
    size           for the message, before it is made
    """

    requirements: tuple[str, ...]
    size: str
    without_dependencies: tuple[str, ...] = ()
    extras: tuple[str, ...] | None = None
    script: str | None = None
    files: tuple[str, ...] = ()
    pythons: tuple[str, ...] = CLIENT

    def inputs(self) -> list[str]:
        """The files that decide what is made."""
        files = [os.path.join("requirements", name) for name in (*self.requirements, *self.without_dependencies)]
        return [*files, *self.files, os.path.join("scripts", "environments", self.script)] if self.script else files


TENSORFLOW_PYTHONS = ("3.10", "3.11", "3.12", "3.13")

RECIPES = {
    "horovod": Recipe(("horovod.txt", "torch.txt"), "2.4 GB", script="make-horovod.sh", pythons=("3.10", "3.11")),
    "deepspeed": Recipe(("deepspeed.txt", "torch.txt"), "1.2 GB", script="make-deepspeed.sh"),
    "main": Recipe(
        ("torch.txt", "test.txt", "light.txt", "docs.txt", "accelerate.txt", "tensorboard.txt", "notebook.txt"),
        "1.7 GB",
        extras=("all",),
    ),
    "conventions": Recipe(("torch.txt", "accelerate.txt", "tensorboard.txt", "conventions.txt"), "1.5 GB"),
    "tensorflow": Recipe(
        ("tensorflow.txt",), "1.8 GB", without_dependencies=("tensorflow-keras.txt",), pythons=TENSORFLOW_PYTHONS
    ),
    "jax": Recipe(("jax.txt",), "600 MB"),
    "preloaded": Recipe(("preloaded.txt",), "420 MB", without_dependencies=("preloaded-packages.txt",)),
    "ray": Recipe(("ray.txt",), "350 MB"),
    "mpi": Recipe(("mpi.txt",), "120 MB"),
    "azure": Recipe(("azure.txt",), "110 MB"),
    "release": Recipe(("release.txt",), "60 MB"),
    "mlflow": Recipe(("mlflow.txt",), "110 MB"),
    "mlflow-2": Recipe(("mlflow-2.txt",), "90 MB", pythons=("3.10", "3.11")),
}
"""By name, those that take longest first."""

UNIT_TESTS = {
    "py" + version: Recipe(("light.txt",), "60 MB", extras=("hpcpack", "keyring"), pythons=(version,))
    for version in CLIENT
}
"""What the unit tests need, on each Python; made only when they are named."""

ON_REQUEST = {
    "horovod-nccl": Recipe(
        (),
        "5.3 GB, from 3 GB of downloads",
        script="make-horovod-nccl.sh",
        files=(os.path.join("examples", "environments", "horovod-nccl.yml"),),
        pythons=("3.11",),
    ),
}
"""What no test needs, and only a target of its own makes."""


def client_requirements(recipe: Recipe) -> list[str]:
    """What worldsize depends on, with the recipe's extras, as pyproject.toml says."""
    if recipe.extras is None:
        return []
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        lists = {name: re.findall('"([^"]+)"', text) for name, text in _LIST.findall(file.read())}
    found, left = list(lists["dependencies"]), list(recipe.extras)
    while left:
        for each in lists[left.pop(0)]:
            nested = _EXTRAS.fullmatch(each)
            left += nested[1].split(",") if nested else []
            found += [] if nested else [each]
    return found
