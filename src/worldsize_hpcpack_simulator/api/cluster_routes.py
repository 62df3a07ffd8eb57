"""The answers about the cluster as a whole: version, roles, metrics, the log of operations."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from worldsize_hpcpack_simulator.api.head import Answer, Call, HeadNode, Operation
from worldsize_hpcpack_simulator.api.paging import parse_flag, parse_number
from worldsize_hpcpack_simulator.scheduler.cluster import SimulatedNode
from worldsize_hpcpack_simulator.wire import DATE_FORMAT, RequestRefused, iso_text, names_in, parse_date

_WEEK, _MINUTE = 7 * 86400.0, 60.0
_MOST_VALUES = 1440
_DEFINITIONS = (
    ("HPCPoolUsage", "Cluster Pool Usage", "The number of cores used and allocated for the pool"),
    ("HPCSchedulerJobs", "Cluster Jobs", "The number of jobs on the cluster"),
    ("HPCSchedulerNodes", "Cluster Nodes", "The number of nodes in the cluster"),
)
_NODE_METRICS = ("HPCCpuUsage", "HPCMemoryPaging", "HPCDiskThroughput", "HPCNetwork", "HPCCoresInUse")


def version(head: HeadNode, call: Call) -> Answer:
    return Answer(head.options.version)


def active_head_node(head: HeadNode, call: Call) -> Answer:
    return Answer(socket.gethostname())


def date_format(head: HeadNode, call: Call) -> Answer:
    return Answer(DATE_FORMAT)


def user_roles(head: HeadNode, call: Call) -> Answer:
    return Answer(["User"] if call.user.role == "User" else ["User", call.user.role])


# Metrics


def metric_definitions(head: HeadNode, call: Call) -> Answer:
    return Answer([{"Name": name, "DisplayName": shown, "Description": text} for name, shown, text in _DEFINITIONS])


def metric_history(head: HeadNode, call: Call) -> Answer:
    """Answer a request for the history of a metric of the cluster: a value for each minute between `fromTime` and
    `toTime` of the query during which the simulator has run. Raise RequestRefused if the metric is unknown or a time is
    missing."""
    name = next((each for each, *_ in _DEFINITIONS if each.lower() == call.path["name"].lower()), None)
    if name is None:
        raise RequestRefused(404, f"There is no metric {call.path['name']}.")
    since, until = _required_date(call, "fromTime"), _required_date(call, "toTime")
    if since > until:
        raise RequestRefused(400, "fromTime is later than toTime.")
    first, last = max(since, head.started), min(until, time.time())
    count = min(_MOST_VALUES, max(0, int((last - first) / _MINUTE) + 1))
    moments = [first + index * _MINUTE for index in range(count)]
    values = [{"Key": iso_text(moment), "Value": float(_metric_value(head, name, moment))} for moment in moments]
    return Answer(_metric_data(name, since, until, [("Instance", values)]))


def _required_date(call: Call, name: str) -> float:
    text = call.query.get(name.lower())
    if not text:
        raise RequestRefused(400, f"{name} is missing.")
    return parse_date(text)


def _metric_value(head: HeadNode, name: str, moment: float) -> int:
    if name == "HPCSchedulerNodes":
        return len(head.cluster.nodes)
    jobs = [job for job in head.scheduler.jobs.values() if job.created <= moment]
    if name == "HPCSchedulerJobs":
        return len(jobs)
    tasks = (
        task for job in jobs for task in job.runnable_tasks() if task.started is not None and task.started <= moment
    )
    return sum(task.cores for task in tasks if task.ended is None or task.ended > moment)


def _metric_data(name: str, since: float, until: float, instances: Sequence[tuple[str, object]]) -> dict[str, object]:
    return {
        "MetricName": name,
        "FromTime": iso_text(since),
        "ToTime": iso_text(until),
        "Instances": [{"InstanceName": instance, "Values": values} for instance, values in instances],
    }


def job_metrics(head: HeadNode, call: Call) -> Answer:
    """Answer a request for the cluster's job metrics: the numbers of finished, canceled and failed jobs by the end of
    each of the last seven days."""
    now = time.time()
    ends = [now - _WEEK + day * 86400.0 for day in range(1, 8)]
    instances = []
    for state in ("Finished", "Canceled", "Failed"):
        jobs = [job.ended or now for job in head.scheduler.jobs.values() if job.state == state]
        values = [{"Key": iso_text(end), "Value": sum(1 for ended in jobs if ended <= end)} for end in ends]
        instances.append((f"Number of {state.lower()} jobs", values))
    return Answer(_metric_data("Jobs", now - _WEEK, now, instances))


def node_metrics(head: HeadNode, call: Call) -> Answer:
    """Answer a request for the values of metrics of all nodes. The query names the metrics, and the answer uses these
    names; a node that cannot be reached has no values. Raise RequestRefused if the query names no metric, or an unknown
    one."""
    known = {name.lower(): name for name in _NODE_METRICS}
    wanted = names_in(call.query.get("metricnames"))
    if not wanted:
        raise RequestRefused(400, "metricNames is missing.")
    for name in wanted:
        if name.lower() not in known:
            raise RequestRefused(400, f"There is no metric {name}; there are {', '.join(_NODE_METRICS)}.")
    told = []
    for node in head.cluster.nodes.values():
        metrics = {name: _node_metric(head, node, known[name.lower()]) for name in wanted} if node.is_up else {}
        told.append({"NodeName": node.name, "Metrics": metrics})
    return Answer(told)


def _node_metric(head: HeadNode, node: SimulatedNode, metric: str) -> float:
    used = 0
    for job in head.scheduler.active.values():
        used += sum(task.place.get(node.name, 0) for task in job.runnable_tasks() if task.state == "Running")
    return {"HPCCoresInUse": float(used), "HPCCpuUsage": 100.0 * used / node.cores}.get(metric, 0.0)


# Operations


def operations(head: HeadNode, call: Call) -> Answer:
    found = _select_operations(head, call)
    found.reverse()
    limit = parse_number(call.query, "limit", len(found), 0)
    detailed = parse_flag(call.query, "withDetail", False)
    return Answer([each.to_object(detailed) for each in found[:limit]])


def first_operation(head: HeadNode, call: Call) -> Answer:
    found = _select_operations(head, call)
    if not found:
        raise RequestRefused(404, "There is no such operation.")
    return Answer(found[0].to_object(True))


def operation(head: HeadNode, call: Call) -> Answer:
    for each in head.operations:
        if each.id.lower() == call.path["id"].lower():
            return Answer(each.to_object(True))
    raise RequestRefused(404, f"There is no operation {call.path['id']}.")


def _select_operations(head: HeadNode, call: Call) -> list[Operation]:
    """Return the entries of the cluster's log of operations that match the query's times and node names, the oldest
    first. Both times of the query are exclusive."""
    tests: list[Callable[[Operation], bool]] = []
    if "fromtime" in call.query:
        since = parse_date(call.query["fromtime"])
        tests.append(lambda each: each.time > since)
    if "totime" in call.query:
        until = parse_date(call.query["totime"])
        tests.append(lambda each: each.time < until)
    if call.query.get("nodenames"):
        names = {name.lower() for name in names_in(call.query["nodenames"])}
        tests.append(lambda each: each.node.lower() in names)
    return [each for each in head.operations if all(test(each) for test in tests)]
