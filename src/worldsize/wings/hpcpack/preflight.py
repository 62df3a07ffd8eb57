"""Checks before a run is submitted: the account, nodes, groups and templates, which the head node is asked for;
whether the nodes will see what the run needs; whether HPC Pack takes the line that starts it."""

from __future__ import annotations

import os
import stat
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
from worldsize.wings.hpcpack.settings import Share

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
    if share is None or not share.node.startswith("/"):
        hint = r"share = { head = '\\HEAD\CcpSpoolDir\app', node = '/app', local = '/mnt/app' }"
        yield CheckResult("error", "the compute does not say where the nodes have the share", "share.node", hint)
        return
    if share.local is None or not os.path.isdir(share.local):
        where = share.local or "no directory that is known"
        hint = "mount it (`worldsize hpcpack share` says how), and name the directory: share.local of the compute"
        yield CheckResult("error", f"the share is not mounted here: {where}", "share.local", hint)
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
    yield from _probe_directory(_nearest_directory(runs_dir or share.local))


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


def _probe_directory(directory: str) -> Iterator[CheckResult]:
    """Whether we may write there, and what of a file system its file server leaves us."""
    probe = os.path.join(directory, f".worldsize-check-{os.urandom(4).hex()}")
    file, link, hard = (os.path.join(probe, name) for name in ("file", "link", "hard"))
    try:
        os.mkdir(probe, 0o700)
    except OSError as error:
        hint = "it must be writable for you, here and on the nodes"
        yield CheckResult("error", f"the share cannot be written: {error.strerror}", directory, hint)
        return
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (probe, file)]
        if any(mode & 0o077 for mode in modes):
            what = f"the share keeps no permissions (a directory made 0700 is {modes[0]:04o}): "
            what += "who reaches it reads the run"
            yield CheckResult("notice", what, directory, "give only people whom you trust an account on it")
        if not _try_call(lambda: os.symlink("file", link)):
            what = "the share knows no symbolic links: ./outputs and ./logs of the command stay in the run's code/"
            yield CheckResult("notice", what, directory, "mount it with `mfsymlinks`, here and on every node")
        if not _try_call(lambda: os.link(file, hard)):
            yield CheckResult("notice", "the share knows no hard links: each run copies its code", directory)
    except OSError as error:
        yield CheckResult("error", f"the share cannot be written: {error.strerror}", directory)
    finally:
        for path in (link, hard, file):
            _try_call(lambda path=path: os.unlink(path))  # type: ignore[misc]
        _try_call(lambda: os.rmdir(probe))


def _try_call(act: Callable[[], None]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True
