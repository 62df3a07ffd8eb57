"""The encoding of the list of all nodes, which the head sends to each of them. A long list is compressed, once for all
nodes.

The names of nodes resemble one another, so a compressed list of 1,024 nodes takes 3 kB instead of 22 kB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.plan.rank_variables import Host

_LONG = 1 << 13
"""The number of bytes from which on a list is compressed. Loading the decompressor takes a node about the time that it
takes to read this number of bytes."""


def host_fields(hosts: Sequence[Host]) -> dict[str, Any]:
    """Return the fields of the head's message with the list of all nodes' `hosts`: `hosts` with a short list as it is,
    or `packed` with a long list as compressed JSON in base64."""
    text = json.dumps(hosts, separators=(",", ":")).encode()
    if len(text) < _LONG:
        return {"hosts": hosts}
    try:
        from binascii import b2a_base64
        from zlib import compress
    except ImportError:  # this Python was built without zlib
        return {"hosts": hosts}
    return {"packed": b2a_base64(compress(text), newline=False).decode()}


def hosts_of(message: Mapping[str, Any]) -> tuple[Host, ...]:
    """Return the hosts of all nodes from the fields of the head's message, which `host_fields` has made. Raise
    ValueError, or the exception that a damaged message leads to."""
    if "packed" not in message:
        return tuple(map(Host.of, message["hosts"]))
    from binascii import a2b_base64
    from zlib import decompress

    return tuple(map(Host.of, json.loads(decompress(a2b_base64(message["packed"])))))
