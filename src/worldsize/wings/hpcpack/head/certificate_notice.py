"""The notice that a head node's certificate is not verified, which is given once in the life of this process.

Preflight gives it with its other results. Every other command that contacts the head prints it to standard error.
"""

from __future__ import annotations

import sys

from worldsize.common.atomic_files import printable_text
from worldsize.wings.hpcpack.settings import HeadAccess

KEY = "verify"
CERTIFICATE_HINT = "name its authority's certificate instead: ca_file"
_reported_urls: set[str] = set()


def take_certificate_notice(access: HeadAccess) -> str | None:
    """Return the text of the notice that the head node's certificate is not verified, and record that it has been
    given; None if the certificate is verified."""
    if access.verify:
        return None
    _reported_urls.add(access.url)
    who = printable_text(access.url)
    return (
        f"the head's certificate is not verified (verify = false): any server that answers as {who} gets the password"
    )


def print_certificate_notice(access: HeadAccess) -> None:
    """Print the notice that the head node's certificate is not verified to standard error, unless this process has
    given it for this head. Call this before a password is requested or sent."""
    if access.url not in _reported_urls:
        what = take_certificate_notice(access)
        if what is not None:
            sys.stderr.write(f"notice: {KEY}: {what} ({CERTIFICATE_HINT})\n")
            sys.stderr.flush()
