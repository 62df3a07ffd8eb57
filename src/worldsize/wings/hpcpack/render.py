"""The requests that submit a job with its plan, and a preview of them for people. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from worldsize.common.atomic_files import printable_text
from worldsize.errors import ConfigError, JobError
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.time_limit import scheduler_seconds
from worldsize.trust.secrets import mask_tree, mask_values
from worldsize.wings.hpcpack.head.wire import Properties, items_of
from worldsize.wings.hpcpack.settings import Share

LONGEST_LINE = 480
"""The longest command line of a task, in characters. The limit is HPC Pack's own."""

_MOST_PARENTS = 100

_START = (
    "import os,runpy,sys;f=os.open(sys.argv[1],os.O_NOFOLLOW|os.O_DIRECTORY);s=os.fstat(f);p=os.stat('.');m=p.st_mode;"
    "s.st_uid in(os.getuid(),0,p.st_uid)and not s.st_mode&18&~(m*(not m&512))"
    "or sys.exit('worldsize agent: not your run');runpy.run_path('/proc/self/fd/%d/agent.pyz'%f,None,'__main__')"
).replace("'", '"')
"""A Python program that starts the agent in the run's directory, with the share's root as the working directory.

The run may have been removed while it waited, and where users can create directories, another user may have created a
directory of that name. So the directory must belong to the account, to root, or to the owner that the mount shows for
its root. Others may have write access to it only as far as the mount's root grants it, which does not count if the root
has the sticky bit. The agent is executed from the very directory that was checked.
"""

ATTEMPT = "WORLDSIZE_ATTEMPT"
"""The job's variable that contains the number of the attempt that begins. Without it, agents find the number
themselves."""

_LISTS = {"node_group": "NodeGroups", "nodes": "RequestedNodes"}
_TEXTS = {"node_group_op": "NodeGroupOp", "priority": "Priority", "project": "Project", "template": "JobTemplate"}
_PROTECTED = {
    "name": "display_name: the job's own name in HPC Pack is the run's id, by which a lost reply is found again",
    "unittype": "nothing: a run takes whole nodes",
    "minnodes": "resources.instance_count",
    "maxnodes": "resources.instance_count",
    "autocalculatemin": "nothing: the run's size is known",
    "autocalculatemax": "nothing: the run's size is known",
    "failontaskfailure": "nothing: a run ends with its first failing rank",
    "rununtilcanceled": "nothing: a run ends with its ranks",
    "runtime": "limits.timeout",
    "runtimeseconds": "limits.timeout",
    "parentjobids": "worldsize submit --after RUN",
    "requestednodes": "hpcpack.nodes",
    "nodegroups": "hpcpack.node_group",
    "nodegroupop": "hpcpack.node_group_op",
    "isexclusive": "hpcpack.exclusive",
    "priority": "hpcpack.priority",
    "project": "hpcpack.project",
    "jobtemplate": "hpcpack.template",
}
"""Properties that must not be set, by lower-case name, with what to use instead. They decide how ranks are laid out or
how jobs are found, or they have a key of their own."""


class RequestSettings(NamedTuple):
    """The settings for the requests, in addition to the plan.

    `said`  the compute's options, overridden by the job's own
    share   the share that contains the run
    python  the interpreter that runs the agents on the nodes
    """

    said: Mapping[str, Any]
    share: Share
    python: str


class Requests(NamedTuple):
    """The properties of a job, and those of its tasks in the order of their nodes."""

    job: Properties
    tasks: tuple[Properties, ...]


def job_name(run_id: str) -> str:
    """Return the name of a run's job in HPC Pack. If the answer with the job's id is lost, the job is found by this
    name."""
    return f"worldsize {run_id}"


def requests(asked: RequestSettings, plan: Plan, paths: RunPaths) -> Requests:
    """Return the properties of the HPC Pack job and its tasks that submit a run. Raise JobError if `job_properties`
    contains a protected property. Raise ConfigError if a command line is too long."""
    pinned = pinned_nodes(asked.said, plan)
    lines = command_lines(asked, plan, paths)
    return Requests(
        _job(asked, plan),
        tuple(_task(asked.share, node, line, pinned.get(node)) for node, line in enumerate(lines)),
    )


def command_lines(asked: RequestSettings, plan: Plan, paths: RunPaths) -> list[str]:
    """Return the command line that starts the agent on each node of a run, in node order. Raise ConfigError if a line
    is too long."""
    words = [asked.python, "-I", "-S", "-c", _START, asked.share.to_node_path(paths.root)]
    ends = ["--attempt-var", ATTEMPT, "--prepare"]
    return [command_line([*words, "--node-rank", str(node.node_rank), *ends]) for node in plan.agents]


