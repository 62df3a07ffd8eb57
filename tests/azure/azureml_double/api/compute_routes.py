"""The workspace itself, its computes and its datastores."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from azureml_double.api.account_routes import discovery_url
from azureml_double.options import ACCOUNT, BLOB_STORE, CONTAINERS, GROUP, SUBSCRIPTION, WORKSPACE, scope
from azureml_double.web import Answer, Refusal, Request, Route, route

if TYPE_CHECKING:
    from azureml_double.service import Service

LOCATION = "westeurope"
ACCOUNT_KEY = base64.b64encode(b"The key of the double's account.").decode()
SIZES = {
    "Standard_D2s_v3": (2, 8, 0, "standardDSv3Family"),
    "Standard_NC6s_v3": (6, 112, 1, "standardNCSv3Family"),
    "Standard_NC24rs_v3": (24, 448, 4, "standardNCSv3Family"),
    "Standard_ND40rs_v2": (40, 672, 8, "standardNDSv2Family"),
}
"""Sizes of virtual machines: cores, GB of memory, GPUs, family."""

_OF_ALL = {"lowPriorityCapable": True, "premiumIO": True, "supportedComputeTypes": ["AmlCompute", "ComputeInstance"]}
_SIZES = "/providers/Microsoft.MachineLearningServices/locations/{location}/vmSizes"
_TYPE = "Microsoft.MachineLearningServices/workspaces"


def routes(service: Service) -> list[Route]:
    def workspace(request: Request) -> Answer:
        storage = "/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Storage/storageAccounts/%s"
        properties = {
            "friendlyName": WORKSPACE,
            "workspaceId": "99999999-8888-7777-6666-555555555555",
            "discoveryUrl": discovery_url(service),
            "mlFlowTrackingUri": "azureml://%s/mlflow/v1.0%s" % (service.url.removeprefix("https://"), scope()),
            "storageAccount": storage % (SUBSCRIPTION, GROUP, ACCOUNT),
            "provisioningState": "Succeeded",
            "publicNetworkAccess": "Enabled",
        }
        found = {"id": scope(), "name": WORKSPACE, "type": _TYPE, "location": LOCATION, "kind": "Default"}
        return Answer(200, {**found, "properties": properties, "identity": {"type": "SystemAssigned"}})

    def compute(request: Request, name: str) -> Answer:
        return Answer(200, compute_body(service, name))

    def computes(request: Request) -> Answer:
        return Answer(200, {"value": [compute_body(service, name) for name in service.options.computes]})

    def datastore(request: Request, name: str) -> Answer:
        return Answer(200, _datastore(service, name))

    def datastores(request: Request) -> Answer:
        only_default = request.query.get("isDefault", "").lower() == "true"
        names = [BLOB_STORE] if only_default else list(CONTAINERS)
        return Answer(200, {"value": [_datastore(service, name) for name in names]})

    def secrets(request: Request, name: str) -> Answer:
        """A signature where one that expires is asked for, else the account's key."""
        _datastore(service, name)
        if service.options.keyless:
            raise Refusal(400, "UserError", "The datastore %s has no secrets." % name)
        if request.json().get("expirableSecret"):
            token = service.signed(CONTAINERS[name], permissions="racwdl").partition("?")[2]
            return Answer(200, {"secretsType": "Sas", "sasToken": token})
        return Answer(200, {"secretsType": "AccountKey", "key": ACCOUNT_KEY})

    def nodes(request: Request, name: str) -> Answer:
        """Those that run a job."""
        compute_body(service, name)
        found = [
            {"nodeId": "tvmps_%d" % node, "privateIpAddress": service.node_address(node), "port": 50000 + node}
            | {"nodeState": "running", "runId": job}
            for job, numbers in service.runner.nodes_of(name).items()
            for node in numbers
        ]
        return Answer(200, {"nodes": found})

    def sizes(request: Request, location: str) -> Answer:
        names = ("vCPUs", "memoryGB", "gpus", "family")
        found = [{"name": name, **dict(zip(names, row, strict=True)), **_OF_ALL} for name, row in SIZES.items()]
        return Answer(200, {"value": found})

    make = service.workspace_route
    return [
        make("GET", "", workspace),
        make("GET", "/computes", computes),
        make("GET", "/computes/{name}", compute),
        make("POST", "/computes/{name}/listNodes", nodes),
        route("GET", "/subscriptions/%s%s" % (SUBSCRIPTION, _SIZES), sizes),
        make("GET", "/datastores", datastores),
        make("GET", "/datastores/{name}", datastore),
        make("POST", "/datastores/{name}/listSecrets", secrets),
    ]


def compute_body(service: Service, name: str) -> dict[str, Any]:
    """Raises Refusal if there is none of the name."""
    if name not in service.options.computes:
        text = "Could not find compute resource with name %s in workspace %s." % (name, WORKSPACE)
        raise Refusal(404, "ComputeNotFound", text)
    size, most = service.options.computes[name]
    busy = sum(len(nodes) for nodes in service.runner.nodes_of(name).values())
    states = dict.fromkeys(("preparingNodeCount", "leavingNodeCount", "unusableNodeCount", "preemptedNodeCount"), 0)
    details = {
        "osType": "Linux",
        "vmSize": size,
        "vmPriority": "Dedicated",
        "scaleSettings": {"minNodeCount": 0, "maxNodeCount": most, "nodeIdleTimeBeforeScaleDown": "PT120S"},
        "remoteLoginPortPublicAccess": "Disabled",
        "allocationState": "Steady",
        "currentNodeCount": busy,
        "targetNodeCount": busy,
        "nodeStateCounts": {**states, "idleNodeCount": 0, "runningNodeCount": busy},
        "enableNodePublicIp": True,
    }
    properties = {
        "computeType": "AmlCompute",
        "computeLocation": LOCATION,
        "provisioningState": "Succeeded",
        "isAttachedCompute": False,
        "properties": details,
    }
    return {
        "id": "%s/computes/%s" % (scope(), name),
        "name": name,
        "type": _TYPE + "/computes",
        "location": LOCATION,
        "properties": properties,
    }


def _datastore(service: Service, name: str) -> dict[str, Any]:
    if name not in CONTAINERS:
        raise Refusal(404, "UserError", "Could not find datastore: %s" % name)
    properties = {
        "datastoreType": "AzureBlob",
        "accountName": ACCOUNT,
        "containerName": CONTAINERS[name],
        "endpoint": service.suffix,
        "protocol": "https",
        "serviceDataAccessAuthIdentity": "None",
        "credentials": {"credentialsType": "None" if service.options.keyless else "AccountKey"},
        "isDefault": name == BLOB_STORE,
        "tags": {},
        "properties": {},
    }
    found = {"id": "%s/datastores/%s" % (scope(), name), "name": name, "type": _TYPE + "/datastores"}
    return {**found, "properties": properties}
