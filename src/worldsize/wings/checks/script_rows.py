"""Rows, notices and facts for checks of nodes, from the text of a job's script. The script is read, never executed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.state.check_rows import BAD, WARNING, CheckRow
from worldsize.wings.checks.asked import cpus_per_rank
from worldsize.wings.checks.script.facts import script_facts
from worldsize.wings.checks.script.findings import downloads, script_findings
from worldsize.wings.checks.script.request import ScriptFinding, ScriptRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOT_DISTRIBUTED, _DOWNLOADS = "script.not_distributed", "script.downloads"


def script_rows(plan: Plan, job: Job, facts: ComputeFacts, settings: ComputeSettings) -> list[CheckRow]:
    """Return the rows of `worldsize check` about the job's script: one CheckRow for each finding, with the file and its
    line; none if the script cannot be read."""
    return [
        CheckRow("", found.id, _place(found), found.what, found.verdict, found.hint)
        for found in _findings(plan, job, facts, settings)
    ]


def notices_of(plan: Plan, job: Job, facts: ComputeFacts, settings: ComputeSettings) -> list[CheckResult]:
    """Return the findings about the job's script as CheckResults: notices for the user before ranks start, and errors
    for which they are not started. Downloads are left to `download_notices`."""
    return [
        CheckResult("error" if found.refused else "notice", found.what, _place(found), found.hint or None, id="script")
        for found in _findings(plan, job, facts, settings)
        if found.verdict in (BAD, WARNING) and found.id != _DOWNLOADS
    ]


def download_notices(job: Job) -> list[CheckResult]:
    """Return the notices, as CheckResults, about the downloads of a job on offline nodes, as found in its command and
    its code. `where` is the file and line, or "command"."""
    request = _of_job(job, True)
    return [
        CheckResult(
            "notice", found.what, f"{found.file}:{found.line}" if found.file else "command", found.hint, id="downloads"
        )
        for found in downloads(request)
    ]


def facts_of_script(plan: Plan, job: Job, facts: ComputeFacts, settings: ComputeSettings) -> Mapping[str, Any]:
    """Return the facts of the job's script (`modules`, `workers`, `backend`, `hosts`), as in `script/facts.py`; {} if
    its code is not on this machine."""
    request = _request(plan, job, facts, settings)
    return script_facts(request) if request.code_dir else {}


def trains_alone(script: str, nodes: int, ranks_per_node: int) -> bool:
    """Return whether each rank of a run on `nodes` nodes with `ranks_per_node` ranks would train on its own, according
    to the text of the file `script`."""
    directory, name = os.path.split(os.path.abspath(script))
    request = ScriptRequest(directory, ("python", name), nodes, ranks_per_node, nodes * ranks_per_node)
    return any(found.id == _NOT_DISTRIBUTED for found in script_findings(request))


def _place(found: ScriptFinding) -> str:
    """Return the place of a finding about the script as text, such as "train.py:7"; "the command" if the finding is in
    no file."""
    if not found.file:
        return "the command"
    return f"{found.file}:{found.line}" if found.line else found.file


def _findings(plan: Plan, job: Job, facts: ComputeFacts, settings: ComputeSettings) -> list[ScriptFinding]:
    return script_findings(_request(plan, job, facts, settings))


def _of_job(job: Job, offline: bool) -> ScriptRequest:
    """Return the ScriptRequest to check the script of a job, made from the job alone, without its plan."""
    return ScriptRequest(
        code_dir=job.code if job.code and os.path.isdir(job.code) else "",
        argv=(),
        environ=tuple(sorted(job.environment_variables)),
        texts=(*job.setup, job.command) if job.batch_script is None else (job.batch_script,),
        stage=job.stage,
        offline=offline,
    )


def _request(plan: Plan, job: Job, facts: ComputeFacts, settings: ComputeSettings) -> ScriptRequest:
    """Return the ScriptRequest to check the script of a job, with the world size and resources of its plan. The request
    has no directory if the code is not on this machine."""
    ranks, cpus = max(len(node.ranks) for node in plan.nodes), cpus_per_rank(settings, job)
    return _of_job(job, job.offline or settings.offline)._replace(
        argv=plan.argv,
        nodes=len(plan.nodes),
        ranks_per_node=ranks,
        world_size=plan.world_size,
        gpus_per_node=plan.gpus,
        cores_per_node=cpus * ranks if cpus else facts.cores_per_node,
        framework=plan.framework,
        launcher=plan.launcher,
        distribution=job.distribution.type if job.distribution is not None else "none",
        data_parallel=plan.data_parallel is not None,
        virtual=facts.shared_host and plan.rehearsal is None,
    )
