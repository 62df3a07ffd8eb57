"""Facts about the computes of a workspace."""

from __future__ import annotations

from worldsize.wings.azure.workspace.client import WorkspaceClient


def most_nodes(client: WorkspaceClient, name: str) -> int | None:
    """Return the largest number of nodes to which the compute cluster `name` of the workspace grows; None if the
    workspace does not state it. Raise WorldsizeError."""
    found = client.get(f"/computes/{name}")
    for key in ("properties", "properties", "scaleSettings"):  # of the resource, of its kind, of its scaling
        found = found.get(key) if isinstance(found, dict) else None
    most = found.get("maxNodeCount") if isinstance(found, dict) else None
    return most if isinstance(most, int) and most > 0 else None
