"""The adapters of a node that could carry a run's traffic, according to the facts of the probe `fabric`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.judgement.answers import number_in

INFINIBAND = "InfiniBand"
ROCE = "RoCE"
OMNI_PATH = "Omni-Path"
EFA = "EFA"

_LAYERS = {"infiniband": INFINIBAND, "ethernet": ROCE, "omnipath": OMNI_PATH}
_EFA_NAMES = ("efa", "rdmap")
"""The prefixes of the device names of AWS's driver. Their link layer is "Unspecified"."""


class Port(NamedTuple):
    """An active port. `name` is the name that NCCL uses, "mlx5_0:1". `gbps` is 0 if the rate is not known."""

    name: str
    kind: str
    gbps: float
    netdev: str


def active_ports(facts: Mapping[str, Any]) -> list[Port]:
    """Return a list of the active Ports of a node's InfiniBand, RoCE, Omni-Path and EFA adapters, from the fact
    `fabric` of its probes. Ports whose facts are unclear are omitted."""
    fabric = facts.get("fabric")
    ports = [_port(value) for value in fabric if isinstance(value, Mapping)] if isinstance(fabric, list) else []
    return [port for port in ports if port is not None]


def _port(value: Mapping[str, Any]) -> Port | None:
    device = str(value.get("device", ""))
    layer = str(value.get("layer", "")).lower().replace("-", "")
    kind = _LAYERS.get(layer) or (EFA if device.startswith(_EFA_NAMES) else None)
    if kind is None or str(value.get("state", "")).split(":")[-1].strip().upper() != "ACTIVE":
        return None
    gbps = number_in(value, "rate_gbps") or 0.0
    return Port(f"{device}:{value.get('port', 1)}", kind, gbps, str(value.get("netdev") or ""))


def best_kind(ports: Iterable[Port]) -> str:
    """Return the best kind of fabric among a node's ports, in the order InfiniBand, EFA, Omni-Path, RoCE; "" if there
    are no ports."""
    kinds = {port.kind for port in ports}
    return next((kind for kind in (INFINIBAND, EFA, OMNI_PATH, ROCE) if kind in kinds), "")


def rate_of(ports: Iterable[Port], used: Iterable[str]) -> float:
    """Return the sum of the rates in Gb/s of the ports that are `used` ("mlx5_0:1/IB"); 0 if a rate or one of the ports
    is not known."""
    known = {port.name: port.gbps for port in ports}
    rates = [known.get(name.split("/")[0], 0.0) for name in used]
    return sum(rates) if all(rates) else 0.0
