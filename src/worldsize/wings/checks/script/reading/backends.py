"""The backend of a script's process group."""

from __future__ import annotations

from worldsize.wings.checks.script.reading.calls import argument, text
from worldsize.wings.checks.script.reading.program import Program

_BACKENDS = ("nccl", "gloo", "mpi")


def backend_of(program: Program) -> str | None:
    """Return the backend ("nccl", "gloo" or "mpi") that all calls of init_process_group in the script name; None if
    they name none, or if it is not certain."""
    found: set[str | None] = set()
    for call in program.flow.calls("init_process_group"):
        node = argument(call, "backend", 0)
        origins = None if node is None else program.flow.origins(node)
        found |= {None} if not origins else {text(origin) for origin in origins}
    backend = found.pop() if len(found) == 1 else None
    return backend if backend in _BACKENDS else None
