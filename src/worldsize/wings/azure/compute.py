"""The compute for a workspace of Azure Machine Learning, through its REST interface. Each node of a job starts an agent
of worldsize, and the node's log contains what the agent writes. With `agent = false` the service starts the ranks, and
reports their end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from worldsize.compute.base import (
    MIRRORED,
    OUTPUTS,
    CheckResult,
    Compute,
    ComputeFacts,
    EmbeddedFiles,
    Handle,
    IdleCallback,
    Submission,
)
from worldsize.compute.capabilities import ACCESS, NODE_LIMIT
from worldsize.errors import ConfigError, UsageError, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.hosted_places import RUNS_MARK
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation
from worldsize.wings.azure.workspace.polling import pause_seconds
from worldsize.wings.azure.workspace.settings import (
    WorkspaceSettings,
    handle_fields,
    is_same_workspace,
    workspace_settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import FetchProgress
    from worldsize.wings.azure.workspace.client import WorkspaceClient

KEPT = (
    "AZUREML_RUN_ID",
    "AZUREML_ROOT_RUN_ID",
    "AZUREML_EXPERIMENT_NAME",
    "AZUREML_ARM_SUBSCRIPTION",
    "AZUREML_ARM_RESOURCEGROUP",
    "AZUREML_ARM_WORKSPACE_NAME",
)
"""Variables with the same value on every rank, by which programs there find their job in the workspace."""

PATIENCE, OBSERVE_PATIENCE = 300.0, 20.0
"""Seconds for which requests are tried again: those that submit or cancel, and those that observe."""


class AzureCompute:
    capabilities = frozenset((ACCESS, "queue", OUTPUTS, MIRRORED, NODE_LIMIT))

    def __init__(self, settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> None:
        self.name = settings.name
        self._settings = settings
        self._home = home
        self._environ = environ

    def facts(self, job: Job) -> ComputeFacts:
        runs = os.path.abspath(self._settings.own_runs_dir or os.path.join(self._home, "runs"))
        return ComputeFacts(
            self._settings.gpus_per_node,
            kept=KEPT,
            mapped=((runs, RUNS_MARK),),
            python=self._settings.python or "python",
            hosted=True,
            agents=self._workspace.agent,
        )

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        from worldsize.wings.azure.workspace.preflight import check_job

        return check_job(job, plan, self._workspace)

    def check_access(self) -> list[CheckResult]:
        from worldsize.wings.azure.workspace.access import check_access

        return list(check_access(self._environ))

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        from worldsize.wings.azure.workspace.service_job import without_agents
        from worldsize.wings.azure.workspace.submission import Request, preview

        request = Request(job, files)
        plan = plan if self._workspace.agent else without_agents(plan)
        return Submission(plan, paths, preview(request, plan, self._workspace), payload=request)

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        from worldsize.wings.azure.workspace.submission import submit_run

        workspace, told = self._workspace, set[str]()
        with self.client(PATIENCE) as client:
            return [{**submit_run(client, each, workspace, told), **handle_fields(workspace)} for each in submissions]

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        from worldsize.wings.azure.workspace.observe import observe_run

        try:
            with self.client(OBSERVE_PATIENCE, idle) as client:
                return [self._observe(client, handle, observe_run) for handle in handles]
        except WorldsizeError as error:
            return [Observation("unknown", message=f"Azure ML: {error.what}")] * len(handles)

    def _observe(
        self, client: WorkspaceClient, handle: Handle, look: Callable[[WorkspaceClient, Handle], Observation]
    ) -> Observation:
        if not is_same_workspace(self._workspace, handle):
            return Observation("unknown", message="Azure ML: it is a job of another workspace")
        return look(client, handle)

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        """Return the seconds until a job of Azure ML is queried again, when its state is `age` seconds old: 2 at first,
        rising to 60 as in the service's own clients, and more for many `runs`."""
        return pause_seconds(age) * min(1 + runs // 20, 4)

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        """Request the end of each run in `handles` from Azure's service. It sends TERM to the agents, which apply the
        grace period."""
        from worldsize.wings.azure.workspace.submission import cancel_run

        with self.client(PATIENCE) as client:
            for handle in handles:
                cancel_run(client, handle)

    def end_remains(self, handle: Handle) -> int:
        if self.observe([handle])[0].phase not in ("queued", "running"):
            return 0
        self.cancel([handle], now=True)
        return 1

    def list_outputs(self, handle: Handle, paths: RunPaths, places: Mapping[str, str]) -> dict[str, int]:
        from worldsize.wings.azure.storage.outputs import list_outputs
        from worldsize.wings.azure.workspace.observe import native_name

        with self.client(PATIENCE) as client:
            return list_outputs(client, native_name(handle), paths, places)

    def fetch_outputs(
        self,
        handle: Handle,
        paths: RunPaths,
        places: Mapping[str, str],
        is_wanted: Callable[[str], bool],
        progress: FetchProgress,
    ) -> None:
        from worldsize.wings.azure.storage.outputs import fetch_outputs
        from worldsize.wings.azure.workspace.observe import native_name

        with self.client(PATIENCE) as client:
            fetch_outputs(client, native_name(handle), paths, places, is_wanted, progress)

    def node_limit(self) -> int | None:
        """Return the largest number of nodes of the workspace's compute cluster; None for serverless compute, and for a
        compute that does not scale."""
        from worldsize.wings.azure.workspace.computes import most_nodes

        name = self._workspace.compute
        if name is None:
            return None
        with self.client(OBSERVE_PATIENCE) as client:
            return most_nodes(client, name)

    def client(self, patience: float, idle: IdleCallback | None = None) -> WorkspaceClient:
        """Return a client for the REST interface of the Azure ML workspace with this user's account. Requests are tried
        again for `patience` seconds. Raise ConfigError if the settings cannot be used."""
        from worldsize.wings.azure.workspace.client import WorkspaceClient
        from worldsize.wings.azure.workspace.credentials import SignIn

        return WorkspaceClient(self._workspace, SignIn(self._workspace.token_scope), patience, idle)

    @property
    def _workspace(self) -> WorkspaceSettings:
        return workspace_settings(self._settings)


class UnreachableCompute(AzureCompute):
    """The compute of a run of another user, or of a run whose workspace is not in this configuration. The service is
    not queried. Only files that have already been fetched show anything about its runs. Every method that would query
    the service raises UsageError, which states `why`."""

    capabilities = frozenset()

    def __init__(self, name: str, why: str, hint: str) -> None:
        super().__init__(ComputeSettings(name, "azureml"), "", {})
        self._why = why
        self._hint = hint

    def client(self, patience: float, idle: IdleCallback | None = None) -> WorkspaceClient:
        raise UsageError(f"compute {self.name} is not asked: {self._why}", None, self._hint)

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        return [Observation("unknown", message=self._why)] * len(handles)


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> Compute:
    return AzureCompute(settings, home, environ)


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    """Return the configured AzureCompute with the workspace in the run's `handle`, for a run of this user. For another
    user's run, and if no compute is configured with this workspace, return an UnreachableCompute."""
    from worldsize.jobspec.config.load import config_directory, load_config
    from worldsize.service.ownership import foreign_reason

    danger = foreign_reason(RunPaths(directory))
    if danger is not None:
        why = f"a token is sent only for your own runs, and for this run's directory: {danger}"
        return UnreachableCompute(name, why, f"the user who started it can query it: worldsize status {directory}")
    handle = handle or {}
    config = load_config(config_directory(), environ)
    fitting = [each for each in config.computes.values() if each.type == "azureml" and _fits(each, handle)]
    fitting.sort(key=lambda each: each.name != name)
    if not fitting:
        why = "no configured compute has its workspace (%.100s)" % handle.get("workspace_name")  # noqa: UP031
        hint = f"run this where worldsize.toml has compute {name}, or put it into ~/.config/worldsize/worldsize.toml"
        return UnreachableCompute(name, why, hint)
    return AzureCompute(fitting[0], config.home, environ)


def _fits(settings: ComputeSettings, handle: Mapping[str, Any]) -> bool:
    try:
        return is_same_workspace(workspace_settings(settings), handle)
    except ConfigError:
        return False
