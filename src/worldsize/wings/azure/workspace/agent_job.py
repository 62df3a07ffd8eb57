"""The request for a job of Azure Machine Learning that starts one agent of a run on each node. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Limits
from worldsize.plan.plan import Plan
from worldsize.wings.azure.workspace.body import ResolvedNames, request_body

RUN_INPUT = "worldsize_run"
"""The name of the input with the run's own files."""

_BOOT = (
    "import sys;sys.path.insert(0,sys.argv[1]+'/agent.pyz');"
    "from worldsize.wings.azure.agent.job_node import main;sys.exit(main(sys.argv[1:]))"
)
_LATER = 120.0
"""Seconds after the run's own limit at which the service ends the job. The agents end the run before that, with a
reason."""


def agent_request(job: Job, plan: Plan, names: ResolvedNames, files: str) -> dict[str, Any]:
    """Return the body of the REST request that creates a job of Azure ML with one agent of the run on each node.
    `files` is the URI of the folder with the run's own files."""
    inputs = {name: value for name, value in job.inputs.items() if not (isinstance(value, Input) and not value.path)}
    asked = job._replace(
        command=node_command(job),
        argv=(),
        inputs={**inputs, RUN_INPUT: Input("uri_folder", files, mode="download")},
        environment_variables=_shown_variables(job),
        distribution=PyTorchDistribution(process_count_per_instance=1) if len(plan.agents) > 1 else None,
        resources=job.resources._replace(instance_count=len(plan.agents)),
        limits=Limits(job.limits.timeout + job.grace + _LATER) if job.limits.timeout else job.limits,
    )
    return request_body(asked, names)


def node_command(job: Job) -> str:
    """Return the shell command that each node of an Azure ML job executes: the agent's module with the folder of the
    run's files, and the location of each input and output."""
    places = [f"{shlex.quote(f'inputs.{name}=')}{_expression('inputs', name)}" for name in _data_names(job)]
    places += [f"{shlex.quote(f'outputs.{name}=')}{_expression('outputs', name)}" for name in job.outputs]
    python = '"$(command -v python3 || command -v python)"'
    words = ["exec", python, "-I", "-S", "-c", shlex.quote(_BOOT), _expression("inputs", RUN_INPUT), *places]
    return " ".join(words)


def _expression(kind: str, name: str) -> str:
    return '"${{%s.%s}}"' % (kind, name)  # noqa: UP031  braces within braces


def _data_names(job: Job) -> list[str]:
    return [name for name, value in job.inputs.items() if isinstance(value, Input) and value.path]


def _shown_variables(job: Job) -> Mapping[str, str]:
    """Return the job's environment variables that are passed to the service, which may need to see them. Those with an
    expression are left to the agents."""
    return {name: value for name, value in job.environment_variables.items() if "${{" not in value}
