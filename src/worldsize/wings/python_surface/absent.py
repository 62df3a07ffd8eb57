"""Placeholders for names of `azure.ai.ml` that samples import and worldsize does not implement. Importing one is
allowed; using it raises an error that names the alternative."""

from __future__ import annotations

from typing import Any, NoReturn

from worldsize.errors import UsageError

_COMPUTES = 'a compute is a table [compute.NAME] of worldsize.toml; this machine is compute="local"'
_INPUTS = "name the file or folder itself: Input(path=…)"


class AbsentEntity:
    """The base class of the placeholders. Creating an instance raises UsageError, which names the alternative in
    `instead`."""

    instead = ""

    def __init__(self, *_: Any, **__: Any) -> None:
        refuse_absent(type(self).__name__, self.instead)


class AmlCompute(AbsentEntity):
    instead = _COMPUTES


class ComputeInstance(AbsentEntity):
    instead = _COMPUTES


class KubernetesCompute(AbsentEntity):
    instead = _COMPUTES


class Workspace(AbsentEntity):
    instead = "runs are in ~/.worldsize, or in WORLDSIZE_HOME"


class Model(AbsentEntity):
    instead = "a model is an output of a run: run.outputs.NAME.path"


class AzureBlobDatastore(AbsentEntity):
    instead = _INPUTS


class AzureFileDatastore(AbsentEntity):
    instead = _INPUTS


class AzureDataLakeGen2Datastore(AbsentEntity):
    instead = _INPUTS


def refuse_absent(name: str, instead: str) -> NoReturn:
    """Raise UsageError, which states that worldsize has no `name`, with `instead`, a description of the alternative, as
    the hint."""
    raise UsageError(f"worldsize has no {name}", None, instead)
