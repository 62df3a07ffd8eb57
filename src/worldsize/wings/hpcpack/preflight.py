"""Checks before a run is submitted: the account, nodes, groups and templates, which the head node is asked for;
whether the nodes will see what the run needs; whether HPC Pack takes the line that starts it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from worldsize.common.path_mapping import is_mapped
from worldsize.compute.base import CheckResult
from worldsize.compute.capabilities import ComputeNode
from worldsize.errors import ConfigError, SubmitAgain, WorldsizeError
from worldsize.jobspec.job import Input, Job
from worldsize.jobspec.paths import is_remote
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hpcpack.head.client import PATIENCE, HeadNodeClient
from worldsize.wings.hpcpack.head.wire import names_of
from worldsize.wings.hpcpack.render import LONGEST_LINE, RequestSettings, command_lines, meeting_node, node_names
from worldsize.wings.hpcpack.reports import groups_of, nodes
from worldsize.wings.hpcpack.settings import Share, require_mounted
from worldsize.wings.hpcpack.share_features import probe_share_features

_LINUX = "linuxnodes"
_NODES_HINT = "`worldsize nodes` shows what there is"


def check_head(open_head: Callable[[], HeadNodeClient], said: Mapping[str, Any], plan: Plan) -> Iterator[CheckResult]:
    """That the head node answers this account, and has the nodes, groups and templates that are named: one request, and
    one more for a template, or for a head of the older generation."""
    try:
        with open_head() as head:
            yield from check_nodes(nodes(head, metrics=False), said, plan)
            if "template" in said and head.sent == 1:  # more requests are not spent on what the head refuses itself
                yield from _check_template(said["template"], head.get("/jobs/templates"))
    except SubmitAgain as error:
        hint = f"it is tried again for {PATIENCE:g} s when the run is submitted"
        yield CheckResult("notice", f"{error.what}: nothing was checked there", error.where, hint)
    except ConfigError as error:
        yield CheckResult("error", error.what, error.where, error.hint)
    except WorldsizeError as error:
        yield CheckResult("error", f"HPC Pack: {error.what}", error.where, error.hint)


def check_nodes(found: Sequence[ComputeNode], said: Mapping[str, Any], plan: Plan) -> Iterator[CheckResult]:
    """Pure."""
    wanted = node_names(said)
    known = {node.name.lower(): node for node in found}
    missing = [name for name in wanted if name.lower() not in known]
    for name in missing:
        hint = did_you_mean(name, [node.name for node in found])
        yield CheckResult("error", f"there is no node {name}", "hpcpack.nodes", hint)
    unknown = [] if wanted else list(_check_groups(groups_of(found), said))
    yield from unknown
    if 0 < len(wanted) < len(plan.agents):
        what = f"{len(wanted)} nodes are named, and the run has {len(plan.agents)}"
        yield CheckResult("error", what, "hpcpack.nodes", "name as many, or more, or none")
    yield from _check_meeting_node(known, wanted, said, plan)
    named = [known[name.lower()] for name in wanted if name.lower() in known]
    if wanted and len(wanted) == len(plan.agents):
        for node in named:
            if not node.usable:
                what = f"node {node.name} starts no tasks: {node.reason}"
                yield CheckResult("error", what, "hpcpack.nodes", "name another one, or none: " + _NODES_HINT)
    elif not missing and not unknown:
        yield from _check_node_count(named if wanted else _nodes_in_groups(found, said), len(plan.agents))


def _check_groups(known: Sequence[str], said: Mapping[str, Any]) -> Iterator[CheckResult]:
    lowered = {name.lower() for name in known}
    for name in _wanted_groups(said):
        if name.lower() not in lowered:
            hint = did_you_mean(name, known, "groups with nodes are")
            yield CheckResult("error", f"no node is in a group {name}", "hpcpack.node_group", hint)


def _nodes_in_groups(found: Sequence[ComputeNode], said: Mapping[str, Any]) -> list[ComputeNode]:
    groups = {name.lower() for name in _wanted_groups(said)}
    if not groups:
        return list(found)
    every = said.get("node_group_op", "Intersect") == "Intersect"
    own = [(node, {name.lower() for name in node.groups}) for node in found]
    return [node for node, names in own if (groups <= names if every else groups & names)]


def _wanted_groups(said: Mapping[str, Any]) -> list[str]:
    value = said.get("node_group", "")
    return names_of(value) if isinstance(value, str) else list(value)


def _check_node_count(may: Sequence[ComputeNode], size: int) -> Iterator[CheckResult]:
    """More may come online: only what the cluster does not have at all is an error."""
    usable = [node for node in may if node.usable]
    if len(may) < size:
        what = "%d nodes are asked for, and there %s %d that it may run on"
        words = what % (size, "is" if len(may) == 1 else "are", len(may))
        yield CheckResult(
            "error", words, "resources.instance_count", "ask for fewer, or another node_group: " + _NODES_HINT
        )
    elif len(usable) < size:
        what = "%d nodes are asked for, and %d of those that it may run on take tasks now: it would wait"
        yield CheckResult(
            "notice", what % (size, len(usable)), "resources.instance_count", "`worldsize nodes --all` says why"
        )
    others = [node.name for node in usable if _LINUX not in {name.lower() for name in node.groups}]
    if others and len(others) < len(usable):
        what = "it may come to run on {}, which {} no Linux node".format(
            ", ".join(others[:5]),
            "is" if len(others) == 1 else "are",
        )
        yield CheckResult("notice", what, "hpcpack.node_group", "say node_group = LinuxNodes")


def _check_meeting_node(
    known: Mapping[str, ComputeNode], wanted: Sequence[str], said: Mapping[str, Any], plan: Plan
) -> Iterator[CheckResult]:
    host = meeting_node(said, plan)
    if host and host.lower() not in known:
        hint = did_you_mean(host, [node.name for node in known.values()])
        yield CheckResult("error", f"there is no node {host} to meet on", "hpcpack.rdzv_endpoint", hint)
    elif host and wanted and host.lower() not in {name.lower() for name in wanted}:
        what = f"torchrun is to meet on {host}, which is none of the nodes that are named"
        yield CheckResult("error", what, "hpcpack.rdzv_endpoint", f"name one of {', '.join(wanted)}")


def _check_template(wanted: str, known: Any) -> Iterator[CheckResult]:
    names = [str(name) for name in known] if isinstance(known, list) else []
    if wanted.lower() not in {name.lower() for name in names}:
        hint = did_you_mean(wanted, names, "there are")
        yield CheckResult("error", f"there is no job template {wanted}", "hpcpack.template", hint)


_ID_PLACEHOLDER = "0" * 22
"""As long as a run's id, which is not known yet."""


