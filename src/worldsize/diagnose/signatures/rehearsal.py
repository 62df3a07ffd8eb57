"""Messages of errors that only a rehearsal causes, which replaces a cluster. They are searched first, and only in
rehearsals."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Signature

REHEARSAL = (
    Signature(
        "rehearsed-disk",
        r"FileNotFoundError: .*'(?P<detail>/(?:var/)?tmp/[^']*)'",
        "a file does not exist on this node's own disk",
        "each node of a rehearsal has a /tmp of its own, as the nodes of a cluster have: what several nodes read "
        "belongs in ./outputs or on the shared file system, and what each node needs, one rank of each node makes",
        "worldsize: rehearsals",
    ),
    Signature(
        "rehearsed-offline",
        r"Temporary failure in name resolution|Network is unreachable|LocalEntryNotFoundError|OfflineModeIsEnabled",
        "it tried to reach the internet, which the nodes of this compute cannot reach",
        "the nodes reach no network (offline: true): fetch it before the start, with `stage:` or as an input",
        "worldsize: rehearsals",
    ),
)
