"""What a double is started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
GROUP = "double-group"
WORKSPACE = "double-workspace"
ACCOUNT = "doublestorage"
BLOB_STORE, ARTIFACT_STORE = "workspaceblobstore", "workspaceartifactstore"
CONTAINERS = {BLOB_STORE: "azureml-blobstore-double", ARTIFACT_STORE: "azureml"}


class Options(NamedTuple):
    """computes      name → [size of its virtual machines, most nodes]
    delay         seconds that each passing state takes
    grace         seconds between SIGTERM and SIGKILL of a cancelled job
    fail_fast     whether a rank that fails ends the others; users of the service report that it does not
    list_page     the most jobs that one answer lists
    keyless       storage takes logins, and signatures made for one, and datastores have no secrets: "identity-based"
    token         the one bearer token that is accepted, beside those that the login gives
    programs      environments by a part of their ids → the directory of the programs that their images have
    """

    token: str
    computes: Mapping[str, list[object]]
    delay: float = 0.02
    grace: float = 2.0
    fail_fast: bool = False
    list_page: int = 10
    programs: Mapping[str, str] = {}
    keyless: bool = False


def scope() -> str:
    """The workspace's id."""
    group = "/subscriptions/%s/resourceGroups/%s" % (SUBSCRIPTION, GROUP)
    return "%s/providers/Microsoft.MachineLearningServices/workspaces/%s" % (group, WORKSPACE)
