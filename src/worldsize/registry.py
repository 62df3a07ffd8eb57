"""Search by name below `worldsize`, for files, and for modules that the core knows by name alone, those of wings
(`worldsize.wings`), any of which may be missing.

The tables of names are where they are used: verbs in `cli/main.py`, computes in `jobspec/config/compute_types.py`,
launchers in `plan/launchers.py`, distributions in `jobspec/distribution.py`, what a framework needs on a node in
`agent/launchers/base.py`, commands that are launchers in `service/submission/make_plan.py`, packages that ranks load in
`service/submission/rank_packages.py`, commands on nodes in `compute/base.py`, modules that a job or another wing needs
in `service/providers.py`, keys of a job that a wing reads in `jobspec/keys/job.py`, and names that scripts import from
worldsize in `__init__.py`, `entities.py` and `constants.py`.

A file that is the only user of a module contains its name: `jobspec/batch_script.py` for batch scripts,
`compute/slurm/compute.py` for what few users of Slurm need, `plan/array.py` for searches on nodes. A module that uses
the parts of other packages is named where such a part is found.

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
_SEPARATE = "worldsize_"  # how the names of packages next to worldsize begin
_INSTALL = "pip install worldsize"
_SEPARATE_PACKAGES = {"worldsize_hpcpack_simulator": "in a checkout of worldsize: pip install ./simulator"}
"""The commands that install packages next to worldsize. Their names on the package index are not registered yet."""


def load_module(name: str, what: str) -> ModuleType:
    """Import and return the module `name` below `worldsize`, such as "wings.azure.mappings", or of a full name that
    begins with `worldsize_`. Raise ConfigError, which states that `what` is not part of this installation, if the
    module does not exist. Raise the errors that the module itself raises."""
    module = find_module(name)
    if module is None:
        raise missing_error(what, _SEPARATE_PACKAGES.get(name.partition(".")[0], _INSTALL))
    return module


def missing_error(what: str, hint: str = _INSTALL) -> ConfigError:
    """Return the ConfigError which states that the part `what` is not part of this installation of worldsize. `hint`
    is the command that installs it."""
    return ConfigError(f"{what} {MISSING}", None, hint)


def find_module(name: str) -> ModuleType | None:
    """Import and return the module `name`, as `load_module` does; None if this installation does not contain it. Raise
    the errors that the module itself raises."""
    full = name if name.startswith(_SEPARATE) else "worldsize." + name
    try:
        return __import__(full, fromlist=("__name__",))
    except ModuleNotFoundError as error:
        if error.name is None or not (full + ".").startswith(error.name + "."):
            raise
        return None


def load_name(homes: Mapping[str, str], name: str, package: str) -> Any:
    """Return the object that scripts import from `package` as `name`. `homes` maps each name to the module below
    `worldsize` that has it as an attribute. Raise AttributeError for an unknown name, and ConfigError if the module is
    not installed."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(load_module(homes[name], f"{package}.{name}"), name)


def source_file(*names: str) -> str:
    """Return the path of the file or folder `names` (path components) in the installed package `worldsize`. It cannot
    be used on a node, whose package is a single file."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), *names)
