"""What tests ask of the double itself: faults, tokens that no longer hold, a node's death, jobs' states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureml_double.web import Answer, Request, Route, route

if TYPE_CHECKING:
    from azureml_double.service import Service


def routes(service: Service) -> list[Route]:
    def add_fault(request: Request) -> Answer:
        service.faults.add(request.json())
        return Answer(201, {})

    def clear(request: Request) -> Answer:
        service.faults.clear()
        return Answer(200, {})

    def revoke(request: Request) -> Answer:
        """A token holds no longer: for every request after this one, as when it has expired."""
        service.refused.add(str(request.json().get("token")))
        return Answer(200, {})

    def issue(request: Request) -> Answer:
        return Answer(201, {"token": service.issue_token()})

    def states(request: Request, name: str) -> Answer:
        return Answer(200, {"states": service.jobs.get(name).states})

    def kill_node(request: Request, name: str, node: str) -> Answer:
        """All processes of the job's node end at once, as when the machine is lost."""
        service.runner.kill_node(service.jobs.get(name), int(node))
        return Answer(200, {})

    return [
        route("POST", "/admin/faults", add_fault),
        route("DELETE", "/admin/faults", clear),
        route("POST", "/admin/revoke", revoke),
        route("POST", "/admin/tokens", issue),
        route("GET", "/admin/jobs/{name}/states", states),
        route("DELETE", "/admin/jobs/{name}/nodes/(?P<node>\\d+)", kill_node),
    ]
