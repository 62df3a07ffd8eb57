"""All that making an environment depends on, as a value that costs nothing to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.environment.existing import ExistingEnvironment
from worldsize.jobspec.environment import EnvironmentSpec

DESCRIPTION = "worldsize-environment.json"
"""The file in a built environment that tells what it is; written last."""


class Recipe(NamedTuple):
    """What an environment is made of, and for.

    spec         complete
    fingerprint  its own
    base         the interpreter, or version, of a virtual environment; None where conda brings it
    environ      the environment of whoever asked
    cache        a directory for what is worth keeping
    existing     the environment that is built upon
    channels, alias, virtual   for conda: addresses or names; where names are; what the nodes have (empty: as here)
    lock         a lock file's content: exactly these packages
    secrets      names of variables that hold some, whatever they are called
    """

    spec: EnvironmentSpec
    fingerprint: str
    base: str | None
    environ: Mapping[str, str]
    cache: str
    existing: ExistingEnvironment | None = None
    channels: tuple[str, ...] = ()
    alias: str | None = None
    virtual: tuple[str, ...] = ()
    lock: Mapping[str, Any] | None = None
    secrets: tuple[str, ...] = ()

    @property
    def is_conda(self) -> bool:
        return bool(self.lock["conda"] if self.lock else self.spec.conda)
