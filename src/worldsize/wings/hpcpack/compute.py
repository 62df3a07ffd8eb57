"""A Microsoft HPC Pack cluster, which is used only through its head node's REST API and a directory that all nodes
share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from worldsize.compute.base import CheckResult, Compute, ComputeFacts, EmbeddedFiles, Handle, IdleCallback, Submission
from worldsize.errors import ConfigError, SubmitRejected, UsageError, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.state.records import Observation
from worldsize.wings.hpcpack.head.client import (
    CHECK_PATIENCE,
    OBSERVE_PATIENCE,
    PATIENCE,
    REQUEST_PATIENCE,
    HeadNodeClient,
)
from worldsize.wings.hpcpack.head.wire import items_of
from worldsize.wings.hpcpack.render import RequestSettings, parents, preview, requests
from worldsize.wings.hpcpack.settings import (
    Share,
    handle_fields,
    has_account_of,
    head_access,
    job_options,
    path_mapping,
    require_mounted,
    share_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import ComputeNode, NodeCommand, NodeCommandStream, Usage

KEPT = (
    "CCP_JOBID",
    "CCP_JOBNAME",
    "CCP_TASKID",
    "CCP_CLUSTER_NAME",
    "CCP_SCHEDULER",
    "CCP_OWNER_SID",
    "CCP_MPI_NETMASK",
)
"""Variables whose values are valid for every rank of the node. CCP_NODES_CORES and CCP_NUMCPUS are not among them: in a
run's task they describe its own node alone."""

_PYTHON = "python3"
_SHORTEST_ANSWER = 2.0


