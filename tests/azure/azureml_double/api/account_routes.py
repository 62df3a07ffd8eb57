"""What is answered without a token: the cloud's metadata, the workspace's discovery, and the login."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from azureml_double.options import WORKSPACE
from azureml_double.web import Answer, Request, Route, route

if TYPE_CHECKING:
    from azureml_double.service import Service

CLOUD = "AzureMLDouble"
CLIENT_ID, CLIENT_SECRET = "double-client", "double secret ü"


def routes(service: Service) -> list[Route]:
    def cloud(request: Request) -> Answer:
        """The published form: an object, or a list of clouds in newer versions."""
        host = service.url.removeprefix("https://")
        found = {
            "name": CLOUD,
            "portal": "https://portal.azure.azureml-double.test",
            "resourceManager": service.url,
            "authentication": {
                "loginEndpoint": service.url,
                "audiences": [service.url],
                "tenant": "common",
                "identityProvider": "AAD",
            },
            "suffixes": {"storage": service.suffix, "keyVaultDns": "vault.%s" % host},
        }
        return Answer(200, [found])

    def discovery(request: Request, workspace: str) -> Answer:
        names = ("api", "catalog", "experimentation", "gallery", "history", "hyperdrive", "modelmanagement")
        return Answer(200, dict.fromkeys(names, service.url))

    def token(request: Request, tenant: str) -> Answer:
        """For the client's secret, as the OAuth 2.0 client credentials flow has it."""
        form = dict(parse_qsl(request.body.decode("utf-8", "replace")))
        asked = tuple(form.get(name) for name in ("grant_type", "client_id", "client_secret"))
        if asked != ("client_credentials", CLIENT_ID, CLIENT_SECRET):
            body = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}
            return Answer(401, body)
        return Answer(200, {"token_type": "Bearer", "expires_in": 3599, "access_token": service.issue_token()})

    def configuration(request: Request, tenant: str) -> Answer:
        """Where a tenant's login is, as azure-identity asks before the first token."""
        place = "%s/%s" % (service.url, tenant)
        found = {
            "issuer": place + "/v2.0",
            "authorization_endpoint": place + "/oauth2/v2.0/authorize",
            "token_endpoint": place + "/oauth2/v2.0/token",
            "device_authorization_endpoint": place + "/oauth2/v2.0/devicecode",
        }
        return Answer(200, found)

    return [
        route("GET", "/metadata/endpoints", cloud),
        route("GET", "/discovery/workspaces/{workspace}", discovery),
        route("GET", "/{tenant}/v2.0/.well-known/openid-configuration", configuration),
        route("POST", "/{tenant}/oauth2/v2.0/token", token),
    ]


def discovery_url(service: Service) -> str:
    return "%s/discovery/workspaces/%s" % (service.url, WORKSPACE)
