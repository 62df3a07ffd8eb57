"""The summary of NCCL's INFO lines in one run, and the merged summary of all ranks of a node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple

GDR_MARK = "/GDRDMA"
"""The suffix of the name of a network path that bypasses host memory."""

NO_DEVICE = "no device"
NO_VERBS = "no verbs"
NO_PLUGIN = "no plugin"


class NcclSummary(NamedTuple):
    """The facts that the lines prove. A field is empty if no line contains it.

    version     "2.27.6"
    network     the network that NCCL chose: "IB", "Socket", "AWS Libfabric"
    devices     the adapters of that network, as NCCL names them: "mlx5_0:1/RoCE"
    used        those of them that connections use, and "?" if the lines do not name the adapter
    interfaces  the interfaces of its sockets: "eth0"
    paths       the number of connections by path: "NET/IB/GDRDMA", "NET/Socket", "P2P", "SHM", "COLLNET/SHARP"
    gdr         "enabled" or "disabled": whether an adapter can access a GPU's memory
    distance    why it did not, although it could: "distance 7 > 4"
    provider    libfabric's provider, for the networks that use it: "efa"
    variables   the variables that NCCL followed
    notes       those of NO_DEVICE, NO_VERBS, NO_PLUGIN that apply
    links       "switch" if each GPU has NVLink to a switch, "pairs" if NVLink connects GPUs directly
    nvls        whether NVSwitches reduce
    one_domain  whether NVLink connects the nodes, too
    """

    version: str = ""
    network: str = ""
    devices: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    paths: Mapping[str, int] = {}
    gdr: str = ""
    distance: str = ""
    provider: str = ""
    variables: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()
    links: str = ""
    nvls: bool = False
    one_domain: bool = False

    @property
    def is_direct(self) -> bool:
        """True if a connection through the network bypasses host memory."""
        return any(path.endswith(GDR_MARK) for path in self.paths)

    def count(self, *starts: str) -> int:
        """Return the number of NCCL's connections whose path, such as "NET/IB" or "SHM", begins with one of the
        prefixes in `starts`."""
        return sum(number for path, number in self.paths.items() if path.startswith(starts))


def summary_of(value: Any) -> NcclSummary | None:
    """Return the NcclSummary that a JSON object contains; None if the value is not an object or a field has the wrong
    type."""
    if not isinstance(value, Mapping):
        return None
    fields = {name: _field(value[name], default) for name, default in _DEFAULTS.items() if name in value}
    return NcclSummary(**fields) if all(map(_is_like, fields.values(), map(_DEFAULTS.get, fields))) else None


def merge(summaries: Iterable[NcclSummary]) -> NcclSummary:
    """Merge the NcclSummaries of several ranks into one. Counts are added and lists joined. For a text, the first one
    that is not empty counts. The network "Socket" and the gdr "disabled" replace all other values, because all ranks
    wait for the slowest one."""
    total = NcclSummary()
    for summary in summaries:
        total = NcclSummary(
            **{name: _join_values(name, getattr(total, name), getattr(summary, name)) for name in _DEFAULTS}
        )
    return total


_DEFAULTS: Mapping[str, Any] = NcclSummary()._asdict()


def _field(value: Any, default: Any) -> Any:
    return tuple(value) if isinstance(default, tuple) and isinstance(value, list) else value


def _is_like(value: Any, default: Any) -> bool:
    """Return whether a field of an NcclSummary has the type of its default value, and whether its elements have valid
    types."""
    if isinstance(default, tuple):
        return isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    if isinstance(default, Mapping):
        return isinstance(value, Mapping) and all(isinstance(part, (str, int)) for part in value.values())
    return type(value) is type(default)


def _join_values(name: str, one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(dict.fromkeys((*one, *other)))
    if name == "paths":
        return {path: one.get(path, 0) + other.get(path, 0) for path in (*one, *other)}
    if isinstance(one, Mapping):
        return {**other, **one}
    if (name, other) in (("network", "Socket"), ("gdr", "disabled")):
        return other
    return max(one, other) if isinstance(one, int) else one or other