class HpcPackCompute:
    capabilities = frozenset(("access", "after", "array", "everywhere", "exec", "nodes", "queue", "requeue", "usage"))
    group_noun = "groups"

    def __init__(self, settings: ComputeSettings, environ: Mapping[str, str]) -> None:
        self.name = settings.name
        self._settings = settings
        self._environ = environ

    def facts(self, job: Job) -> ComputeFacts:
        options = self._settings.options
        return ComputeFacts(
            self._settings.gpus_per_node,
            kept=KEPT,
            modules=options.get("modules", ()),
            setup=options.get("setup", ()),
            mapped=path_mapping(options),
            python=self.python,
            rdzv_endpoint=self._job_options(job).get("rdzv_endpoint"),
            errands=True,
            shielded=True,
        )

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        from worldsize.wings.hpcpack.preflight import check_head, check_lines, check_share

        if plan.batch is not None:
            what = "a batch script's srun starts its ranks, and there is none on HPC Pack"
            return [CheckResult("error", what, "batch_script", "set the command of each rank: `command` instead")]
        share, runs_dir = self._share, self._settings.own_runs_dir
        found = list(check_share(share, runs_dir, job, f"compute.{self.name}."))
        if share is not None and runs_dir:
            found += check_lines(self._request_settings(job, share), plan, runs_dir)
        found += check_head(partial(self.head, CHECK_PATIENCE), self._job_options(job), plan)
        return [self._with_settings_key(result, job) for result in found]

    def check_access(self) -> list[CheckResult]:
        from worldsize.wings.hpcpack.access import check_access

        return list(check_access(self._settings, self._environ))

    def _with_settings_key(self, found: CheckResult, job: Job) -> CheckResult:
        """Return a result of the job's check with the key of the compute's own table as its location, such as
        `compute.NAME.KEY`, if the value that it is about comes from that table and not from the job."""
        first, _, key = (found.where or "").rpartition("hpcpack.")
        if not first and key in self._settings.options and key not in job.hpcpack:
            return found._replace(where=f"compute.{self.name}.{key}")
        return found

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        share = self._mounted_share()
        asked, access = self._request_settings(job, share), head_access(self._settings)
        notes = "" if access.verify else ", its certificate not verified"
        notes += f", on behalf of {access.as_user}" if access.as_user else ""
        shown = preview(requests(asked, plan, paths), access.base, access.user, notes, plan_secret_values(plan))
        return Submission(plan, paths, shown, payload=asked)

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        from worldsize.wings.hpcpack.submission import submit_all

        place = submissions[0].plan.array
        at_once = place.at_once if place else None
        before = [int(handle["job"]) for after in submissions[0].after for handle in after.handles]
        wanted = [requests(each.payload, each.plan, each.paths) for each in submissions]
        with self.head(PATIENCE) as head:
            try:
                jobs = submit_all(
                    head,
                    wanted,
                    lambda jobs: [*before, *parents(jobs, at_once)],
                    lambda jobs: self._write_handle(submissions, jobs),
                )
            except ConfigError as error:
                raise SubmitRejected(error.what, error.where, error.hint) from None
        return self._handles(submissions, jobs)

    def _write_handle(self, submissions: Sequence[Submission], jobs: Sequence[int]) -> None:
        """Write the handle of a submitted single run to the run's directory at once, so that the run has a handle even
        if its client is killed now. The runs of an array get none here. OSError is ignored, since the caller meets it
        as well."""
        from worldsize.common.atomic_files import write_json

        if submissions[0].plan.array is None:
            try:
                write_json(submissions[0].paths.handle, self._handles(submissions, jobs)[0])
            except OSError:
                pass  # the caller of the submission meets the same error, and reports it

    def _handles(self, submissions: Sequence[Submission], jobs: Sequence[int]) -> list[Handle]:
        common = {
            **handle_fields(head_access(self._settings), self._share),
            "python": self.python,
            "gpus": self._settings.gpus_per_node,
        }
        return [
            {"type": "hpcpack", "job": job, "run_id": each.plan.run_id, "nodes": len(each.plan.agents), **common}
            for job, each in zip(jobs, submissions, strict=True)
        ]

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        from worldsize.wings.hpcpack.observe import observations

        ours = [handle for handle in handles if has_account_of(self._settings, handle)]
        try:
            with self.head(OBSERVE_PATIENCE, idle) as head:
                found = iter(observations(head, ours))
        except WorldsizeError as error:
            found = iter([Observation("unknown", message=f"HPC Pack: {error.what}")] * len(ours))
        other = Observation("unknown", message="HPC Pack: it is a job of another head node, or account")
        return [next(found) if has_account_of(self._settings, handle) else other for handle in handles]

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        """Return the seconds to wait before the state of `runs` runs is queried again; they grow with the `age` of the
        run, in seconds. A head node answers for one job in milliseconds, and for a thousand in a second."""
        return min(max(1.0, age * 0.05), 30.0 if queued else 15.0) * min(1 + runs // 100, 4)

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        """Cancel the HPC Pack jobs of `handles`, the last first, so that jobs that wait for others do not begin
        meanwhile. The agents get a signal and observe the grace period. With `now`, the cancellation is forced and has
        no grace period. A job that the head does not know has already gone, and is ignored."""
        from worldsize.wings.hpcpack.head.errors import MissingResource

        with self.head(PATIENCE) as head:
            for handle in reversed(handles):
                try:
                    head.post(f"/jobs/{int(handle['job'])}/cancel", "worldsize cancel", forced=True if now else None)
                except MissingResource:
                    pass
                except SubmitRejected:
                    if not self._is_over(head, handle):
                        raise

    def _is_over(self, head: HeadNodeClient, handle: Handle) -> bool:
        from worldsize.wings.hpcpack.observe import observations

        seen = observations(head, [handle])[0]
        return seen.phase in ("ended", "absent") or seen.ending

    def end_remains(self, handle: Handle) -> int:
        if self.observe([handle])[0].phase not in ("queued", "running"):
            return 0
        self.cancel([handle], now=True)
        return 1

    def requeue(self, handle: Handle, attempt: int) -> None:
        from worldsize.wings.hpcpack.submission import requeue

        with self.head(REQUEST_PATIENCE) as head:
            requeue(head, int(handle["job"]), attempt)

    def nodes(self) -> list[ComputeNode]:
        from worldsize.wings.hpcpack.reports import nodes

        with self.head(REQUEST_PATIENCE) as head:
            found = nodes(head, self._settings.gpus_per_node)
        ours = items_of(self._settings.options.get("node_group", ""))
        return [node._replace(default_groups=tuple(name for name in node.groups if name in ours)) for node in found]

    def usage(self, handles: Sequence[Handle], patience: float) -> list[Usage | None]:
        from worldsize.wings.hpcpack.reports import usages

        if not any(handle.get("gpus") for handle in handles):
            return [None] * len(handles)  # only the time is known, which the nodes' own records contain
        try:
            with self.head(patience) as head:
                head.limit_patience(max(patience, _SHORTEST_ANSWER))
                return usages(head, handles)
        except WorldsizeError:
            return [None] * len(handles)

    def execute(self, handle: Handle | None, command: NodeCommand) -> NodeCommandStream:
        from worldsize.wings.hpcpack import node_commands

        if handle is not None:
            return node_commands.execute(command, self._mounted_share())
        return node_commands.execute_on_own_nodes(
            command, self._request_settings(Job(), self._mounted_share()), self.head
        )

    def shell(self, handle: Handle, command: NodeCommand) -> int:
        run = command.plan.run_id if command.plan else "RUN"
        hint = f"worldsize exec {run} --node {command.nodes[0]} -- COMMAND; for a shell, ssh to the node, if you may"
        raise UsageError("HPC Pack carries no terminal to a node", "shell", hint)

    def head(self, patience: float, idle: Callable[[], None] | None = None) -> HeadNodeClient:
        """Return a client of the head node with the compute's account. Requests are retried for `patience` seconds.
        Raise ConfigError if too little is configured."""
        from worldsize.wings.hpcpack.head.credentials import obtain_password

        access = head_access(self._settings)
        return HeadNodeClient(access, partial(obtain_password, access.url, access.user, self._environ), patience, idle)

    def _job_options(self, job: Job) -> dict[str, Any]:
        return job_options(self._settings.options, job.hpcpack)

    def _request_settings(self, job: Job, share: Share) -> RequestSettings:
        return RequestSettings(self._job_options(job), share, self.python)

    def _mounted_share(self) -> Share:
        return require_mounted(self._share, f"compute.{self.name}.")

    @property
    def _share(self) -> Share | None:
        return share_of(self._settings.options)

    @property
    def python(self) -> str:
        """The interpreter that runs the agents on the nodes."""
        return self._settings.python or _PYTHON


class UnreachableCompute(HpcPackCompute):
    """The compute of a run that another user made, or whose head node is not configured here. Its head node is never
    contacted: the state of its runs is read from their files alone. Every method that needs a head node raises
    UsageError, which states the reason `why`."""

    capabilities = frozenset()

    def __init__(self, name: str, why: str, hint: str) -> None:
        super().__init__(ComputeSettings(name, "hpcpack"), {})
        self._why = why
        self._hint = hint

    def head(self, patience: float, idle: Callable[[], None] | None = None) -> HeadNodeClient:
        raise UsageError(f"compute {self.name} is not asked: {self._why}", None, self._hint)

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        return [Observation("unknown", message=self._why)] * len(handles)

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        """Return the seconds between two looks at the files of a run, always 1. These looks are cheap, and no service
        is contacted."""
        return 1.0


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> Compute:
    return HpcPackCompute(settings, environ)


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    """Return the configured HPC Pack compute for the run in `directory`: the one that has the head node and account of
    the run's handle. If the run is not the user's own, or no such compute is configured, return an UnreachableCompute.
    """
    from worldsize.jobspec.config.load import config_directory, load_config
    from worldsize.service.ownership import foreign_reason

    danger = foreign_reason(RunPaths(directory))
    if danger is not None:
        why = f"a password is sent only for your own runs, and for this run's directory: {danger}"
        return UnreachableCompute(name, why, f"the user who started it can query it: worldsize status {directory}")
    handle = handle or {}
    computes = load_config(config_directory(), environ).computes
    fitting = [each for each in computes.values() if each.type == "hpcpack" and has_account_of(each, handle)]
    fitting.sort(key=lambda each: each.name != name)
    if not fitting:
        why = "no configured compute has its head node and account (%.100s, %.100s)"
        hint = f"run this where worldsize.toml has compute {name}, or put it into ~/.config/worldsize/worldsize.toml"
        return UnreachableCompute(name, why % (handle.get("url"), handle.get("user")), hint)
    return HpcPackCompute(fitting[0], environ)
