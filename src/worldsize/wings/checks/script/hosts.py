"""The internet hosts that a script connects to, found by its calls that download."""

from __future__ import annotations

from worldsize.wings.checks.script.downloads.reading import downloads_of
from worldsize.wings.checks.script.downloads.staged import is_kept_offline
from worldsize.wings.checks.script.reading.program import Program


def hosts_of(program: Program) -> list[str]:
    """Return a sorted list of "host:port" for the internet hosts that the script's downloads connect to with any of its
    options. Hosts that a variable keeps offline are omitted."""
    known = {*program.request.environ, *(str(node.value) for node in program.index.strings)}
    return sorted(
        {
            found.host
            for node, found in downloads_of(program)
            if found.host and found.sure and program.flow.is_always(node) and not is_kept_offline(found, known)
        }
    )
