"""The table of paths and their handlers. Paths and the names of query parameters may be in any letter case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from starlette import routing
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from worldsize_hpcpack_simulator.api import (
    cluster_routes,
    group_routes,
    job_routes,
    node_routes,
    older_routes,
    task_routes,
    variable_routes,
)
from worldsize_hpcpack_simulator.api.head import Answer, Call, HeadNode
from worldsize_hpcpack_simulator.wire import RequestRefused, parse_json

BASE = "/hpc"
Handler = Callable[[HeadNode, Call], Answer]
BOTH, OLD, NEW = ("2016", "2019"), ("2016",), ("2019",)


class Route(routing.Route):
    """A path below the base in any letter case, with a handler for each of its methods, and the generations of HPC Pack
    that have it. A request's state contains the head node, the user, the body, and the path for messages."""

    def __init__(self, path: str, handlers: Mapping[str, Handler], generations: tuple[str, ...] = BOTH) -> None:
        super().__init__(BASE + path, self._respond)
        self.path_regex = re.compile(self.path_regex.pattern, re.IGNORECASE)
        self.methods = None  # Starlette's own 405 lists HEAD, which the head node does not answer
        self.generations, self._handlers = generations, handlers

    async def _respond(self, request: Request) -> Response:
        state, method = request.state, request.method
        if method not in self._handlers:
            allowed = {"Allow": ", ".join(self._handlers)}
            raise RequestRefused(405, f"{method} is not allowed at {state.path}.", allowed)
        kind = request.headers.get("content-type", "application/json")
        body = None if method == "GET" else parse_json(state.body, kind)
        query = {name.lower(): value for name, value in request.query_params.items()}
        values = {name: unquote(value) for name, value in request.path_params.items()}
        answer = self._handlers[method](state.head, Call(state.user, values, query, body))
        response = Response if answer.value is None else JSONResponse
        return response(answer.value, answer.status, answer.headers, "application/json")


JOB, TASK = "/jobs/{jobId}", "/jobs/{jobId}/tasks/{taskId}"
SUBTASK = TASK + "/subtasks/{subtaskId}"
ROUTES = (
    Route("/cluster/version", {"GET": cluster_routes.version}),
    Route("/cluster/activeHeadNode", {"GET": cluster_routes.active_head_node}),
    Route("/cluster/info/dateTimeFormat", {"GET": cluster_routes.date_format}),
    Route("/cluster/userRoles", {"GET": cluster_routes.user_roles}, NEW),
    Route("/cluster/metrics/definitions", {"GET": cluster_routes.metric_definitions}, NEW),
    Route("/cluster/metrics/history/{name}", {"GET": cluster_routes.metric_history}, NEW),
    Route("/cluster/metrics/jobs", {"GET": cluster_routes.job_metrics}, NEW),
    Route("/cluster/nodes", {"GET": node_routes.list_nodes}, NEW),
    Route("/cluster/nodes/metrics", {"GET": cluster_routes.node_metrics}, NEW),
    Route("/cluster/nodes/stats/state", {"GET": node_routes.count_states}, NEW),
    Route("/cluster/nodes/stats/health", {"GET": node_routes.count_health}, NEW),
    Route("/cluster/nodes/{name}", {"GET": node_routes.read_node}, NEW),
    Route("/cluster/nodes/{name}/operations/{operation}", {"POST": node_routes.operate_node}, NEW),
    Route("/cluster/operations", {"GET": cluster_routes.operations}, NEW),
    Route("/cluster/operations/first", {"GET": cluster_routes.first_operation}, NEW),
    Route("/cluster/operations/{id}", {"GET": cluster_routes.operation}, NEW),
    Route("/cluster/nodeGroups", {"GET": group_routes.list_groups, "POST": group_routes.create_group}, NEW),
    Route(
        "/cluster/nodeGroups/{name}",
        {"GET": group_routes.read_group, "PUT": group_routes.change_group, "DELETE": group_routes.delete_group},
        NEW,
    ),
    Route(
        "/cluster/nodeGroups/{name}/nodes",
        {"GET": group_routes.list_members, "PATCH": group_routes.change_members},
        NEW,
    ),
    Route("/nodes", {"GET": older_routes.list_nodes}, OLD),
    Route("/nodes/groups", {"GET": older_routes.list_groups}, OLD),
    Route("/nodes/groups/{name}", {"GET": group_routes.list_members}, OLD),
    Route("/nodes/{name}", {"GET": older_routes.read_node}, OLD),
    Route("/jobs", {"GET": job_routes.list_jobs, "POST": job_routes.create}),
    Route("/jobs/jobFile", {"POST": job_routes.create_from_xml}),
    Route("/jobs/templates", {"GET": job_routes.templates}),
    Route(JOB, {"GET": job_routes.read, "PUT": job_routes.change}),
    Route(JOB + "/customProperties", {"GET": variable_routes.read_custom, "POST": variable_routes.set_custom}),
    Route(JOB + "/envVariables", {"GET": variable_routes.read_environ, "POST": variable_routes.set_environ}),
    Route(JOB + "/submit", {"POST": job_routes.submit}),
    Route(JOB + "/cancel", {"POST": job_routes.cancel}),
    Route(JOB + "/finish", {"POST": job_routes.finish}),
    Route(JOB + "/requeue", {"POST": job_routes.requeue}),
    Route(JOB + "/tasks", {"GET": task_routes.list_tasks, "POST": task_routes.add}),
    Route(TASK, {"GET": task_routes.read, "PUT": task_routes.change}),
    Route(TASK + "/customProperties", {"GET": variable_routes.read_custom, "POST": variable_routes.set_custom}),
    Route(TASK + "/envVariables", {"GET": variable_routes.read_environ, "POST": variable_routes.set_environ}),
    Route(TASK + "/cancel", {"POST": task_routes.cancel}),
    Route(TASK + "/finish", {"POST": task_routes.finish}),
    Route(TASK + "/requeue", {"POST": task_routes.requeue}),
    Route(SUBTASK, {"GET": task_routes.read, "PUT": task_routes.change}),
    Route(SUBTASK + "/cancel", {"POST": task_routes.cancel}),
    Route(SUBTASK + "/finish", {"POST": task_routes.finish}),
    Route(SUBTASK + "/requeue", {"POST": task_routes.requeue}),
)
