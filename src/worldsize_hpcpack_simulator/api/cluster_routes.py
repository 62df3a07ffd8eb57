"""Answers about the cluster as a whole: version, roles, metrics, the log of operations."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from worldsize_hpcpack_simulator.api.head import Answer, Call, Head, Operation
from worldsize_hpcpack_simulator.api.paging import truth, whole
from worldsize_hpcpack_simulator.scheduler.cluster import Node
from worldsize_hpcpack_simulator.wire import DATE_FORMAT, Refused, iso, moment_of, names_in

_WEEK, _MINUTE = 7 * 86400.0, 60.0
_MOST_VALUES = 1440
_DEFINITIONS = (
    ("HPCPoolUsage", "Cluster Pool Usage", "The number of cores used and allocated for the pool"),
    ("HPCSchedulerJobs", "Cluster Jobs", "The number of jobs on the cluster"),
    ("HPCSchedulerNodes", "Cluster Nodes", "The number of nodes in the cluster"),
)
_NODE_METRICS = ("HPCCpuUsage", "HPCMemoryPaging", "HPCDiskThroughput", "HPCNetwork", "HPCCoresInUse")


def version(head: Head, call: Call) -> Answer:
    return Answer(head.options.version)


def active_head_node(head: Head, call: Call) -> Answer:
    return Answer(socket.gethostname())


def date_format(head: Head, call: Call) -> Answer:
    return Answer(DATE_FORMAT)


def user_roles(head: Head, call: Call) -> Answer:
    return Answer(["User"] if call.user.role == "User" else ["User", call.user.role])


# Metrics


def metric_definitions(head: Head, call: Call) -> Answer:
    return Answer([{"Name": name, "DisplayName": shown, "Description": text} for name, shown, text in _DEFINITIONS])


def metric_history(head: Head, call: Call) -> Answer:
    """A value for each minute that is over and that the simulator has seen."""
    name = next((each for each, *_ in _DEFINITIONS if each.lower() == call.path["name"].lower()), None)
    if name is None:
        raise Refused(404, "There is no metric %s." % call.path["name"])
    since, until = _required(call, "fromTime"), _required(call, "toTime")
    if since > until:
        raise Refused(400, "fromTime is later than toTime.")
    first, last = max(since, head.started), min(until, time.time())
    count = min(_MOST_VALUES, max(0, int((last - first) / _MINUTE) + 1))
    moments = [first + index * _MINUTE for index in range(count)]
    values = [{"Key": iso(moment), "Value": float(_value(head, name, moment))} for moment in moments]
    return Answer(_data(name, since, until, [("Instance", values)]))


def _required(call: Call, name: str) -> float:
    text = call.query.get(name.lower())
    if not text:
        raise Refused(400, "%s is missing." % name)
    return moment_of(text)


def _value(head: Head, name: str, moment: float) -> int:
    if name == "HPCSchedulerNodes":
        return len(head.cluster.nodes)
    jobs = [job for job in head.scheduler.jobs.values() if job.created <= moment]
    if name == "HPCSchedulerJobs":
        return len(jobs)
    tasks = (task for job in jobs for task in job.runnable() if task.started is not None and task.started <= moment)
    return sum(task.cores for task in tasks if task.ended is None or task.ended > moment)


def _data(name: str, since: float, until: float, instances: Sequence[tuple[str, object]]) -> dict[str, object]:
    return {
        "MetricName": name,
        "FromTime": iso(since),
        "ToTime": iso(until),
        "Instances": [{"InstanceName": instance, "Values": values} for instance, values in instances],
    }


def job_metrics(head: Head, call: Call) -> Answer:
    """How many jobs have ended in each way by the end of each of seven days."""
    now = time.time()
    ends = [now - _WEEK + day * 86400.0 for day in range(1, 8)]
    instances = []
    for state in ("Finished", "Canceled", "Failed"):
        jobs = [job.ended or now for job in head.scheduler.jobs.values() if job.state == state]
        values = [{"Key": iso(end), "Value": sum(1 for ended in jobs if ended <= end)} for end in ends]
        instances.append(("Number of %s jobs" % state.lower(), values))
    return Answer(_data("Jobs", now - _WEEK, now, instances))


def node_metrics(head: Head, call: Call) -> Answer:
    """Under the names as they were asked for; none of a node that cannot be reached."""
    known = {name.lower(): name for name in _NODE_METRICS}
    wanted = names_in(call.query.get("metricnames"))
    if not wanted:
        raise Refused(400, "metricNames is missing.")
    for name in wanted:
        if name.lower() not in known:
            raise Refused(400, "There is no metric %s; there are %s." % (name, ", ".join(_NODE_METRICS)))
    told = []
    for node in head.cluster.nodes.values():
        metrics = {name: _measure(head, node, known[name.lower()]) for name in wanted} if node.up else {}
        told.append({"NodeName": node.name, "Metrics": metrics})
    return Answer(told)


def _measure(head: Head, node: Node, metric: str) -> float:
    used = 0
    for job in head.scheduler.active.values():
        used += sum(task.place.get(node.name, 0) for task in job.runnable() if task.state == "Running")
    return {"HPCCoresInUse": float(used), "HPCCpuUsage": 100.0 * used / node.cores}.get(metric, 0.0)


# Operations


def operations(head: Head, call: Call) -> Answer:
    found = _found(head, call)
    found.reverse()
    limit = whole(call.query, "limit", len(found), 0)
    detailed = truth(call.query, "withDetail", False)
    return Answer([each.shown(detailed) for each in found[:limit]])


def first_operation(head: Head, call: Call) -> Answer:
    found = _found(head, call)
    if not found:
        raise Refused(404, "There is no such operation.")
    return Answer(found[0].shown(True))


def operation(head: Head, call: Call) -> Answer:
    for each in head.operations:
        if each.id.lower() == call.path["id"].lower():
            return Answer(each.shown(True))
    raise Refused(404, "There is no operation %s." % call.path["id"])


def _found(head: Head, call: Call) -> list[Operation]:
    """The oldest first. Both times are exclusive."""
    tests: list[Callable[[Operation], bool]] = []
    if "fromtime" in call.query:
        since = moment_of(call.query["fromtime"])
        tests.append(lambda each: each.time > since)
    if "totime" in call.query:
        until = moment_of(call.query["totime"])
        tests.append(lambda each: each.time < until)
    if call.query.get("nodenames"):
        names = {name.lower() for name in names_in(call.query["nodenames"])}
        tests.append(lambda each: each.node.lower() in names)
    return [each for each in head.operations if all(test(each) for test in tests)]
