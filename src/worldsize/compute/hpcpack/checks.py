"""What the head node can be asked before a run is submitted: the account, the nodes, groups and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from worldsize.compute.abilities import Node
from worldsize.compute.base import CheckResult
from worldsize.compute.hpcpack.client import PATIENCE, Head
from worldsize.compute.hpcpack.render import meeting_node, node_names
from worldsize.compute.hpcpack.settings import Access
from worldsize.compute.hpcpack.tell import groups_of, nodes
from worldsize.compute.hpcpack.unverified import INSTEAD, KEY, what_is_wrong
from worldsize.compute.hpcpack.wire import names_of
from worldsize.errors import ConfigError, SubmitAgain, WorldsizeError
from worldsize.plan.launch import Plan
from worldsize.spec.nearest import did_you_mean

_LINUX = "linuxnodes"
_LISTED = "`worldsize nodes` shows what there is"


def check_head(open_head: Callable[[], Head], said: Mapping[str, Any], plan: Plan) -> Iterator[CheckResult]:
    """That the head node answers this account, and has the nodes, groups and templates that are named: one request, and
    one more for a template, or for a head of the older generation."""
    try:
        with open_head() as head:
            yield from check_account(head.access)
            yield from check_nodes(nodes(head, metrics=False), said, plan)
            if "template" in said and head.sent == 1:  # more requests are not spent on what the head refuses itself
                yield from _template(said["template"], head.get("/jobs/templates"))
    except SubmitAgain as error:
        hint = "it is tried again for %g s when the run is submitted" % PATIENCE
        yield CheckResult("notice", "%s: nothing was checked there" % error.what, error.where, hint)
    except ConfigError as error:
        yield CheckResult("error", error.what, error.where, error.hint)
    except WorldsizeError as error:
        yield CheckResult("error", "HPC Pack: %s" % error.what, error.where, error.hint)


def check_account(access: Access) -> Iterator[CheckResult]:
    wrong = what_is_wrong(access)
    if wrong is not None:
        yield CheckResult("notice", wrong, KEY, INSTEAD)


def check_nodes(found: Sequence[Node], said: Mapping[str, Any], plan: Plan) -> Iterator[CheckResult]:
    """Pure."""
    wanted = node_names(said)
    known = {node.name.lower(): node for node in found}
    missing = [name for name in wanted if name.lower() not in known]
    for name in missing:
        hint = did_you_mean(name, [node.name for node in found])
        yield CheckResult("error", "there is no node %s" % name, "hpcpack.nodes", hint)
    unknown = [] if wanted else list(_groups(groups_of(found), said))
    yield from unknown
    if 0 < len(wanted) < len(plan.agents):
        what = "%d nodes are named, and the run has %d" % (len(wanted), len(plan.agents))
        yield CheckResult("error", what, "hpcpack.nodes", "name as many, or more, or none")
    yield from _meeting(known, wanted, said, plan)
    named = [known[name.lower()] for name in wanted if name.lower() in known]
    if wanted and len(wanted) == len(plan.agents):
        for node in named:
            if not node.usable:
                what = "node %s starts no tasks: %s" % (node.name, node.reason)
                yield CheckResult("error", what, "hpcpack.nodes", "name another one, or none: " + _LISTED)
    elif not missing and not unknown:
        yield from _enough(named if wanted else _in_groups(found, said), len(plan.agents))


def _groups(known: Sequence[str], said: Mapping[str, Any]) -> Iterator[CheckResult]:
    lowered = {name.lower() for name in known}
    for name in _wanted_groups(said):
        if name.lower() not in lowered:
            hint = did_you_mean(name, known, "groups with nodes are")
            yield CheckResult("error", "no node is in a group %s" % name, "hpcpack.node_group", hint)


def _in_groups(found: Sequence[Node], said: Mapping[str, Any]) -> list[Node]:
    groups = {name.lower() for name in _wanted_groups(said)}
    if not groups:
        return list(found)
    every = said.get("node_group_op", "Intersect") == "Intersect"
    own = [(node, {name.lower() for name in node.groups}) for node in found]
    return [node for node, names in own if (groups <= names if every else groups & names)]


def _wanted_groups(said: Mapping[str, Any]) -> list[str]:
    value = said.get("node_group", "")
    return names_of(value) if isinstance(value, str) else list(value)


def _enough(may: Sequence[Node], size: int) -> Iterator[CheckResult]:
    """More may come online: only what the cluster does not have at all is an error."""
    usable = [node for node in may if node.usable]
    if len(may) < size:
        what = "%d nodes are asked for, and there %s %d that it may run on"
        words = what % (size, "is" if len(may) == 1 else "are", len(may))
        yield CheckResult(
            "error", words, "resources.instance_count", "ask for fewer, or another node_group: " + _LISTED
        )
    elif len(usable) < size:
        what = "%d nodes are asked for, and %d of those that it may run on take tasks now: it would wait"
        yield CheckResult(
            "notice", what % (size, len(usable)), "resources.instance_count", "`worldsize nodes --all` says why"
        )
    others = [node.name for node in usable if _LINUX not in {name.lower() for name in node.groups}]
    if others and len(others) < len(usable):
        what = "it may come to run on %s, which %s no Linux node" % (
            ", ".join(others[:5]),
            "is" if len(others) == 1 else "are",
        )
        yield CheckResult("notice", what, "hpcpack.node_group", "say node_group = LinuxNodes")


def _meeting(
    known: Mapping[str, Node], wanted: Sequence[str], said: Mapping[str, Any], plan: Plan
) -> Iterator[CheckResult]:
    host = meeting_node(said, plan)
    if host and host.lower() not in known:
        hint = did_you_mean(host, [node.name for node in known.values()])
        yield CheckResult("error", "there is no node %s to meet on" % host, "hpcpack.rdzv_endpoint", hint)
    elif host and wanted and host.lower() not in {name.lower() for name in wanted}:
        what = "torchrun is to meet on %s, which is none of the nodes that are named" % host
        yield CheckResult("error", what, "hpcpack.rdzv_endpoint", "name one of %s" % ", ".join(wanted))


def _template(wanted: str, known: Any) -> Iterator[CheckResult]:
    names = [str(name) for name in known] if isinstance(known, list) else []
    if wanted.lower() not in {name.lower() for name in names}:
        hint = did_you_mean(wanted, names, "there are")
        yield CheckResult("error", "there is no job template %s" % wanted, "hpcpack.template", hint)
