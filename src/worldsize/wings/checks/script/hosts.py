"""The internet hosts that a script asks, by the calls that download."""

from __future__ import annotations

from worldsize.wings.checks.script.downloads.reading import downloads_of
from worldsize.wings.checks.script.downloads.staged import is_kept_offline
from worldsize.wings.checks.script.reading.program import Program


def hosts_of(program: Program) -> list[str]:
    """ "host:port" of each host that the script asks whatever its options say; not of what a variable keeps offline."""
    known = {*program.request.environ, *(str(node.value) for node in program.index.strings)}
    return sorted(
        {
            found.host
            for node, found in downloads_of(program)
            if found.host and found.sure and program.flow.is_always(node) and not is_kept_offline(found, known)
        }
    )
