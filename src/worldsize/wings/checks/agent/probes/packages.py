"""Probe for the versions of the job's Python and of the relevant packages. It reads only their files and starts no
Python.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.agent.launchers.package_versions import installed_versions
from worldsize.agent.launchers.python_files import find_python, read_python
from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_text
from worldsize.wings.checks.agent.readers.rank_directory import rank_directory


def probe(context: NodeContext) -> ProbeResult:
    """Return the facts about the Python that ranks execute: python (only with all three numbers of the version),
    python_minor, and packages (the versions of relevant packages). A fact that the files do not contain is omitted."""
    program = asked_text(context.asked, "python")
    try:
        path = find_python(program, context.environ, rank_directory(context)) if program else None
    except OSError:  # the probe `imports` reports that there is no such program
        path = None
    if path is None:
        return ProbeResult()
    python = read_python(path)
    facts: dict[str, Any] = {"python": python.version, "python_minor": python.minor}
    if python.minor:
        facts["packages"] = installed_versions(python, context.environ)
    return ProbeResult((), {name: value for name, value in facts.items() if value})
