"""The execution of one `worldsize bench`: its settings, and the runs of its worlds, one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.agent.machine.cores import allowed_cores
from worldsize.cli.console import duration_text, warnings_text
from worldsize.cli.output import report
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job, is_array_job
from worldsize.jobspec.reading.set_option import apply_overrides, override_origins
from worldsize.service.providers import find_provider
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.service.submission.findings import format_notice
from worldsize.service.submission.plan_job import plan_job
from worldsize.state.exit_records import read_exits
from worldsize.state.node_facts import NodeFacts
from worldsize.state.records import RunState, Status
from worldsize.store.find import find_run_paths
from worldsize.trust.secrets import mask_text
from worldsize.wings.bench.directory import former_result
from worldsize.wings.bench.fact_tables import hardware_table, software_table
from worldsize.wings.bench.oversubscription import find_oversubscription
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.result_file import write_result
from worldsize.wings.bench.world_run import INTERRUPTED, RunEnd, WorldRun
from worldsize.wings.bench.worlds import World, default_worlds

_DIGEST = 12
TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.common.named_tuple import Any

    MakeJob = Callable[[World], Job]
    ReadRun = Callable[[Run, Status, World], Measurement]


class Session(NamedTuple):
    """The settings of one `worldsize bench`.

    directory  the directory where all measurements are written, as soon as they are known
    settings   KEY=VALUE pairs that change the job of each world, as those of `--set`
    timeout    the seconds for which one run is waited for, including its time in a queue
    dry_run    show what would be submitted, and submit nothing
    options    the option that has set a key of the job, if it was not `--set`
    """

    config: Config
    compute: str | None
    environ: Mapping[str, str]
    cwd: str
    directory: str
    worlds: tuple[World, ...]
    settings: tuple[str, ...] = ()
    timeout: float | None = None
    dry_run: bool = False
    argv: Sequence[str] = ()
    options: Mapping[str, str] = {}

    def shown_settings(self) -> dict[str, str]:
        """Return the values of the options `--set` and `--environment` by name, without secrets, for the settings of
        the benchmark's result. Measurements with different values are different measurements."""
        shown = (mask_text(each).partition("=") for each in self.settings)
        return {f"--set {name}": value for name, _, value in shown}

    def measure_worlds(
        self, empty: BenchResult, make_job: MakeJob, read: ReadRun, lines: Mapping[str, int] | None = None
    ) -> BenchResult:
        """Submit the job of each world once the previous run has ended, and call `read` to read the measurement from
        each run that has succeeded. Return `empty` with the measurements, the facts of the nodes and the failures. All
        worlds are planned before the first is submitted. `lines` are the lines of the keys in a job file.

        Measurements that an earlier session in the same directory has made with the same settings are kept, and not
        repeated. A run that it has left is waited for. Raise UsageError, WorldsizeError. Raise Interrupted, with the
        result so far.
        """
        requests = {world: self._request(make_job(world), world, lines or {}) for world in self.worlds}
        if self.dry_run:
            return self._show_plans(empty, requests)
        _check_plans(requests)
        result = _without_failures(former_result(self.directory, empty))
        try:
            for world, request in requests.items():
                result = self._measure(result, world, request, read)
        except KeyboardInterrupt:  # between two runs: the measurements so far are shown
            raise Interrupted(result, INTERRUPTED) from None
        return result

    def _request(self, job: Job, world: World, lines: Mapping[str, int]) -> SubmissionRequest:
        if self.settings:
            job = apply_overrides(job, self.settings)
        what = _not_one_training(job)
        if what is not None:
            raise UsageError(
                f"{what} cannot be measured world by world", job.source, "name a job with a single training"
            )
        options = dict.fromkeys(("resources.instance_count", "distribution.process_count_per_instance"), "-w")
        origins = KeyOrigins(job.source, lines, {**options, **override_origins(self.settings), **self.options})
        return SubmissionRequest(
            job, self.config, self.compute, self.environ, self.cwd, origins, self.argv, check={}
        )  # a check of the nodes would take longer than many measurements

    def _show_plans(self, empty: BenchResult, requests: Mapping[World, SubmissionRequest]) -> BenchResult:
        from worldsize.cli.output import show
        from worldsize.cli.run.dry_run import dry_run

        for world, request in requests.items():
            show(f"# {world}")
            dry_run(request)
        return empty

    def _measure(self, result: BenchResult, world: World, request: SubmissionRequest, read: ReadRun) -> BenchResult:
        """Measure one world: run its job unless the world is measured already, write the result file, and return
        `result` with the new measurement. Raise Interrupted if the user has left or cancelled, or if the first runs do
        not report the value to measure."""
        known = next((each for each in result.measurements if each.world == world), None)
        if known is not None and known.rate is not None:
            report(f"{world}: measured already ({known.run})" if known.run else f"{world}: measured already")
            return result
        run = WorldRun(world, request, self.timeout)

        def began(started: Run) -> None:
            """Write the id of the new run into the result file, so that a later session finds the run again even if
            this session ends."""
            write_result(_with(result, Measurement(world, started.id)), self.directory)

        end = run.follow(self._former_run(known), began)
        is_mute = False
        try:
            measurement = _measurement(end, read, is_local=self.config.computes[result.compute].type == LOCAL)
        except WorldsizeError as error:
            words = " ".join(str(error).split())
            measurement = Measurement(world, end.run.id if end.run is not None else "", failure=words)
            is_mute = isinstance(error, UsageError)
        result = _with(result, measurement)
        if end.run is not None and measurement.rate is not None:
            result = _with_facts(result, measurement, read_facts(end.run))
        write_result(result, self.directory)
        if measurement.failure or measurement.rate is not None:
            report(_line(measurement, result.unit) + (warnings_text(end.status) if end.status is not None else ""))
        if end.interrupted is not None:
            raise Interrupted(result, end.interrupted)
        if is_mute and world != self.worlds[-1] and not _has_rate(result):
            report("the worlds after it are not run: their output would lack the value as well")
            raise Interrupted(result, 1)
        return result

    def _former_run(self, known: Measurement | None) -> Run | None:
        """Return the run that an earlier session of this benchmark has submitted for the world of the measurement
        `known` without waiting for its end; None if there is none."""
        if known is None or not known.run or known.failure:
            return None
        try:
            paths = find_run_paths(self.config.home, known.run)
            if os.path.basename(paths.root) != known.run:
                return None  # the id is only a part of that name, as users may type it
            run = Run(paths, self.environ)
            world = len(run.plan.nodes), run.plan.world_size
        except WorldsizeError:
            return None  # it was removed in the meantime: the world is measured again
        return run if world == (known.world.nodes, known.world.ranks) else None


