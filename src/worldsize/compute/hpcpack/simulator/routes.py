"""Which path is answered by what. Paths and the names of query parameters may be in any letter case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from worldsize.compute.hpcpack.simulator import clusterroutes, grouproutes, jobroutes, noderoutes, oldroutes, taskroutes
from worldsize.compute.hpcpack.simulator.head import Answer, Call, Head

Handler = Callable[[Head, Call], Answer]
BOTH, OLD, NEW = ("2016", "2019"), ("2016",), ("2019",)


class Route(NamedTuple):
    """A path below the base, its methods, and the generations of HPC Pack that have it."""

    path: str
    methods: Mapping[str, Handler]
    generations: tuple[str, ...] = BOTH


JOB, TASK = "/jobs/{jobId}", "/jobs/{jobId}/tasks/{taskId}"
SUBTASK = TASK + "/subtasks/{subtaskId}"
ROUTES = (
    Route("/cluster/version", {"GET": clusterroutes.version}),
    Route("/cluster/activeHeadNode", {"GET": clusterroutes.active_head_node}),
    Route("/cluster/info/dateTimeFormat", {"GET": clusterroutes.date_format}),
    Route("/cluster/userRoles", {"GET": clusterroutes.user_roles}, NEW),
    Route("/cluster/metrics/definitions", {"GET": clusterroutes.metric_definitions}, NEW),
    Route("/cluster/metrics/history/{name}", {"GET": clusterroutes.metric_history}, NEW),
    Route("/cluster/metrics/jobs", {"GET": clusterroutes.job_metrics}, NEW),
    Route("/cluster/nodes", {"GET": noderoutes.list_nodes}, NEW),
    Route("/cluster/nodes/metrics", {"GET": clusterroutes.node_metrics}, NEW),
    Route("/cluster/nodes/stats/state", {"GET": noderoutes.state_stat}, NEW),
    Route("/cluster/nodes/stats/health", {"GET": noderoutes.health_stat}, NEW),
    Route("/cluster/nodes/{name}", {"GET": noderoutes.read_node}, NEW),
    Route("/cluster/nodes/{name}/operations/{operation}", {"POST": noderoutes.operate_node}, NEW),
    Route("/cluster/operations", {"GET": clusterroutes.operations}, NEW),
    Route("/cluster/operations/first", {"GET": clusterroutes.first_operation}, NEW),
    Route("/cluster/operations/{id}", {"GET": clusterroutes.operation}, NEW),
    Route("/cluster/nodeGroups", {"GET": grouproutes.list_groups, "POST": grouproutes.create_group}, NEW),
    Route(
        "/cluster/nodeGroups/{name}",
        {"GET": grouproutes.read_group, "PUT": grouproutes.change_group, "DELETE": grouproutes.delete_group},
        NEW,
    ),
    Route("/cluster/nodeGroups/{name}/nodes", {"GET": grouproutes.members, "PATCH": grouproutes.move}, NEW),
    Route("/nodes", {"GET": oldroutes.list_nodes}, OLD),
    Route("/nodes/groups", {"GET": oldroutes.list_groups}, OLD),
    Route("/nodes/groups/{name}", {"GET": grouproutes.members}, OLD),
    Route("/nodes/{name}", {"GET": oldroutes.read_node}, OLD),
    Route("/jobs", {"GET": jobroutes.list_jobs, "POST": jobroutes.create}),
    Route("/jobs/jobFile", {"POST": jobroutes.create_from_xml}),
    Route("/jobs/templates", {"GET": jobroutes.templates}),
    Route(JOB, {"GET": jobroutes.read, "PUT": jobroutes.change}),
    Route(JOB + "/customProperties", {"GET": jobroutes.read_custom, "POST": jobroutes.set_custom}),
    Route(JOB + "/envVariables", {"GET": jobroutes.read_environ, "POST": jobroutes.set_environ}),
    Route(JOB + "/submit", {"POST": jobroutes.submit}),
    Route(JOB + "/cancel", {"POST": jobroutes.cancel}),
    Route(JOB + "/finish", {"POST": jobroutes.finish}),
    Route(JOB + "/requeue", {"POST": jobroutes.requeue}),
    Route(JOB + "/tasks", {"GET": taskroutes.list_tasks, "POST": taskroutes.add}),
    Route(TASK, {"GET": taskroutes.read, "PUT": taskroutes.change}),
    Route(TASK + "/customProperties", {"GET": taskroutes.read_custom, "POST": taskroutes.set_custom}),
    Route(TASK + "/envVariables", {"GET": taskroutes.read_environ, "POST": taskroutes.set_environ}),
    Route(TASK + "/cancel", {"POST": taskroutes.cancel}),
    Route(TASK + "/finish", {"POST": taskroutes.finish}),
    Route(TASK + "/requeue", {"POST": taskroutes.requeue}),
    Route(SUBTASK, {"GET": taskroutes.read_sub, "PUT": taskroutes.change_sub}),
    Route(SUBTASK + "/cancel", {"POST": taskroutes.cancel_sub}),
    Route(SUBTASK + "/finish", {"POST": taskroutes.finish_sub}),
    Route(SUBTASK + "/requeue", {"POST": taskroutes.requeue_sub}),
)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path), re.IGNORECASE)


_PATTERNS = tuple((_pattern(route.path), route) for route in ROUTES)


def find(path: str, generation: str) -> tuple[Route, dict[str, str]] | None:
    """The route of a path below the base, and the values of its variables."""
    for pattern, route in _PATTERNS:
        match = pattern.fullmatch(path)
        if match is not None and (generation == "both" or generation in route.generations):
            return route, match.groupdict()
    return None
