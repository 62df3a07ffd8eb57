"""The names of `azure.ai.ml.entities` that a command job needs, each loaded when it is first used.

Azure's names for computes, workspaces, models and datastores can be imported too, since samples do so. Creating one
raises UsageError, which names the alternative.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.jobspec.job import Data as Data
    from worldsize.wings.python_surface.absent import AmlCompute as AmlCompute
    from worldsize.wings.python_surface.absent import AzureBlobDatastore as AzureBlobDatastore
    from worldsize.wings.python_surface.absent import AzureDataLakeGen2Datastore as AzureDataLakeGen2Datastore
    from worldsize.wings.python_surface.absent import AzureFileDatastore as AzureFileDatastore
    from worldsize.wings.python_surface.absent import ComputeInstance as ComputeInstance
    from worldsize.wings.python_surface.absent import KubernetesCompute as KubernetesCompute
    from worldsize.wings.python_surface.absent import Model as Model
    from worldsize.wings.python_surface.absent import Workspace as Workspace
    from worldsize.wings.python_surface.command_job import Command as Command
    from worldsize.wings.python_surface.command_job import CommandJob as CommandJob
    from worldsize.wings.python_surface.entities import AmlTokenConfiguration as AmlTokenConfiguration
    from worldsize.wings.python_surface.entities import BuildContext as BuildContext
    from worldsize.wings.python_surface.entities import CommandJobLimits as CommandJobLimits
    from worldsize.wings.python_surface.entities import Environment as Environment
    from worldsize.wings.python_surface.entities import JobResourceConfiguration as JobResourceConfiguration
    from worldsize.wings.python_surface.entities import JobService as JobService
    from worldsize.wings.python_surface.entities import JupyterLabJobService as JupyterLabJobService
    from worldsize.wings.python_surface.entities import ManagedIdentityConfiguration as ManagedIdentityConfiguration
    from worldsize.wings.python_surface.entities import QueueSettings as QueueSettings
    from worldsize.wings.python_surface.entities import ResourceConfiguration as ResourceConfiguration
    from worldsize.wings.python_surface.entities import SshJobService as SshJobService
    from worldsize.wings.python_surface.entities import TensorBoardJobService as TensorBoardJobService
    from worldsize.wings.python_surface.entities import UserIdentityConfiguration as UserIdentityConfiguration
    from worldsize.wings.python_surface.entities import VsCodeJobService as VsCodeJobService

_SECTIONS = "wings.python_surface.entities"
_ABSENT = "wings.python_surface.absent"
_HOMES = {
    "Command": "wings.python_surface.command_job",
    "CommandJob": "wings.python_surface.command_job",
    "Data": "jobspec.job",
    "BuildContext": _SECTIONS,
    "Environment": _SECTIONS,
    "JobResourceConfiguration": _SECTIONS,
    "ResourceConfiguration": _SECTIONS,
    "CommandJobLimits": _SECTIONS,
    "QueueSettings": _SECTIONS,
    "JobService": _SECTIONS,
    "SshJobService": _SECTIONS,
    "TensorBoardJobService": _SECTIONS,
    "JupyterLabJobService": _SECTIONS,
    "VsCodeJobService": _SECTIONS,
    "ManagedIdentityConfiguration": _SECTIONS,
    "UserIdentityConfiguration": _SECTIONS,
    "AmlTokenConfiguration": _SECTIONS,
    "AmlCompute": _ABSENT,
    "ComputeInstance": _ABSENT,
    "KubernetesCompute": _ABSENT,
    "Workspace": _ABSENT,
    "Model": _ABSENT,
    "AzureBlobDatastore": _ABSENT,
    "AzureFileDatastore": _ABSENT,
    "AzureDataLakeGen2Datastore": _ABSENT,
}

__all__ = [*_HOMES]  # noqa: PLE0604

if not TYPE_CHECKING:  # for a type checker only the names above exist

    def __getattr__(name: str) -> object:
        from worldsize.registry import load_name

        globals()[name] = value = load_name(_HOMES, name, __name__)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
