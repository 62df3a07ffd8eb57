"""worldsize: a training script, from one process to a cluster.

Submit a job
    A job is made by `command()`, or read from a file by `load_job()`. `submit()` starts it and returns a Run at once,
    which goes on when this Python ends.

        from worldsize import PyTorchDistribution, command, submit

        job = command(code="./src", command="python train.py --lr ${{inputs.lr}}", inputs={"lr": 0.1},
                      distribution=PyTorchDistribution(process_count_per_instance=4), instance_count=2, compute="local")
        run = submit(job)
        print(run.wait(check=True))             SUCCEEDED; RunFailed for any other end
        print(run.outputs.path)                 what the command has written into ./outputs

    Several runs of one job are a RunArray, a sequence of them:

        runs = submit(job, matrix={"lr": [0.1, 0.01]})

Look at a run
    `open_run()` opens the latest run that was started from this directory, `open_run(id)` any other.

        run = open_run()
        run.status                              "RUNNING": the names are those of RunState
        run.logs(rank=0)                        what rank 0 has written
        run.cancel()

Inside a script
    `rank_info()` tells a rank its number and the world's size, `once_per_node()` has one rank of each node do what all
    of its ranks need, `log()` keeps values, and `shard()` gives a rank its part of a batch. Outside a run they work as
    on one rank of one.

        from worldsize import log, once_per_node, rank_info

        with once_per_node() as first:
            if first:
                unpack_data()
        log({"train/loss": loss}, step=step)

Errors
    Each is a WorldsizeError: one sentence that says what is wrong, where, and how to mend it. UsageError, one of them,
    means that nothing has been created.

Each name is loaded when it is first used: importing worldsize costs next to nothing. `worldsize.entities` and
`worldsize.constants` have further names of Azure's modules so called, for command jobs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.errors import NotFound as NotFound
    from worldsize.errors import RunFailed as RunFailed
    from worldsize.errors import UsageError as UsageError
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
    "UsageError": "errors",
    "NotFound": "errors",
    "RunFailed": "errors",
}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604

if not TYPE_CHECKING:  # to a type checker a name that is not above does not exist

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from worldsize.version import VERSION

            return VERSION
        from worldsize.registry import load_name

        globals()[name] = value = load_name(_HOMES, name, __name__)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
