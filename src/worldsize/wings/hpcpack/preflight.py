"""Checks before a run is submitted. They check the account, nodes, groups and templates with the head node, whether the
nodes will see the files that the run needs, and whether HPC Pack accepts the command line that starts the run."""

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
from worldsize.wings.hpcpack.head.certificate_notice import CERTIFICATE_HINT, KEY, take_certificate_notice
from worldsize.wings.hpcpack.head.client import PATIENCE, HeadNodeClient
from worldsize.wings.hpcpack.head.wire import items_of
from worldsize.wings.hpcpack.render import RequestSettings, command_lines, meeting_node
from worldsize.wings.hpcpack.reports import nodes
from worldsize.wings.hpcpack.settings import Share, require_mounted, windows_part
from worldsize.wings.hpcpack.share_features import probe_share_features

_LINUX = "linuxnodes"
_NODES_HINT = "`worldsize nodes` lists them"


def check_head(open_head: Callable[[], HeadNodeClient], said: Mapping[str, Any], plan: Plan) -> Iterator[CheckResult]:
    """Check that the head node accepts this account, and has the nodes, groups and job template that the HPC Pack
    options `said` name. Yield a CheckResult for each problem. If the head does not answer, yield a notice that nothing
    was checked. This takes one request, and one more for a template, or for a head of the older generation."""
    try:
        with open_head() as head:
            unverified = take_certificate_notice(head.access)
            if unverified is not None:
                yield CheckResult("notice", unverified, KEY, CERTIFICATE_HINT, id="certificate")
            yield from check_nodes(nodes(head, metrics=False), said, plan)
            if "template" in said and head.sent == 1:  # no more requests: the head refuses a wrong template itself
                known = head.get("/jobs/templates")
                names = [str(name) for name in known] if isinstance(known, list) else []
                what = "there is no job template {}"
                yield from _check_names([said["template"]], names, "hpcpack.template", what, "there are")
    except SubmitAgain as error:
        hint = f"it is retried for {PATIENCE:g} s when the run is submitted"
        yield CheckResult("notice", f"{error.what}: nothing was checked there", error.where, hint, id="not-checked")
    except WorldsizeError as error:
        what = error.what if isinstance(error, ConfigError) else f"HPC Pack: {error.what}"
        yield CheckResult("error", what, error.where, error.hint)


def check_nodes(found: Sequence[ComputeNode], said: Mapping[str, Any], plan: Plan) -> Iterator[CheckResult]:
    """Check the nodes and groups that the HPC Pack options `said` name, and their number, against the nodes `found` in
    the cluster. Yield a CheckResult for each problem. Pure."""
    wanted, groups, size = items_of(said.get("nodes", "")), items_of(said.get("node_group", "")), len(plan.agents)
    known = {node.name.lower(): node for node in found}
    names = [node.name for node in found]
    missing = _check_names(wanted, names, "hpcpack.nodes", "there is no node {}")
    if not wanted:
        grouped = list(dict.fromkeys(group for node in found for group in node.groups))
        what = "no node is in a group {}"
        missing = _check_names(groups, grouped, "hpcpack.node_group", what, "groups with nodes are")
    yield from missing
    if 0 < len(wanted) < size:
        what = f"{len(wanted)} nodes are named, and the run has {size}"
        yield CheckResult("error", what, "hpcpack.nodes", "name as many, or more, or none")
    yield from _check_meeting_node(names, wanted, meeting_node(said, plan))
    named = [known[name.lower()] for name in wanted if name.lower() in known]
    if len(wanted) == size:
        for node in named:
            if not node.usable:
                what = f"node {node.name} starts no tasks: {node.reason}"
                yield CheckResult("error", what, "hpcpack.nodes", "name another one, or none: " + _NODES_HINT)
    elif not missing:
        every = said.get("node_group_op", "Intersect") == "Intersect"
        yield from _check_node_count(named if wanted else _nodes_in_groups(found, groups, every), size)


def _check_names(
    wanted: Sequence[str], known: Sequence[str], where: str, what: str, otherwise: str = "one of"
) -> list[CheckResult]:
    """Return a CheckResult with an error for each name in `wanted` that is not in `known`, ignoring case. `what` is the
    message, with {} for the name; `where` is the option, and `otherwise` introduces the names in the hint."""
    lowered = {name.lower() for name in known}
    missing = [name for name in wanted if name.lower() not in lowered]
    return [CheckResult("error", what.format(name), where, did_you_mean(name, known, otherwise)) for name in missing]


def _nodes_in_groups(found: Sequence[ComputeNode], groups: Sequence[str], every: bool) -> list[ComputeNode]:
    """Return those of the cluster's nodes `found` that are in all of the groups if `every`, else those that are in any
    of the groups. Without groups, return all nodes."""
    wanted = {name.lower() for name in groups}
    own = [(node, {name.lower() for name in node.groups}) for node in found]
    return [node for node, names in own if not wanted or (wanted <= names if every else wanted & names)]


