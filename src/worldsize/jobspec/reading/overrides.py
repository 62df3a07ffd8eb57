"""What the command line changes in a job: `-w NxM` and `--set key=value`."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.errors import JobError
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import Job
from worldsize.jobspec.max_ranks import MAX_RANKS


def with_world(job: Job, world: str, where: str = "-w") -> Job:
    """`job` on N nodes × M processes each, for `world` "NxM"; "N" alone sets the nodes and keeps the processes.

    A job without a distribution gets plain ranks. Raises JobError for anything else, for zero, for more than
    MAX_RANKS ranks, and for M where the distribution lays out roles (tensorflow, ray).
    """
    first, cross, second = world.strip().replace("X", "x").replace("×", "x").partition("x")
    if not _is_count(first) or (cross and not _is_count(second)):
        hint = "write nodes x processes per node, such as 2x4, or nodes alone"
        raise JobError(f"{world!r:.40} is not a world", where, hint)
    nodes, processes = int(first), int(second) if cross else None
    if nodes < 1 or processes == 0:
        raise JobError(f"{world.strip()} has no ranks", where, "nodes and processes per node start at 1")
    changed = job if processes is None else _with_processes(job, processes, where)
    count = changed.distribution.world_size(nodes) if changed.distribution else nodes
    if count > MAX_RANKS:
        raise JobError(f"{count} ranks are more than the limit of {MAX_RANKS}", where)
    return changed._replace(resources=job.resources._replace(instance_count=nodes))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _with_processes(job: Job, processes: int, where: str) -> Job:
    distribution = job.distribution
    if distribution is None:
        from worldsize.jobspec.distributions.plain import PlainDistribution

        return job._replace(distribution=PlainDistribution(processes))
    if processes_per_instance(distribution) is None:
        what = f"a {distribution.type} job lays out roles, so processes per node cannot be set"
        raise JobError(what, where, "set the nodes alone, such as -w 2")
    return job._replace(distribution=distribution._replace(process_count_per_instance=processes))


def apply_overrides(job: Job, settings: Iterable[str], warnings: list[str] | None = None) -> Job:
    """`job` with each `key=value` of `settings` applied, in their order, and read again as a whole.

    A key is a YAML path, such as inputs.lr or environment_variables.X; a value is read as a YAML scalar, or as a list
    or mapping in brackets; where text is expected, it is taken as written. Relative paths start at the current
    directory. What a reader would warn of is appended to `warnings`.

    Raises JobError that names the setting, for unknown keys with the nearest one. Values stay out of its message's
    place, since they may be secret.
    """
    from worldsize.jobspec.dump import job_tree
    from worldsize.jobspec.paths import current_directory
    from worldsize.jobspec.reading.job import read_job
    from worldsize.jobspec.reading.problems import Problems
    from worldsize.jobspec.reading.set_option import with_setting
    from worldsize.jobspec.reading.tree import to_node

    node = to_node(job_tree(job), job.source)
    for setting in settings:
        node = with_setting(node, setting)
    report = Problems(current_directory("--set"))
    changed = read_job(node, report, job.source)
    report.check()
    if warnings is not None:
        warnings.extend(report.warnings)
    same_script = changed.batch_script == job.batch_script
    return changed._replace(batch_source=job.batch_source) if same_script else changed


def override_origins(settings: Iterable[str]) -> dict[str, str]:
    """The YAML paths that `settings` set, each with its place for messages."""
    names = [setting.partition("=")[0].strip() for setting in settings]
    return {name: f"--set {name}" for name in names}
