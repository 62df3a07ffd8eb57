"""Parser for NCCL's INFO lines: `NCCL_DEBUG=INFO`, subsystems INIT, NET, ENV and GRAPH, of releases 2.18 to 2.31.

NCCL does not guarantee these texts. Unknown lines are skipped, so that with a new release this module reports less, but
nothing wrong. The texts were read in the sources of 2.18.1 to 2.30.7 and in public threads (the tests name them), not
measured.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.transport.nccl_summary import (
    GDR_MARK,
    NO_DEVICE,
    NO_PLUGIN,
    NO_VERBS,
    NcclSummary,
)

LINE_LIMIT = 4000
"""The number of characters of a line that are parsed. The longest relevant line names 32 adapters."""

_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_BEGIN = re.compile(r"NCCL (?:INFO|WARN) ")
_NEXT_PREFIX = re.compile(
    r"(?:\[[0-9-]{10} [0-9:.]{8,15}\] )?\S{1,300}:[0-9]{1,10}:[0-9]{1,10} \[-?[0-9]{1,4}\] (?:\S{1,80}:[0-9]{1,6} )?$"
)
"""The host, process and thread of the next message, after a date if NCCL_DEBUG_TIMESTAMP_LEVELS requests one."""
_ADAPTER = re.compile(r"\[([0-9]{1,3})\](=\{[^}]{0,400}\}|[^\s{]\S{0,80})")
_PORT = re.compile(r"([\w.-]{1,64}:[0-9]{1,3})(?::[0-9]{0,6}){0,2}/(IB|RoCE)\b")
_NUMBER = re.compile(r"[^/]{1,40}/([0-9]{1,4})")
_MAX_VALUES = 100

_Match = Any


def complete_lines(text: str) -> list[str]:
    """Return the complete lines of a log text that may be cut off anywhere; an unfinished last line is left out. Half a
    line may prove something else than the whole line: `…/GDR` is not `…/GDRDMA`."""
    return text.split("\n")[:-1]


def parse_nccl_log(lines: Iterable[str]) -> NcclSummary:
    """Return an NcclSummary of what these lines of NCCL's log prove. The lines may be those of one process, or of
    several whose lines are mixed."""
    state: dict[str, Any] = {"paths": {}, "variables": {}, "adapters": {}}
    for line in lines:
        for message in _messages(line[:LINE_LIMIT]):
            _read(message, state)
    del state["adapters"]
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in state.items()}
    return NcclSummary(**values)


def _messages(line: str) -> Iterator[str]:
    """Yield the NCCL messages in one line of a log, without their prefixes. There are several if two processes wrote at
    the same time, and none if the line is not from NCCL."""
    if "NCCL" not in line:
        return
    if line.startswith("NCCL version "):  # the only line without a host
        yield line.strip()
        return
    pieces = _BEGIN.split(_COLOURS.sub("", line))[1:]
    for number, piece in enumerate(pieces, 1):
        yield (_NEXT_PREFIX.sub("", piece) if number < len(pieces) else piece).strip()


def _read(message: str, state: dict[str, Any]) -> None:
    word = message.split(" ", 1)[0]
    key = next((start for start in ("NCCL_", "NET/") if word.startswith(start)), word)
    for pattern, take in _LINES.get(key, ()):
        match = pattern.match(message)
        if match:
            take(state, match)
            return


def _text(name: str) -> Any:
    def take(state: dict[str, Any], match: _Match) -> None:
        state[name] = match[1]

    return take


def _network(state: dict[str, Any], match: _Match) -> None:
    """Record in `state` the network that NCCL uses, from the message "Using network …". "Socket" is never replaced by
    another one, as in `merge`."""
    if state.get("network") != "Socket":
        state["network"] = match[1]


def _devices(state: dict[str, Any], match: _Match) -> None:
    """Record in `state` the adapters that NCCL's message names as `[0]mlx5_0:1/IB`, or, for a bonded one, as `[0]={[0]
    mlx5_0:1/IB, [1] mlx5_1:1/IB}`. From NCCL 2.30 on a port may be followed by its rail and its plane:
    `mlx5_0:1:0:2/IB`."""
    for number, words in _ADAPTER.findall(match[1]):
        ports = [f"{port}/{kind}" for port, kind in _PORT.findall(words)]
        state["adapters"][number] = ports
        _add(state, "devices", ports)


def _interfaces(state: dict[str, Any], match: _Match) -> None:
    _add(state, "interfaces", re.findall(r"\[[0-9]{1,3}\]([\w.@-]{1,32}):", match[1]))


def _gdr(state: dict[str, Any], match: _Match) -> None:
    """Record in `state` whether GPUDirect RDMA is enabled, from NCCL's message about one adapter. One adapter that
    supports it is enough for "enabled"; otherwise it is "disabled"."""
    if state.get("gdr") != "enabled":
        state["gdr"] = match[1].lower()


def _path(state: dict[str, Any], match: _Match) -> None:
    """Record in `state` the path of a connection, and its adapter, from NCCL's message about a channel.
    `NET/IB/0/GDRDMA(PCI)/Shared` is the path `NET/IB/GDRDMA` through the adapter 0, and `P2P/CUMEM/read` is the path
    `P2P`."""
    kind, _, rest = match[1].partition("/")
    number = _NUMBER.match(rest) if kind == "NET" and state["adapters"] else None
    if number:
        _add(state, "used", state["adapters"].get(number[1], ["?"]))
    name = kind
    if kind in ("NET", "COLLNET"):
        mark = GDR_MARK if "GDRDMA" in rest else ""
        name = f"{kind}/{rest.split('/', 1)[0]}{mark}"
    if name in state["paths"] or len(state["paths"]) < _MAX_VALUES:
        state["paths"][name] = state["paths"].get(name, 0) + 1


def _variable(state: dict[str, Any], match: _Match) -> None:
    value = match[3]
    if match[2].startswith("set by"):
        value = value[:-1] if value.endswith(".") else value
    if len(state["variables"]) < _MAX_VALUES:
        state["variables"].setdefault(match[1], value[:200])


def _note(note: str) -> Any:
    return lambda state, match: _add(state, "notes", [note])


def _nvls(state: dict[str, Any], match: _Match) -> None:
    state["nvls"] = True


def _link(state: dict[str, Any], match: _Match) -> None:
    if state.get("links") != "switch":
        state["links"] = "switch" if match[1] == "NVS" else "pairs"


def _domain(state: dict[str, Any], match: _Match) -> None:
    state["one_domain"] = True


def _add(state: dict[str, Any], name: str, values: Iterable[str]) -> None:
    known = state.setdefault(name, [])
    known.extend(value for value in dict.fromkeys(values) if value not in known and len(known) < _MAX_VALUES)


_TEXTS: tuple[tuple[str, str, Any], ...] = (
    ("NCCL", r"NCCL version ([0-9][0-9.]{0,15})", _text("version")),
    ("Using", r"Using network (\S[^\r\n]{0,60})", _network),
    ("NET/", r"NET/IB ?: Using (\[.*)", _devices),
    ("NET/", r"NET/IB ?: No device found", _note(NO_DEVICE)),
    ("NET/", r"NET/.{1,60}? ?: GPU Direct RDMA (Enabled|Disabled) for HCA", _gdr),
    ("NET/", r"NET/Socket ?: Using (\[.*)", _interfaces),
    ("Count", r"Count not open libibverbs\.so\.1\b", _note(NO_VERBS)),
    ("Failed", r"Failed to open libibverbs\.so", _note(NO_VERBS)),
    ("NET/", r"NET/Plugin ?: (?:Could not find|No plugin found|dlerror=)", _note(NO_PLUGIN)),
    ("NET/", r"NET/OFI Selected [Pp]rovider is ([A-Za-z0-9_;-]{1,40})", _text("provider")),
    ("GPU", r"GPU Direct RDMA Disabled for .{1,120}?(distance [0-9]+ > [0-9]+)", _text("distance")),
    ("Channel", r"Channel [0-9]+(?:/[0-9]+)? ?: .{1,200}? via (\S[^\r\n]{0,80})", _path),
    ("CollNet", r"CollNet [0-9]+(?:/[0-9]+)? ?: .{1,200}? via (\S[^\r\n]{0,80})", _path),
    ("NVLS", r"NVLS multicast support is available on dev [0-9]+\b(?!, transport disabled)", _nvls),
    ("+", r"\+ NVL\[[0-9.]{1,12}\] - (NVS|GPU)\b", _link),
    ("comm", r"comm \S{1,40} rank .{1,60}? nNodes [0-9]{1,6} .{1,60}? MNNVL [1-9]", _domain),
    ("NCCL_", r"(NCCL_[A-Z0-9_]{1,60}) (set(?: by environment)?) to ([^\r\n]{0,300})", _variable),
)
"""The known messages: the first word or its prefix, the form, and the function that records what the message proves."""

_LINES = {key: [(re.compile(form), take) for word, form, take in _TEXTS if word == key] for key, _, _ in _TEXTS}
