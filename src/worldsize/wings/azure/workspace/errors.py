"""The service's refusals as worldsize's errors: its message, the key of the job that it concerns, and a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from worldsize.compute.http.errors import LostAnswer, Service, TurnedAway, Unanswered, message_of, one_line, pause_of
from worldsize.errors import ConfigError, SubmitRejected, WorldsizeError
from worldsize.wings.azure.workspace.settings import SIGN_IN


class SignInRefused(ConfigError):
    """The service does not accept the token."""


class PermissionRefused(SubmitRejected):
    """The account that is signed in does not have the permission."""


class MissingResource(SubmitRejected):
    """The service has no resource of this name."""


class ExistingResource(SubmitRejected):
    """The service has a resource of this name already, or its state does not permit the request."""


class ExpiredAddress(SubmitRejected):
    """A signed address has expired. The caller must request a new one."""


class Answer(NamedTuple):
    """An answer that is not a success.

    headers  by names in lower case
    now      Unix seconds at which it arrived
    """

    status: int
    content: bytes
    phrase: str
    headers: Mapping[str, str]
    now: float


_AGAIN = (408, 429, 500, 502, 503, 504)
_TURNED_AWAY = (429, 503)
_MOST_DETAILS = 3
_DEPTH = 5

_HINTS = {
    "InvalidSubscriptionId": "correct `subscription_id` of the compute",
    "SubscriptionNotFound": "correct `subscription_id` of the compute, or sign in where it is: `az login "
    "--tenant TENANT`",
    "InvalidAuthenticationTokenTenant": "sign in to the subscription's tenant: `az login --tenant TENANT`",
    "ResourceGroupNotFound": "correct `resource_group` of the compute",
    "WorkspaceNotFound": "correct `workspace_name` of the compute",
    "ComputeNotFound": "correct `compute` of the compute",
}
"""The hints, by the error's code."""

_ROLE = "ask for the role AzureML Data Scientist on the workspace, or sign in as a user who has it"
_NETWORK = "it may answer only its own network: run this there"
_CLOSED = re.compile(r"public (network )?access|private (endpoint|link)|firewall", re.IGNORECASE)

_KEYS = {
    "experimentName": "experiment_name",
    "displayName": "display_name",
    "computeId": "compute",
    "environmentId": "environment",
    "environmentVariables": "environment_variables",
    "codeId": "code",
    "instanceCount": "resources.instance_count",
    "maxInstanceCount": "resources.max_instance_count",
    "instanceType": "resources.instance_type",
    "vmSize": "resources.instance_type",
    "shmSize": "resources.shm_size",
    "dockerArgs": "resources.docker_args",
    "dockerArgsList": "resources.docker_args",
    "locations": "resources.locations",
    "processCountPerInstance": "distribution.process_count_per_instance",
    "parameterServerCount": "distribution.parameter_server_count",
    "workerCount": "distribution.worker_count",
    "distributionType": "distribution.type",
    "jobTier": "queue_settings.job_tier",
    "priority": "queue_settings.priority",
    "timeout": "limits.timeout",
    "identityType": "identity.type",
    "jobServiceType": "services",
    "jobInputType": "inputs",
    "jobOutputType": "outputs",
    "parentJobName": "parent_job_name",
}
"""The keys of a job, by the properties of the request body."""

_TARGET = re.compile(rf"\b({'|'.join(_KEYS)})\b", re.IGNORECASE)
_WORD = re.compile(rf"\b({'|'.join(name for name in _KEYS if not name.islower())})\b")
"""Pattern of the properties in a message that cannot be ordinary English words."""

_LOWERED = {name.lower(): key for name, key in _KEYS.items()}
_SIGNATURE = re.compile(
    r"\?[^\s\"'<>]*\bsig=[^\s\"'<>]*|\bsig=[^\s\"'<>&]*|\beyJ[\w-]+\.[\w.-]+|(?i:bearer)\s+[\w.~+/=-]+"
)


def without_signatures(text: str) -> str:
    """Return a text of the service without the signatures of addresses, and without tokens."""
    return _SIGNATURE.sub("…", text)


