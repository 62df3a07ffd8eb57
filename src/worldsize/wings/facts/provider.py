"""What other wings ask of nodes' facts (`service/providers.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.plan.run_paths import RunPaths
from worldsize.state.node_facts import NodeFacts
from worldsize.wings.facts.records import read_node_files
from worldsize.wings.facts.tables import hardware_table as hardware_table
from worldsize.wings.facts.tables import software_table as software_table


def recorded_facts(paths: RunPaths) -> tuple[NodeFacts, ...]:
    """What agents have found while ranks ran, and nothing else: what two runs may be compared by. Never raises."""
    return read_node_files(paths)


def read_facts(paths: RunPaths) -> tuple[NodeFacts, ...]:
    """What the nodes of the attempt of `paths` are made of, by their number: as their agents have found it; what they
    had no time for, of a local run, as this machine is. Empty where nobody knows. Never raises."""
    found = recorded_facts(paths)
    if found and all(node.software for node in found):
        return found
    from worldsize.wings.facts.local_machine import facts_of_this_machine

    here = facts_of_this_machine(paths)
    if not found or not here:
        return found or here
    return tuple(node._replace(software=node.software or here[0].software) for node in found)


def this_machine(python: str, directory: str, environ: Mapping[str, str]) -> NodeFacts:
    """What this machine is made of now, with the packages of the Python at `python`."""
    from worldsize.wings.facts import local_machine

    return local_machine.this_machine(python, directory, environ)
