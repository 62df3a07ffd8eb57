"""What a workspace says of its computes."""

from __future__ import annotations

from worldsize.wings.azure.workspace.client import WorkspaceClient


def most_nodes(client: WorkspaceClient, name: str) -> int | None:
    """Return the most nodes that the cluster `name` grows to; None where it does not say. WorldsizeError."""
    found = client.get(f"/computes/{name}")
    for key in ("properties", "properties", "scaleSettings"):  # the resource's, those of its kind, how it scales
        found = found.get(key) if isinstance(found, dict) else None
    most = found.get("maxNodeCount") if isinstance(found, dict) else None
    return most if isinstance(most, int) and most > 0 else None
