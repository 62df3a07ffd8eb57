"""What a node of a compute has that conda packages depend on: its C library, and the CUDA that its driver can serve."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from worldsize.compute.base import Compute
from worldsize.compute.capabilities import NodeCommandStream
from worldsize.errors import WorldsizeError
from worldsize.service.compute_nodes import execute_on_own_nodes

_TICK = 0.2
_LIMIT = 60.0

_PROGRAM = """\
import ctypes, json, os, platform
found = {"host": platform.node(), "glibc": "", "cuda": ""}
try:
    found["glibc"] = (os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc ", "")
except (OSError, ValueError):
    pass
try:
    version = ctypes.c_int(0)
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
        found["cuda"] = "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
except (OSError, AttributeError):
    pass
print(json.dumps(found))
"""


class ProbeResult(NamedTuple):
    """`virtual` as conda writes virtual packages: "__cuda=12.4"."""

    node: str
    virtual: tuple[str, ...]


def probe(compute: Compute) -> ProbeResult:
    """Of one node, which the compute chooses. WorldsizeError where it does not tell; UsageError for a compute that
    cannot execute commands."""
    words = ["sh", "-c", 'command -v python3 >/dev/null && exec python3 -c "$0" || exec python -c "$0"', _PROGRAM]
    asked = execute_on_own_nodes(compute, words, 1, os.sep, _LIMIT)
    try:
        out, err = _collect_output(asked)
    finally:
        asked.close()
    for line in out.splitlines():
        if line.startswith("{"):
            said = json.loads(line)
            pairs = (("__glibc", said["glibc"]), ("__cuda", said["cuda"]))
            return ProbeResult(said["host"], tuple("{}={}".format(*pair) for pair in pairs if pair[1]))
    last = err.strip().splitlines()
    raise WorldsizeError(f"a node of {compute.name} did not tell what it has", None, last[-1] if last else None)


def _collect_output(asked: NodeCommandStream) -> tuple[str, str]:
    texts = {"out": b"", "err": b""}
    while (said := asked.read_events(_TICK)) is not None:
        for each in said:
            if each.kind in texts:
                texts[each.kind] += each.data
            elif each.kind == "note":
                texts["err"] += each.data + b"\n"
    return texts["out"].decode(errors="replace"), texts["err"].decode(errors="replace")
