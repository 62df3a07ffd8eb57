"""Names of `azure.ai.ml` that samples import and worldsize has nothing of: importing one is allowed, using it says what
there is instead."""

from __future__ import annotations

from typing import Any, NoReturn

from worldsize.errors import UsageError

_COMPUTES = 'a compute is a table [compute.NAME] of worldsize.toml; this machine is compute="local"'
_INPUTS = "name the file or folder itself: Input(path=…)"


class AbsentEntity:
    """Raises UsageError, which says what there is instead, when one is made."""

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
    """Raises UsageError."""
    raise UsageError(f"worldsize has no {name}", None, instead)
