"""Codes, data and environments: versions, containers, and where to upload what is pending."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from azureml_double.assets import KINDS
from azureml_double.options import ACCOUNT, GROUP, SUBSCRIPTION
from azureml_double.web import Answer, Refusal, Request, Route

if TYPE_CHECKING:
    from azureml_double.service import Service


def routes(service: Service) -> list[Route]:
    assets = service.assets

    def put(request: Request, kind: str, name: str, version: str) -> Answer:
        properties = request.json().get("properties")
        if not isinstance(properties, dict):
            raise Refusal(400, "UserError", "properties: missing.")
        resource, new = assets.put(kind.lower(), name, version, properties)
        return Answer(201 if new else 200, resource)

    def get(request: Request, kind: str, name: str, version: str) -> Answer:
        return Answer(200, assets.get(kind.lower(), name, version))

    def versions(request: Request, kind: str, name: str) -> Answer:
        """With `hash`: those whose content has it, of whatever name, which clients need not upload again."""
        digest = request.query.get("hash")
        found = assets.with_hash(kind.lower(), digest) if digest else assets.versions(kind.lower(), name)
        top = request.query.get("$top", "")
        return Answer(200, {"value": found[: int(top)] if top.isdigit() else found})

    def container(request: Request, kind: str, name: str) -> Answer:
        return Answer(200, assets.container(kind.lower(), name))

    def containers(request: Request, kind: str) -> Answer:
        return Answer(200, {"value": [assets.container(kind.lower(), name) for name in assets.names(kind.lower())]})

    def pending(request: Request, kind: str, name: str, version: str) -> Answer:
        """A new container, and a signature to fill it."""
        upload = str(uuid.uuid4())
        service.store.make_container(upload)
        blobs = "https://%s.blob.%s/%s" % (ACCOUNT, service.suffix, upload)
        storage = "/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Storage/storageAccounts/%s"
        reference = {
            "blobUri": blobs,
            "storageAccountArmId": storage % (SUBSCRIPTION, GROUP, ACCOUNT),
            "credential": {"credentialType": "SAS", "sasUri": service.signed(upload, permissions="rcwl")},
        }
        body = {"pendingUploadId": upload, "pendingUploadType": "TemporaryBlobReference"}
        return Answer(200, {**body, "blobReferenceForConsumption": reference})

    kinds = "(?P<kind>%s)" % "|".join(KINDS)
    make = service.workspace_route
    return [
        make("GET", "/%s" % kinds, containers),
        make("GET", "/%s/{name}" % kinds, container),
        make("GET", "/%s/{name}/versions" % kinds, versions),
        make("PUT", "/%s/{name}/versions/{version}" % kinds, put),
        make("GET", "/%s/{name}/versions/{version}" % kinds, get),
        make("POST", "/%s/{name}/versions/{version}/startPendingUpload" % kinds, pending),
    ]
