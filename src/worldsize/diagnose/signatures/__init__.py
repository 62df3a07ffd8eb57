"""The tables of signatures, in the order in which they are searched: more exact ones come first."""

from __future__ import annotations

from worldsize.diagnose.signatures.communication import COMMUNICATION
from worldsize.diagnose.signatures.gpus import GPUS
from worldsize.diagnose.signatures.launch import LAUNCH
from worldsize.diagnose.signatures.machine import MACHINE
from worldsize.diagnose.signatures.programs import PROGRAMS
from worldsize.diagnose.signatures.rehearsal import REHEARSAL
from worldsize.diagnose.signatures.signature import Signature

TABLES = {
    "gpus": GPUS,
    "communication": COMMUNICATION,
    "launch": LAUNCH,
    "machine": MACHINE,
    "programs": PROGRAMS,
}
"""Tables by the folder of `docs/causes/` whose pages describe their rows."""

SIGNATURES = tuple(row for table in TABLES.values() for row in table)


def signatures_for(rehearsal: bool) -> tuple[Signature, ...]:
    """Return the signatures in the order in which they are searched for a match with a run's log lines. If the run is a
    rehearsal, those of rehearsals come first; otherwise they are left out."""
    return (*REHEARSAL, *SIGNATURES) if rehearsal else SIGNATURES


def documentation_of(cause: str) -> str:
    """Return the place in the documentation that describes the cause with the id `cause`: a page below `docs/`,
    "causes/gpus/ID.md"."""
    name = cause.removesuffix("-on-one-node")
    for folder, table in (*TABLES.items(), ("programs", REHEARSAL)):
        if any(row.id == name for row in table):
            return f"causes/{folder}/{name}.md"
    return f"causes/ends/{name}.md"
