"""The head node's certificate, signed by an authority of its own, which clients must be configured to trust."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta, timezone
from functools import partial

import trustme

_NAME = "HPC Pack simulator"


def issue(days: float) -> tuple[trustme.CA, trustme.LeafCert]:
    """Create a certificate authority, and a certificate signed by it for localhost, 127.0.0.1 and this machine's name,
    if a certificate can contain that. Return both. The certificate is valid for `days`; a negative number means that it
    expired that many days ago."""
    authority = trustme.CA(organization_name=_NAME)
    end = datetime.now(timezone.utc) + timedelta(days=days)
    sign = partial(authority.issue_cert, "localhost", "127.0.0.1", organization_name=_NAME, not_after=end)
    try:
        return authority, sign(socket.gethostname())
    except UnicodeError:
        return authority, sign()
