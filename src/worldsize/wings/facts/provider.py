"""The interface to nodes' facts for other wings (`service/providers.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.plan.run_paths import RunPaths
from worldsize.state.node_facts import NodeFacts
from worldsize.wings.facts.records import read_node_files
from worldsize.wings.facts.tables import hardware_table as hardware_table
from worldsize.wings.facts.tables import software_table as software_table


def recorded_facts(paths: RunPaths) -> tuple[NodeFacts, ...]:
    """Return the hardware and software facts that the agents of the attempt of `paths` recorded while ranks ran, and no
    others. Two runs can be compared by them. Raise nothing."""
    return read_node_files(paths)


def read_facts(paths: RunPaths) -> tuple[NodeFacts, ...]:
    """Return the hardware and software facts about the nodes of the attempt of `paths`, sorted by node number, as their
    agents recorded them. For a local run, facts that agents had no time to record are those of this machine. Empty if
    nothing is known. Raise nothing."""
    found = recorded_facts(paths)
    if found and all(node.software for node in found):
        return found
    from worldsize.wings.facts.local_machine import facts_of_this_machine

    here = facts_of_this_machine(paths)
    if not found or not here:
        return found or here
    return tuple(node._replace(software=node.software or here[0].software) for node in found)


def this_machine(python: str, directory: str, environ: Mapping[str, str]) -> NodeFacts:
    """Return the present facts about this machine's hardware and software, with the packages of the interpreter
    `python`."""
    from worldsize.wings.facts import local_machine

    return local_machine.this_machine(python, directory, environ)