def response_error(answer: Answer, method: str, path: str, service: Service, signed: bool = False) -> WorldsizeError:
    """Return the error for the service's `answer` to the request `method` `path`, an answer that is not a success.
    `signed` means a request for a signed address.

    The error is SignInRefused, PermissionRefused (ExpiredAddress for an expired signature), MissingResource or
    ExistingResource. It is ConfigError for a redirection, TurnedAway if the service is busy, LostAnswer if it may have
    carried out the request all the same, and SubmitRejected for everything else.
    """
    status, request = answer.status, f"{method} {path}"
    code, message, targets, said = _read_refusal(answer)
    hint = _HINTS.get(code)
    if status == 401:
        who = f"{service.name} refuses the sign-in: {message}"
        return SignInRefused(who, service.url, hint or SIGN_IN)
    if status == 403 and signed and code == "AuthenticationFailed":
        return ExpiredAddress(f"the signed address has expired: {message}", service.url, "ask for a new one")
    if status == 403:
        return PermissionRefused(message, request, hint or (_NETWORK if signed or _CLOSED.search(said) else _ROLE))
    if status in _AGAIN:
        kind: type[Unanswered] = TurnedAway if method == "GET" or status in _TURNED_AWAY else LostAnswer
        error = kind(f"{service.name} cannot answer now: {message} ({status})", service.url, "try again")
        error.pause = pause_of(answer.headers.get("retry-after", ""), answer.now)
        return error
    if 300 <= status < 400:
        return ConfigError(f"it redirects to another address ({status}): {message}", service.url, service.mend)
    if status == 404:
        return MissingResource(message, request, hint or _workspace_hint(code, said))
    found = _TARGET.search(targets) or _WORD.search(said)
    where = _LOWERED[found[1].lower()] if found and method == "PUT" and path.startswith("/jobs/") else request
    return (ExistingResource if status == 409 else SubmitRejected)(message, where, hint)


def _read_refusal(answer: Answer) -> tuple[str, str, str, str]:
    """Return, from the service's answer to a refused request, (the error code, the message in one sentence, the targets
    that the error names, all messages)."""
    try:
        error = _error_of(json.loads(answer.content), _DEPTH)
    except (ValueError, RecursionError):
        error = {}
    code = _text(error, "code") or answer.headers.get("x-ms-error-code", "")
    details = list(_details(error, _DEPTH))
    words = [_text(each, "message") for each in details]
    chosen = list(dict.fromkeys(word for word in words if word))[:_MOST_DETAILS] or [_text(error, "message")]
    message = "; ".join(word for word in chosen if word) or message_of(answer.content, answer.phrase)
    message = one_line(without_signatures(message)) or code or f"refused with status {answer.status}"
    targets = " ".join(_text(each, "target") for each in (*details, error))
    return code, message, targets, " ".join((*words, _text(error, "message"), message))


def _error_of(value: Any, depth: int) -> Mapping[str, Any]:
    """Return the error object in `value`, the JSON body of a refused request; {} if there is none. If its message
    contains another error object as JSON text, that one's values replace its own, down to `depth` levels."""
    error = value.get("error", value) if isinstance(value, dict) else {}
    if not isinstance(error, dict):
        return {}
    inner = _text(error, "message").lstrip()
    if depth and inner.startswith("{"):
        try:
            return {**error, **_error_of(json.loads(inner), depth - 1)}
        except (ValueError, RecursionError):
            pass
    return error


def _details(error: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield the innermost error objects in the `details` of the service's error object `error`, down to `depth`
    levels."""
    found = error.get("details")
    for each in found if isinstance(found, list) and depth else ():
        if isinstance(each, dict):
            inner = list(_details(each, depth - 1))
            yield from inner or [each]


def _text(error: Mapping[str, Any], name: str) -> str:
    value = error.get(name)
    return value if isinstance(value, str) else ""


def _workspace_hint(code: str, said: str) -> str | None:
    """Return the hint to correct `workspace_name` if the service's error shows that the workspace itself is missing;
    None otherwise. The resource manager names a missing workspace with its type."""
    missing = code == "ResourceNotFound" and re.search(r"/workspaces/[^/'\s]+'", said)
    return _HINTS["WorkspaceNotFound"] if missing else None
