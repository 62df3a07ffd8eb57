"""worldsize: a training script, from one process to a cluster.

    from worldsize import PyTorchDistribution, command, submit

    job = command(code="./src", command="python train.py", instance_count=2,
                  distribution=PyTorchDistribution(process_count_per_instance=4), compute="local")
    run = submit(job)
    run.wait()

Every name is loaded when it is first used: importing worldsize costs next to nothing. `worldsize.entities` and
`worldsize.constants` have the names that Azure's modules so called have for command jobs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.errors import RunFailed as RunFailed
    from worldsize.errors import WorldsizeError as WorldsizeError
    from worldsize.jobspec.distributions.pytorch import PyTorchDistribution as PyTorchDistribution
    from worldsize.jobspec.job import AssetTypes as AssetTypes
    from worldsize.jobspec.job import Data as Data
    from worldsize.jobspec.job import Input as Input
    from worldsize.jobspec.job import Output as Output
    from worldsize.service.runs.array import RunArray as RunArray
    from worldsize.service.runs.run import Run as Run
    from worldsize.state.records import RunState as RunState
    from worldsize.version import VERSION as __version__
    from worldsize.wings.data_parallel.inrank.shard import shard as shard
    from worldsize.wings.frameworks.ray import RayDistribution as RayDistribution
    from worldsize.wings.frameworks.tensorflow import TensorFlowDistribution as TensorFlowDistribution
    from worldsize.wings.metrics.inrank.log import log as log
    from worldsize.wings.mpi.distribution import MpiDistribution as MpiDistribution
    from worldsize.wings.python_surface.client import load_job as load_job
    from worldsize.wings.python_surface.client import open_array as open_array
    from worldsize.wings.python_surface.client import open_run as open_run
    from worldsize.wings.python_surface.client import submit as submit
    from worldsize.wings.python_surface.command_job import CommandJob as CommandJob
    from worldsize.wings.python_surface.command_job import command as command
    from worldsize.wings.python_surface.entities import AmlTokenConfiguration as AmlTokenConfiguration
    from worldsize.wings.python_surface.entities import ManagedIdentityConfiguration as ManagedIdentityConfiguration
    from worldsize.wings.python_surface.entities import UserIdentityConfiguration as UserIdentityConfiguration
    from worldsize.wings.python_surface.inrank.rank_info import RankInfo as RankInfo
    from worldsize.wings.python_surface.inrank.rank_info import once_per_node as once_per_node
    from worldsize.wings.python_surface.inrank.rank_info import rank_info as rank_info
    from worldsize.wings.python_surface.ml_client import MLClient as MLClient

_HOMES = {
    "command": "wings.python_surface.command_job",
    "CommandJob": "wings.python_surface.command_job",
    "Input": "jobspec.job",
    "Output": "jobspec.job",
    "Data": "jobspec.job",
    "AssetTypes": "jobspec.job",
    "PyTorchDistribution": "jobspec.distributions.pytorch",
    "MpiDistribution": "wings.mpi.distribution",
    "TensorFlowDistribution": "wings.frameworks.tensorflow",
    "RayDistribution": "wings.frameworks.ray",
    "AmlTokenConfiguration": "wings.python_surface.entities",
    "ManagedIdentityConfiguration": "wings.python_surface.entities",
    "UserIdentityConfiguration": "wings.python_surface.entities",
    "MLClient": "wings.python_surface.ml_client",
    "submit": "wings.python_surface.client",
    "load_job": "wings.python_surface.client",
    "open_run": "wings.python_surface.client",
    "open_array": "wings.python_surface.client",
    "Run": "service.runs.run",
    "RunArray": "service.runs.array",
    "RunState": "state.records",
    "rank_info": "wings.python_surface.inrank.rank_info",
    "RankInfo": "wings.python_surface.inrank.rank_info",
    "once_per_node": "wings.python_surface.inrank.rank_info",
    "log": "wings.metrics.inrank.log",
    "shard": "wings.data_parallel.inrank.shard",
    "WorldsizeError": "errors",
    "RunFailed": "errors",
}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from worldsize.version import VERSION

        return VERSION
    from worldsize.registry import load_name

    globals()[name] = value = load_name(_HOMES, name, __name__)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
