"""worldsize: training scripts, from one process to a cluster.

Submit a job
    `command()` creates a job, or `load_job()` reads it from a file. `submit()` starts the job and returns a Run at
    once. The run continues after this Python process exits.

        from worldsize import PyTorchDistribution, command, submit

        job = command(code="./src", command="python train.py --lr ${{inputs.lr}}", inputs={"lr": 0.1},
                      distribution=PyTorchDistribution(process_count_per_instance=4), instance_count=2, compute="local")
        run = submit(job)
        print(run.wait(check=True))             SUCCEEDED; RunFailed for any other end
        print(run.outputs.path)                 the directory of the files that the command wrote into ./outputs

    Several runs of one job are a RunArray, a sequence of runs:

        runs = submit(job, matrix={"lr": [0.1, 0.01]})

Look at a run
    `open_run()` opens the latest run that was started from this directory. `open_run(id)` opens any other run.

        run = open_run()
        run.status                              "RUNNING": the names are those of RunState
        run.logs(rank=0)                        the text that rank 0 has written
        run.cancel()

Inside a script
    `rank_info()` returns the number of this rank and the world size. `once_per_node()` lets one rank of each node do
    work that all ranks of the node need. `log()` records values. `shard()` returns a rank's part of a batch. Outside
    a run these functions behave as on the only rank of a run.

        from worldsize import log, once_per_node, rank_info

        with once_per_node() as first:
            if first:
                unpack_data()
        log({"train/loss": loss}, step=step)

Errors
    Every error is a WorldsizeError: one sentence that states what is wrong, where it is, and how to fix it. The
    subclass UsageError means that nothing has been created.

Each name is imported when it is first used, so importing worldsize takes almost no time. `worldsize.entities` and
`worldsize.constants` contain further names for command jobs, from Azure's modules of these names.
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

if not TYPE_CHECKING:  # hidden from type checkers, so that they report names that are not listed above

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from worldsize.version import VERSION

            return VERSION
        from worldsize.registry import load_name

        try:
            globals()[name] = value = load_name(_HOMES, name, __name__)
        except (ImportError, AttributeError):
            import sys

            if sys.platform != "win32" or name not in _HOMES:
                raise
            from worldsize.errors import windows_error

            raise windows_error() from None
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
