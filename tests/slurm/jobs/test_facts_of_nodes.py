"""What the nodes of a real cluster are made of, as their agents have recorded it."""

from __future__ import annotations

from driver import wait_for
from slurm.login import PATIENCE, Login

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.facts.provider import hardware_table, recorded_facts, software_table


def test_each_node_of_a_run_is_recorded_and_told(login: Login) -> None:
    run = login.begin("while [ ! -e outputs/end ]; do sleep 0.05; done")
    paths = RunPaths(login.path(run))
    wait_for(lambda: sum(each.complete for each in recorded_facts(paths)) == 2, PATIENCE)
    nodes = recorded_facts(paths)
    assert [each.host for each in nodes] == ["node1", "node2"]
    assert nodes[0].machine == nodes[1].machine, "its nodes are one machine"
    assert dict(hardware_table(nodes))["nodes"] == "2 virtual nodes of one machine"
    assert "Python" in dict(software_table(nodes))
    open(paths.outputs + "/end", "w").close()
    assert login.ended(run)["state"] == "SUCCEEDED"
