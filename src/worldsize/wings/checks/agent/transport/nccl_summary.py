"""What one run of NCCL said of itself in its INFO lines, and the sum of what all ranks of a node said.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple

GDR_MARK = "/GDRDMA"
"""What ends the name of a path through the network that goes without host memory."""

NO_DEVICE = "no device"
NO_VERBS = "no verbs"
NO_PLUGIN = "no plugin"


class NcclSummary(NamedTuple):
    """What the lines prove; each field is empty where no line says anything of it.

    version     "2.27.6"
    network     the network that it decided for: "IB", "Socket", "AWS Libfabric"
    devices     the adapters of that network, as it names them: "mlx5_0:1/RoCE"
    used        those of them through which connections go, and "?" where its lines do not tell which
    interfaces  the interfaces of its sockets: "eth0"
    paths       how many connections go which way: "NET/IB/GDRDMA", "NET/Socket", "P2P", "SHM", "COLLNET/SHARP"
    gdr         "enabled" or "disabled": whether an adapter can reach a GPU's memory
    distance    why it did not, although it could: "distance 7 > 4"
    provider    libfabric's, for the networks that use it: "efa"
    variables   the variables that it followed
    notes       of NO_DEVICE, NO_VERBS, NO_PLUGIN
    links       "switch" where each GPU has NVLink to a switch, "pairs" where NVLink leads from GPU to GPU
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
        """Whether connections through the network go without host memory."""
        return any(path.endswith(GDR_MARK) for path in self.paths)

    def count(self, *starts: str) -> int:
        """Return how many connections go a way whose name begins so."""
        return sum(number for path, number in self.paths.items() if path.startswith(starts))


def summary_of(value: Any) -> NcclSummary | None:
    """Return the summary that a JSON object holds; None where it is none."""
    if not isinstance(value, Mapping):
        return None
    fields = {name: _field(value[name], default) for name, default in _DEFAULTS.items() if name in value}
    return NcclSummary(**fields) if all(map(_is_like, fields.values(), map(_DEFAULTS.get, fields))) else None


def merge(summaries: Iterable[NcclSummary]) -> NcclSummary:
    """One summary of several ranks: counts are added, lists joined; of texts the first that is not empty counts, and
    Socket before all other networks, since the slowest rank is what all wait for."""
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
    """Return whether a value has the type of the default, and so have the parts of it."""
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
