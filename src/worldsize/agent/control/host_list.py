"""The list of all nodes as the head sends it to each of them: a long one is compressed once, since every node gets it.

Names of nodes resemble one another, so that a list of 1,024 takes 3 kB in place of 22.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.plan.rank_variables import Host

_LONG = 1 << 13
"""Bytes from which on a list is compressed: loading what does it takes a node about as long as reading these."""


def host_fields(hosts: Sequence[Host]) -> dict[str, Any]:
    """Return the fields of a message that hold these hosts."""
    text = json.dumps(hosts, separators=(",", ":")).encode()
    if len(text) < _LONG:
        return {"hosts": hosts}
    try:
        from binascii import b2a_base64
        from zlib import compress
    except ImportError:  # a Python that was built without zlib
        return {"hosts": hosts}
    return {"packed": b2a_base64(compress(text), newline=False).decode()}


def hosts_of(message: Mapping[str, Any]) -> tuple[Host, ...]:
    """Return the hosts that a message holds. Raises ValueError, or what a damaged message leads to."""
    if "packed" not in message:
        return tuple(map(Host.of, message["hosts"]))
    from binascii import a2b_base64
    from zlib import decompress

    return tuple(map(Host.of, json.loads(decompress(a2b_base64(message["packed"])))))
