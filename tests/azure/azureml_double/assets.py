"""Codes, data and environments by name and version."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from azureml_double.options import scope
from azureml_double.times import now
from azureml_double.web import Refusal

KINDS = ("codes", "data", "environments")
_PLACES = {"codes": "codeUri", "data": "dataUri"}


class Assets:
    """Each is the `properties` of its version. Methods raise Refusal for what is not there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}

    def put(self, kind: str, name: str, version: str, properties: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Its resource, and whether it is new. Where one of another place is there, Refusal: versions do not change."""
        place = _PLACES.get(kind, "")
        with self._lock:
            versions = self._versions.setdefault((kind, name), {})
            before = versions.get(version)
            if before and place and before["properties"].get(place) != properties.get(place):
                text = "Asset with the same name and version exists, and its path is another."
                raise Refusal(409, "UserError", text)
            versions[version] = _resource(kind, name, version, properties)
            return versions[version], before is None

    def get(self, kind: str, name: str, version: str) -> dict[str, Any]:
        found = self._versions.get((kind, name), {}).get(version)
        if found is None:
            raise Refusal(404, "UserError", "Not found component %s of %s, version %s." % (name, kind, version))
        return found

    def versions(self, kind: str, name: str) -> list[dict[str, Any]]:
        """The newest first."""
        return list(reversed(self._versions.get((kind, name), {}).values()))

    def with_hash(self, kind: str, digest: str) -> list[dict[str, Any]]:
        """Those whose content has it, as their clients said; azure-ai-ml takes the name from what it is given."""
        found = [each for name in self.names(kind) for each in self.versions(kind, name)]
        return [each for each in found if (each["properties"].get("properties") or {}).get("hash_sha256") == digest]

    def names(self, kind: str) -> list[str]:
        return [name for each, name in self._versions if each == kind]

    def container(self, kind: str, name: str) -> dict[str, Any]:
        """The resource of all versions of a name."""
        found = self.versions(kind, name)
        if not found:
            raise Refusal(404, "UserError", "Not found %s of name %s." % (kind, name))
        numbers = [int(each["name"]) for each in found if each["name"].isdigit()]
        properties = {
            "latestVersion": found[0]["name"],
            "nextVersion": str(max(numbers, default=0) + 1),
            "isArchived": False,
            "tags": {},
            "properties": {},
        }
        if kind == "data":
            properties["dataType"] = found[0]["properties"].get("dataType", "uri_folder")
        return {"id": "%s/%s/%s" % (scope(), kind, name), "name": name, "properties": properties}


def _resource(kind: str, name: str, version: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    who = {"createdAt": now(), "createdBy": "double", "createdByType": "User", "lastModifiedAt": now()}
    return {
        "id": "%s/%s/%s/versions/%s" % (scope(), kind, name, version),
        "name": version,
        "type": "Microsoft.MachineLearningServices/workspaces/%s/versions" % kind,
        "properties": {"tags": {}, "properties": {}, "isAnonymous": False, **properties},
        "systemData": who,
    }
