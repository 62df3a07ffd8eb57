"""A workspace of the double as what uploads takes to be one: the least client there can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azureml_double.double import Double

from worldsize.errors import SubmitRejected
from worldsize.wings.azure.workspace.errors import MissingResource


class WorkspaceClient:
    def __init__(self, double: Double) -> None:
        self._double = double

    def get(self, path: str, **params: object) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", path)
        return found

    def put(self, path: str, body: Mapping[str, Any], **params: object) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("PUT", path, body)
        return found

    def post(self, path: str, body: Mapping[str, Any], **params: object) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._ask("POST", path, body)
        return found

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = self._double.call(method, path, body)
        if answer.status_code >= 400:
            kind = MissingResource if answer.status_code == 404 else SubmitRejected
            raise kind(answer.json()["error"]["message"], path)
        return answer.json()
