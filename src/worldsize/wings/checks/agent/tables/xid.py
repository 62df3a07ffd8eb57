"""A table of the actions that Xids require. An Xid is an error that NVIDIA's driver writes into the kernel's log.

The table is read from documents, not measured. It merges AWS' table of Xids for its clusters, which follows NVIDIA's
Xid document (r590), the catalogue of leptonai/gpud, and the list for which Azure/azurehpc-health-checks fails a node.
Where they disagree, the table contains the milder action: for 63 and 92, Azure fails the node, and the others only
record them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

RECENT_SECONDS = 7200.0
"""The age in seconds up to which an Xid counts against a node: two hours, as in Azure's health checks."""

_RESET = "a reset of the GPU"
_REBOOT = "a reboot of the node"
_LINK = "a reset of all GPUs: an NVLink fails"
_REPAIR = "a repair"

FALLEN_OFF = 79
"""The Xid of a GPU that has fallen off the bus. Its address no longer belongs to one of the GPUs that the driver
shows."""

ACTIONS = {
    **dict.fromkeys((48, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, 64, 95), _RESET),
    **dict.fromkeys((FALLEN_OFF, 151, 168), _REBOOT),
    **dict.fromkeys((74, *range(144, 151)), _LINK),
    **dict.fromkeys((54, 81, 125, 157), _REPAIR),
    154: "the driver's recovery action",
}
"""The action that a node needs before a new job should start on it, for the Xids that require one. Other Xids come from
programs that made a mistake, or are only notes."""
