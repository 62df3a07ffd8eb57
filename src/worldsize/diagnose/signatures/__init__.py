"""The tables of signatures, in the order in which they are looked through: what is more exact comes first."""

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
"""By the page of `docs/causes/` on which its rows stand."""

SIGNATURES = tuple(row for table in TABLES.values() for row in table)


def signatures_for(rehearsal: bool) -> tuple[Signature, ...]:
    """The tables as they are looked through for a run."""
    return (*REHEARSAL, *SIGNATURES) if rehearsal else SIGNATURES


def documentation_of(cause: str) -> str:
    """Where the documentation tells of a cause: a page below `docs/` and its section."""
    section = cause.removesuffix("-on-one-node")
    for page, table in (*TABLES.items(), ("programs", REHEARSAL)):
        if any(row.id == section for row in table):
            return f"causes/{page}.md#{section}"
    return f"causes/ends.md#{section}"
