"""What is found by its name below `worldsize`: files, and modules that the core knows by name alone, those of wings
(`worldsize.wings`), any of which may be missing.

The tables of names lie where they are used: verbs in `cli/main.py`, computes in `jobspec/config/compute_types.py`,
launchers in `plan/launchers.py`, distributions in `jobspec/distribution.py`, what a framework needs on a node in
`agent/launchers/base.py`, commands that are launchers in `service/submission/make_plan.py`, what ranks load in
`service/submission/rank_packages.py`, commands on nodes in `compute/base.py`, what a job or another wing needs
in `service/providers.py`, of its keys those that a wing reads in `jobspec/keys/job.py`, and what scripts import from
worldsize in `__init__.py`, `entities.py` and `constants.py`. Whoever alone asks for a module has its name: of batch
scripts `jobspec/batch_script.py`, of what few users of Slurm need `compute/slurm/compute.py`, of searches on nodes
`plan/array.py`; what uses the parts of other packages is named where such a part is found.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

MISSING = "is not part of this installation of worldsize"


def load_module(name: str, what: str) -> ModuleType:
    """Return the module of this name below `worldsize`, or of a whole name that begins with `worldsize_`, imported.
    ConfigError, which names `what`, where this installation is without it; whatever the module itself raises."""
    module = find_module(name)
    if module is None:
        raise missing_error(what)
    return module


def missing_error(what: str) -> ConfigError:
    """For what this installation is without."""
    return ConfigError(f"{what} {MISSING}", None, "pip install worldsize")


def find_module(name: str) -> ModuleType | None:
    """As `load_module`; None where this installation is without it."""
    full = name if name.startswith("worldsize_") else "worldsize." + name
    try:
        return __import__(full, fromlist=("__name__",))
    except ModuleNotFoundError as error:
        if error.name is None or not (full + ".").startswith(error.name + "."):
            raise
        return None


def load_name(homes: Mapping[str, str], name: str, package: str) -> Any:
    """What `package` calls `name`: an attribute of the module in `homes`, which is named below `worldsize`.
    AttributeError for a name that is not there; ConfigError where its wing is not."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(load_module(homes[name], f"{package}.{name}"), name)


def source_file(*names: str) -> str:
    """Return the path of a file or folder of the package `worldsize`: not on a node, whose package is a single file."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), *names)
