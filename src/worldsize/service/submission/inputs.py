"""The data inputs of a job, and the paths at which its ranks find them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import ComputeFacts
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.job import COPYING_MODES, MOUNTING_MODES, Input, Job
from worldsize.jobspec.paths import is_remote
from worldsize.plan.hosted_places import place_mark
from worldsize.plan.node_disk import DIRECTORY_MARK, InputCopy, NodeDiskPlan
from worldsize.service.environments.location import shared_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.store.content_store import FetchedData


def data_directory(config: Config, compute: str) -> str:
    """Return the directory for this user's downloaded input data that the nodes of a compute can read. Raise
    StorageError if another user could change it."""
    settings = config.computes[compute]
    return shared_directory(config, settings, settings.data_dir, "data")


def locate_inputs(
    job: Job, fetched: Mapping[str, FetchedData], settings: ComputeSettings, facts: ComputeFacts
) -> tuple[dict[str, str], NodeDiskPlan | None]:
    """Return the paths, by input name, of data inputs that the ranks do not read at the path in the job (downloaded
    data, copies on a node's disk), and the plan of what the nodes do for inputs (copy, mount read-only); None in place
    of the plan if they do nothing."""
    paths: dict[str, str] = {}
    copies: list[InputCopy] = []
    read_only: list[str] = []
    copied = may_copy_inputs(job, settings, facts)
    for name, value in data_inputs(job):
        path = fetched[name].path if name in fetched else value.path or ""
        if is_remote(path):
            continue
        if value.mode in COPYING_MODES and copied:
            target = os.path.join("inputs", name, os.path.basename(path))
            copies.append(InputCopy(name, to_node_path(path, facts.mapped), target))
            paths[name] = os.path.join(DIRECTORY_MARK, target)
            continue
        paths[name] = path
        if value.mode in MOUNTING_MODES and job.batch_script is None:
            read_only.append(to_node_path(path, facts.mapped))
    needed = NodeDiskPlan(settings.local_dir or "", tuple(copies), tuple(read_only)) if copies or read_only else None
    return paths, needed


def may_copy_inputs(job: Job, settings: ComputeSettings, facts: ComputeFacts) -> bool:
    """Return whether nodes may copy a job's inputs to their own disks. False if the nodes are this machine, unless a
    disk is configured for it, and always False for a batch script, whose own `srun` starts its ranks."""
    return job.batch_script is None and bool(settings.local_dir or not facts.shared_host)


def with_input_paths(job: Job, paths: Mapping[str, str]) -> Job:
    """Return `job` with the paths of the inputs named in `paths` replaced by those at which its ranks find the data."""
    if not paths:
        return job
    inputs = {
        name: value._replace(path=paths[name]) if isinstance(value, Input) and name in paths else value
        for name, value in job.inputs.items()
    }
    return job._replace(inputs=inputs)


def with_hosted_places(job: Job) -> Job:
    """Return `job` with placeholder marks instead of the paths of its input data and its outputs, for a service that
    decides these paths itself."""
    return job._replace(
        inputs={
            name: value._replace(path=place_mark("inputs", name)) if isinstance(value, Input) and value.path else value
            for name, value in job.inputs.items()
        },
        outputs={name: output._replace(path=place_mark("outputs", name)) for name, output in job.outputs.items()},
    )


def with_mapped_data(job: Job, config: Config) -> Job:
    """Return `job` with references to Azure's data replaced by the paths to which the configuration's `[azure.data]`
    maps them. Raise ConfigError if this installation is without the wing."""
    if not config.azure.get("data") or not (job.inputs or job.outputs):
        return job
    from worldsize.registry import load_module

    mapped: Job = load_module("wings.azure.mappings", "[azure.data]").with_mapped_data(job, config.azure["data"])
    return mapped


def data_inputs(job: Job) -> Iterator[tuple[str, Input]]:
    """Yield the names and values of the inputs that are data, which means that they have a path."""
    for name, value in job.inputs.items():
        if isinstance(value, Input) and value.path:
            yield name, value