def command_line(words: Sequence[str]) -> str:
    """Return the command line of an HPC Pack task, with `words` quoted for the shell. Raise ConfigError if it has more
    than LONGEST_LINE characters."""
    line = shlex.join(words)
    if len(line) > LONGEST_LINE:
        what = f"a task's command line would have {len(line)} characters, and HPC Pack takes {LONGEST_LINE}: {line}"
        raise ConfigError(what, "hpcpack", "a shorter `runs_dir`, `share.node` or `python` of the compute")
    return line


def pinned_nodes(said: Mapping[str, Any], plan: Plan) -> dict[int, str]:
    """Return the names of the cluster nodes that the HPC Pack options `said` fix, by node rank. These are all nodes if
    the options name as many as the run has. Otherwise it is the first node, if torchrun's rendezvous is on a node that
    is named."""
    names = items_of(said.get("nodes", ""))
    if len(names) == len(plan.agents):
        return dict(enumerate(names))
    host = meeting_node(said, plan)
    return {0: host} if host else {}


def meeting_node(said: Mapping[str, Any], plan: Plan) -> str:
    """Return the name of the node that the option `rdzv_endpoint` names for torchrun's rendezvous. Return "" if the
    option is not set, if it is an address, or if the launcher has no rendezvous of its own."""
    if not launcher_facts(plan.launcher).own_meeting:
        return ""
    host = str(said.get("rdzv_endpoint", "")).rpartition(":")[0] or str(said.get("rdzv_endpoint", ""))
    return "" if re.fullmatch(r"[\d.]+|\[.*|.*:.*", host) else host.partition(".")[0]


def preview(made: Requests, base: str, user: str, notes: str = "", secrets: Collection[str] = ()) -> str:
    """Return all requests that submit a run as text for people, in the order in which they are sent, with their secrets
    and the texts `secrets` masked. `base`, `user` and `notes` are shown in the first line."""
    head = f"# {base}, as {user}{notes}; {{job}} is the number that the first request answers"
    blocks = [_block("POST /jobs", made.job, secrets)]
    blocks += [_block("POST /jobs/{job}/tasks", task, secrets) for task in made.tasks]
    return "\n".join([head, *blocks, "POST /jobs/{job}/submit"]) + "\n"


def _block(line: str, values: Properties, secrets: Collection[str]) -> str:
    shown = mask_tree(mask_values({key: str(value) for key, value in values.items()}, secrets), sparing=True)
    return "\n".join([line, *(f"    {key}={printable_text(value)}" for key, value in shown.items())])


def _job(asked: RequestSettings, plan: Plan) -> Properties:
    size = str(len(plan.agents))
    found = {
        "Name": job_name(plan.run_id),
        "UnitType": "Node",
        "AutoCalculateMin": "False",
        "AutoCalculateMax": "False",
        "MinNodes": size,
        "MaxNodes": size,
        "FailOnTaskFailure": "True",
        "RunUntilCanceled": "False",
    }
    said = asked.said
    if "exclusive" in said:
        found["IsExclusive"] = str(bool(said["exclusive"]))
    found.update({name: ",".join(items_of(said[key])) for key, name in _LISTS.items() if key in said})
    found.update({name: said[key] for key, name in _TEXTS.items() if key in said})
    seconds = scheduler_seconds(plan)
    if seconds is not None:
        found["RuntimeSeconds"] = str(math.ceil(seconds))
    return {**found, **dict(_extra_properties(said.get("job_properties", {})))}


def _extra_properties(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        instead = _PROTECTED.get(name.lower())
        if instead:
            raise JobError(f"{name} cannot be set here", f"hpcpack.job_properties.{name:.60}", f"use {instead}")
        yield name, value


def _task(share: Share, node: int, line: str, pinned: str | None) -> Properties:
    found = {
        "Name": f"node-{node}",
        "CommandLine": line,
        "WorkDirectory": share.node,
        "MinNodes": "1",
        "MaxNodes": "1",
        "IsRerunnable": "False",
    }
    return {**found, "RequiredNodes": pinned} if pinned else found


def parents(jobs: Sequence[int], at_once: int | None) -> tuple[int, ...]:
    """Return the numbers of the HPC Pack jobs that must end before the next element of an array may start. `jobs` are
    the jobs of the elements before it. Return () if `at_once`, the number of elements that may run at once, sets no
    limit.

    These are all but the last `at_once - 1` jobs, and not only the job that is `at_once` before it: when a waiting job
    is cancelled, its own parents still run. For long arrays, only the last hundred of them are returned.
    """
    if not at_once:
        return ()
    return tuple(jobs[: len(jobs) - at_once + 1][-_MOST_PARENTS:]) if len(jobs) >= at_once else ()