def _check_node_count(may: Sequence[ComputeNode], size: int) -> Iterator[CheckResult]:
    """Check that the nodes that the run may use are at least `size`, and yield a CheckResult for each problem. Too few
    nodes in total are an error. Too few usable ones are only a notice: more of them may come online. Nodes outside the
    group LinuxNodes are a notice, too, if others are in it."""
    usable = [node for node in may if node.usable]
    what, where = f"{size} nodes are asked for, and ", "resources.instance_count"
    if len(may) < size:
        what += "there {} {} that it may run on".format("is" if len(may) == 1 else "are", len(may))
        yield CheckResult("error", what, where, "ask for fewer, or another node_group: " + _NODES_HINT)
    elif len(usable) < size:
        what += f"{len(usable)} of the nodes that it may run on accept tasks now: it would wait"
        yield CheckResult("notice", what, where, "`worldsize nodes --all` gives the reason", id="nodes-busy")
    others = [node.name for node in usable if _LINUX not in {name.lower() for name in node.groups}]
    if others and len(others) < len(usable):
        verb = "is" if len(others) == 1 else "are"
        what = f"it may run on {', '.join(others[:5])}, which {verb} no Linux node"
        yield CheckResult("notice", what, "hpcpack.node_group", "set node_group = LinuxNodes", id="nodes-busy")


def _check_meeting_node(known: Sequence[str], wanted: Sequence[str], host: str) -> list[CheckResult]:
    where = "hpcpack.rdzv_endpoint"
    missing = _check_names([host] if host else [], known, where, "there is no node {} to meet on")
    if missing or not host or not wanted or host.lower() in {name.lower() for name in wanted}:
        return missing
    what = f"torchrun should meet on {host}, which is not one of the named nodes"
    return [CheckResult("error", what, where, f"name one of {', '.join(wanted)}")]


_ID_PLACEHOLDER = "0" * 22
"""A text of the length of a run's id, which is not known yet."""


def check_share(share: Share | None, runs_dir: str | None, job: Job, place: str = "") -> Iterator[CheckResult]:
    """Check that the nodes will see the run's directory, and the files that the job reads and writes, on the cluster's
    share. Yield a CheckResult for each problem. This creates a directory on the share and removes it. `place` is where
    the compute is configured, `compute.NAME.`."""
    try:
        share = require_mounted(share, place)
    except ConfigError as error:
        yield CheckResult("error", error.what, error.where, error.hint)
        return
    mapped = share.path_mapping()
    if runs_dir and not is_mapped(runs_dir, mapped) and not is_mapped(os.path.realpath(runs_dir), mapped):
        what = f"{runs_dir} is not on the share ({share.local}): no node would see the run"
        hint = f"leave it out: runs are kept in {os.path.join(str(share.local), 'runs')}"
        yield CheckResult("error", what, f"{place}runs_dir", hint)
    for key, path in _job_paths(job):
        if not is_mapped(path, mapped) and not is_mapped(os.path.realpath(path), mapped):
            yield CheckResult("error", f"{path} is not on the share: no node would see it", key, _hint(share, path))
    yield from _check_features(_nearest_directory(runs_dir or str(share.local)))


def _hint(share: Share, path: str) -> str:
    """Return the hint for the path of a job, which may contain a Windows path, that is not on the share."""
    named = windows_part(path)
    if named is None:
        return f"copy it to the share ({share.local}), and name it there"
    here = share.local_path(named)
    if here is not None:
        return f"name it as this machine does: {here}"
    return f"{named} is a Windows path: name the file as this machine does, below the share ({share.local})"


def check_lines(asked: RequestSettings, plan: Plan, runs_dir: str) -> Iterator[CheckResult]:
    """Check that the tasks' command lines for a run in `runs_dir`, or for an element of an array there, are not too
    long for HPC Pack. Yield a CheckResult with an error if one is."""
    root = (
        os.path.join(runs_dir, _ID_PLACEHOLDER, _ID_PLACEHOLDER + "_9999")
        if "_" in plan.run_id
        else os.path.join(runs_dir, _ID_PLACEHOLDER)
    )
    try:
        command_lines(asked, plan, RunPaths(root))
    except ConfigError as error:
        yield CheckResult("error", error.what, error.where, error.hint)


def _job_paths(job: Job) -> Iterator[tuple[str, str]]:
    for name, value in job.inputs.items():
        if isinstance(value, Input) and value.path and not is_remote(value.path):
            yield f"inputs.{name}.path", value.path
    for name, output in job.outputs.items():
        if output.path and not is_remote(output.path):
            yield f"outputs.{name}.path", output.path


def _nearest_directory(directory: str) -> str:
    """Return the directory itself if it exists, else its nearest ancestor that exists."""
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    return directory


def _check_features(directory: str) -> Iterator[CheckResult]:
    """Check that this user may write in `directory` on the share, and which features its file system lacks. Yield an
    error if writing fails, else a notice for each missing feature."""
    try:
        found = probe_share_features(directory)
    except OSError as error:
        hint = "it must be writable for you, here and on the nodes"
        yield CheckResult("error", f"the share cannot be written: {error.strerror}", directory, hint)
        return
    for what, help_text in found.lacks():
        yield CheckResult("notice", what, directory, help_text, id="share")
