"""The nodes of a run that ended before its agents had recorded them. For a run on this machine since its last boot, the
kernel reports the same values now."""

from __future__ import annotations

import time
from collections.abc import Mapping

from worldsize.agent.machine.node_files import text_of
from worldsize.agent.posix.processes import host_name
from worldsize.common.atomic_files import read_object
from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.plan.run_paths import RunPaths
from worldsize.state.node_facts import NodeFacts, Rows

_MOST_NODES = 4096


def facts_of_this_machine(paths: RunPaths) -> tuple[NodeFacts, ...]:
    """Return the present hardware and kernel of this machine, and the packages that the run's record names, as facts of
    each node of a run on this machine. The cores and GPUs that ranks may have used are left out. Empty for a run on
    another machine, or before this machine was booted."""
    record = read_object(paths.record)
    nodes = record.get("nodes")
    count = nodes.get(host_name()) if isinstance(nodes, dict) else None
    if type(count) is not int or not 0 < count <= _MOST_NODES or not _is_since_boot(record.get("created")):
        return ()
    from worldsize.wings.facts.agent.hardware import hardware_rows, machine_of

    hardware, software = hardware_rows(with_cores=False), _software_of(record)
    host = host_name()
    return tuple(NodeFacts(node, host, hardware, software, machine=machine_of("/", host)) for node in range(count))


def this_machine(python: str, directory: str, environ: Mapping[str, str]) -> NodeFacts:
    """Return the present facts about this machine's hardware and software, with the packages of the interpreter
    `python`. The cores are those that this process may use."""
    from worldsize.agent.machine.cores import allowed_cores
    from worldsize.wings.facts.agent.hardware import hardware_rows, machine_of
    from worldsize.wings.facts.agent.software import software_rows

    host = host_name()
    software = software_rows([python], directory, environ)
    return NodeFacts(0, host, hardware_rows(), software, cores=allowed_cores(), machine=machine_of("/", host))


def _is_since_boot(created: Any) -> bool:
    seconds = parse_digits(text_of("/proc/uptime", 256).partition(".")[0])
    return seconds is not None and is_number(created) and bool(created > time.time() - seconds)


def _software_of(record: Mapping[str, Any]) -> Rows:
    """Return the rows of software facts that a run's record contains for the Python that started the run, and the
    present name of the operating system."""
    from worldsize.wings.facts.agent.software import package_rows, system_text

    told = record.get("python")
    python = told if isinstance(told, dict) else {}
    packages = python.get("packages")
    versions = {
        str(name).replace("_", "-"): version
        for name, version in (packages if isinstance(packages, dict) else {}).items()
        if isinstance(version, str)
    }
    version = python.get("version")
    rows = [("system", system_text()), *package_rows(versions), ("Python", version if isinstance(version, str) else "")]
    return tuple((name, text[:200]) for name, text in rows if text)
