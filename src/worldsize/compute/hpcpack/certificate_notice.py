"""What is said of a head node whose certificate nobody looks at: once in the life of this process, by whoever is first.

Preflight says it with what else it finds; every other command that asks the head, on standard error.
"""

from __future__ import annotations

import sys

from worldsize.common.atomic_files import display
from worldsize.compute.hpcpack.settings import Access

KEY = "verify"
INSTEAD = "name its authority's certificate instead: ca_file"
_told: set[str] = set()


def what_is_wrong(access: Access) -> str | None:
    """None for a head that is verified. It counts as told from now on."""
    if access.verify:
        return None
    _told.add(access.url)
    what = "the head's certificate is not verified (verify = false): whoever answers as %s gets the password"
    return what % display(access.url)


def tell_unverified(access: Access) -> None:
    """Before a password is asked for or sent."""
    if access.verify or access.url in _told:
        return
    sys.stderr.write("notice: %s: %s (%s)\n" % (KEY, what_is_wrong(access), INSTEAD))
    sys.stderr.flush()