def check_share(share: Share | None, runs_dir: str | None, job: Job) -> Iterator[CheckResult]:
    """That the nodes will see the run, and what it reads and writes. Makes a directory on the share, and removes it."""
    try:
        share = require_mounted(share)
    except ConfigError as error:
        yield CheckResult("error", error.what, error.where, error.hint)
        return
    mapped = share.path_mapping()
    if runs_dir and not is_mapped(runs_dir, mapped) and not is_mapped(os.path.realpath(runs_dir), mapped):
        what = f"{runs_dir} does not lie on the share ({share.local}): no node would see the run"
        yield CheckResult(
            "error", what, "runs_dir", f"leave it out: runs are kept in {os.path.join(share.local, 'runs')}"
        )
    for key, path in _job_paths(job):
        if not is_mapped(path, mapped) and not is_mapped(os.path.realpath(path), mapped):
            hint = f"copy it to the share ({share.local}), and name it there"
            yield CheckResult("error", f"{path} does not lie on the share: no node would see it", key, hint)
    yield from _check_features(_nearest_directory(runs_dir or str(share.local)))


def check_lines(asked: RequestSettings, plan: Plan, runs_dir: str) -> Iterator[CheckResult]:
    """Whether a run in `runs_dir`, or an element of an array there, has command lines that are not too long."""
    root = (
        os.path.join(runs_dir, _ID_PLACEHOLDER, _ID_PLACEHOLDER + "_9999")
        if "_" in plan.run_id
        else os.path.join(runs_dir, _ID_PLACEHOLDER)
    )
    longest = max(command_lines(asked, plan, RunPaths(root)), key=len)
    if len(longest) > LONGEST_LINE:
        what = "a task's command line would have %d characters, and HPC Pack takes %d: %s"
        hint = "a shorter `runs_dir`, `share.node` or `python` of the compute"
        yield CheckResult("error", what % (len(longest), LONGEST_LINE, longest), "hpcpack", hint)


def _job_paths(job: Job) -> Iterator[tuple[str, str]]:
    for name, value in job.inputs.items():
        if isinstance(value, Input) and value.path and not is_remote(value.path):
            yield f"inputs.{name}.path", value.path
    for name, output in job.outputs.items():
        if output.path and not is_remote(output.path):
            yield f"outputs.{name}.path", output.path


def _nearest_directory(directory: str) -> str:
    """The directory itself, or the nearest one above it that exists."""
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    return directory


def _check_features(directory: str) -> Iterator[CheckResult]:
    """Whether we may write there, and what of a file system its file server leaves us."""
    try:
        found = probe_share_features(directory)
    except OSError as error:
        hint = "it must be writable for you, here and on the nodes"
        yield CheckResult("error", f"the share cannot be written: {error.strerror}", directory, hint)
        return
    for what, help_text in found.lacks():
        yield CheckResult("notice", what, directory, help_text)