class Interrupted(Exception):
    """An early end of the benchmark: the user has left or cancelled it, or the runs do not report the value to measure.
    `result` is the result so far, and `code` the exit code of this process."""

    def __init__(self, result: BenchResult, code: int) -> None:
        super().__init__(code)
        self.result = result
        self.code = code


def usual_worlds(config: Config, compute: str) -> tuple[World, ...]:
    """Return the worlds of 1, 2, 4 … ranks up to the number of GPUs or cores of this machine, which a benchmark
    measures by default. Raise UsageError for any other compute, because the user must state how many nodes to use
    there."""
    settings = config.computes[compute]
    if settings.type != LOCAL:
        raise UsageError(f"no worlds named to measure on {compute}", "-w", "such as -w 1x1,1x2,2x2")
    from worldsize.compute.local.reports import gpu_count

    gpus = gpu_count() if settings.gpus_per_node is None else settings.gpus_per_node
    return default_worlds(gpus or allowed_cores())


def read_facts(run: Run) -> tuple[NodeFacts, ...]:
    """Return the hardware and software facts of the nodes of a run, as NodeFacts; empty if they are not known."""
    facts = find_provider("facts")
    found: tuple[NodeFacts, ...] = facts.read_facts(run.paths) if facts else ()
    return found


def _check_plans(requests: Mapping[World, SubmissionRequest]) -> None:
    """Plan the run of every world of a benchmark before the first is submitted, and report the notices. Raise
    UsageError for the first world whose job has another size. Raise the error of a job that cannot be planned."""
    told: set[str] = set()
    for world, request in requests.items():
        planned = plan_job(request, time.time())
        made = World(len(planned.plan.nodes), len(planned.plan.nodes[0].ranks))
        if (made.nodes, planned.plan.world_size) != (world.nodes, world.ranks):
            what = f"the job makes {made} of {world}"
            raise UsageError(what, request.job.source, "set its nodes and processes with -w")
        for text in map(format_notice, planned.notices):
            if text not in told:
                told.add(text)
                report("notice: " + text)


def _without_failures(former: BenchResult) -> BenchResult:
    """Return the earlier result of a benchmark without its failed measurements, which are measured again."""
    return former._replace(measurements=tuple(each for each in former.measurements if not each.failure))


