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
    """What the nodes of the attempt of `paths` are made of, by their number: as their agents have found it; of a local
    run that was over before, as this machine is. Empty where nobody knows. Never raises."""
    found = recorded_facts(paths)
    if found:
        return found
    from worldsize.wings.facts.local_machine import facts_of_this_machine

    return facts_of_this_machine(paths)


def this_machine(python: str, directory: str, environ: Mapping[str, str]) -> NodeFacts:
    """What this machine is made of now, with the packages of the Python at `python`."""
    from worldsize.wings.facts import local_machine

    return local_machine.this_machine(python, directory, environ)
