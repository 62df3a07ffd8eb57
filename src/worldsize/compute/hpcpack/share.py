"""The share: one directory under three names. This is the only place that knows them all. Pure, but for `mapped`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.plan.mapping import there
from worldsize.spec.hpcpackkeys import local_share


class Share(NamedTuple):
    r"""Its names.

    head   as Windows calls it (`\\HEAD\CcpSpoolDir\app`), or a path of this machine
    node   as the Linux nodes call it (`/app`)
    local  where this machine has it mounted; None where it has not
    """

    head: str
    node: str
    local: str | None = None

    def mapped(self) -> tuple[tuple[str, str], ...]:
        """As ComputeFacts say it, whichever way of links a path here takes."""
        if self.local is None:
            return ()
        ways = dict.fromkeys((self.local.rstrip("/") or "/", os.path.realpath(self.local)))
        return tuple((way, self.node) for way in ways)

    def at_node(self, path: str) -> str:
        """What the nodes call a path of this machine."""
        return there(path, self.mapped())

    def unc(self) -> str:
        """`//HEAD/CcpSpoolDir/app`, as `mount -t cifs` takes it; "" where `head` is no such name."""
        return self.head.replace("\\", "/") if self.head.startswith("\\\\") else ""


def share_of(options: Mapping[str, Any]) -> Share | None:
    """A configured compute's; None where it names none."""
    said = options.get("share", {})
    node = str(said.get("node", "")).rstrip("/") or str(said.get("node", ""))
    head = str(said.get("head", ""))
    local = local_share(said)
    if not node and local is not None:
        node = local
    return Share(head, node, local) if node else None