def _with(result: BenchResult, measurement: Measurement) -> BenchResult:
    """Return `result` with `measurement` in place of the previous one of the same world, in the order of the worlds."""
    others = [each for each in result.measurements if each.world != measurement.world]
    ordered = sorted([*others, measurement], key=lambda each: (each.world.ranks, each.world.nodes))
    return result._replace(measurements=tuple(ordered))


def _measurement(end: RunEnd, read: ReadRun, is_local: bool) -> Measurement:
    """Return the measurement of a benchmark's run that has ended, read by `read`, with its failure if it failed. Raise
    WorldsizeError for a run that has succeeded without a value that could be measured, and UsageError if it lacks the
    value that the user has named."""
    empty = Measurement(end.world, end.run.id if end.run is not None else "", failure=end.failure)
    if end.run is None or end.status is None or end.failure:
        return empty
    if end.status.state != RunState.SUCCEEDED:
        return empty  # the run continues without this process
    _check_nodes(end.run)
    found = read(end.run, end.status, end.world)
    started, ended = end.status.started, end.status.ended
    held = ended - started if started is not None and ended is not None else None
    found = found._replace(world=end.world, run=end.run.id, code=_code_digest(end.run.paths.manifest), held=held)
    return _with_shares(found, read_facts(end.run), is_local)


def _code_digest(manifest: str) -> str:
    """Return the digest of all files of a run's code from the run's manifest file; "" if it is not known."""
    digest = read_object(manifest).get("digest")
    return digest[:_DIGEST] if isinstance(digest, str) else ""


def _not_one_training(job: Job) -> str | None:
    """Return a name for the kind of a job that is not one run that trains once (a batch script, a search, an array);
    None if it is one."""
    if job.batch_script is not None:
        return "a batch script"
    if job.autotune is not None:
        return "a search (autotune)"
    return "an array" if is_array_job(job) else None


def _check_nodes(run: Run) -> None:
    """Raise WorldsizeError if a run of a benchmark continued without some of its nodes, because that is another
    world."""
    lost = sorted({node for record in read_exits(run.paths, len(run.plan.nodes)) for node in record.without})
    if lost:
        raise WorldsizeError(f"it continued without node {', '.join(map(str, lost))}: this is another world")


def _with_shares(found: Measurement, nodes: Sequence[NodeFacts], is_local: bool) -> Measurement:
    """Return the measurement `found` with the number of GPUs of the run, and with a sentence if ranks shared GPUs or
    cores. On this machine the GPUs of the ranks count, on a cluster all GPUs of its nodes. Ranks that computed on CPUs
    had none."""
    threads = found.details.get("threads")
    used = [node._replace(gpus=0) for node in nodes] if found.details.get("device") == "CPU" else nodes
    said = find_oversubscription(used, found.world.ranks_per_node, threads if type(threads) is int else None)
    gpus = min(_gpus(used), found.world.ranks) if is_local else _gpus(nodes)
    return found._replace(gpus=found.gpus or gpus, oversubscribed=found.oversubscribed or said)


def _gpus(nodes: Sequence[NodeFacts]) -> int:
    """Return the number of GPUs of all machines of a run together, from the facts of its nodes. Nodes of one machine
    see the same GPUs."""
    machines = {node.machine or str(node.node_rank): node.gpus for node in nodes}
    return sum(machines.values())


def _has_rate(result: BenchResult) -> bool:
    return any(each.rate is not None for each in result.measurements)


def _with_facts(result: BenchResult, measurement: Measurement, nodes: tuple[NodeFacts, ...]) -> BenchResult:
    """Return a benchmark's `result` with the tables of hardware and software of the run of `measurement`, if its world
    is the largest that was measured; otherwise unchanged."""
    largest = max(each.world.ranks for each in result.measurements if each.rate is not None)
    if measurement.world.ranks < largest or not nodes:
        return result
    said: Any = measurement.details.get("software")
    reported = {str(name): str(value) for name, value in said.items()} if isinstance(said, dict) else {}
    return result._replace(hardware=hardware_table(nodes), software=software_table(nodes, reported))


def _line(measurement: Measurement, unit: str) -> str:
    """Return the line that reports the measurement of a world to the user, such as "2x2: 341 images/s (run 20261127-…,
    12 s)", or the reason why it has no rate."""
    if measurement.failure:
        return f"{measurement.world}: failed: {measurement.failure}"
    took = f", {duration_text(measurement.held)}" if measurement.held is not None else ""
    return f"{measurement.world}: {measurement.rate or 0:.4g} {unit} (run {measurement.run}{took})"
