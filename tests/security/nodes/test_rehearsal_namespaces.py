"""Rehearsals of ordinary users, whose nodes are apart by user namespaces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from security.people import ANNA, Machine

from worldsize.agent.posix import mounts


@pytest.mark.skipif(
    bool(mounts.find_obstacle(lambda: mounts.unshare_namespaces(mounts.NEW_USER))), reason="no user namespaces"
)
@pytest.mark.parametrize("mode", ["direct", "ro_mount", "download"])
def test_inputs_of_each_mode(machine: Machine, mode: str) -> None:
    """Found by review: where owners could no longer be told, the node's own directory was refused."""
    anna = machine.person(ANNA)
    data = machine.directory(0o755, ANNA, ANNA)
    Path(data, "words").write_text("found\n")
    anna.write("worldsize.toml", '[compute.local]\nlocal_dir = "/tmp"\n')
    anna.write(
        "job.yml",
        "command: cat ${{inputs.a}}/words; touch ${{inputs.a}}/new && echo written; true\n"
        "inputs: {a: {type: uri_folder, path: %s, mode: %s}}\nresources: {instance_count: 2}\n" % (data, mode),
    )
    told = anna("rehearse", "-q", "job.yml")
    logs = [anna.read(anna.latest(), "attempt-0", "logs", "rank-%05d.log" % rank).split() for rank in (0, 1)]
    assert [log[0] for log in logs] == ["found", "found"], told
    assert [log[-1] == "written" for log in logs] == [mode != "ro_mount"] * 2
    assert os.path.exists(os.path.join(data, "new")) == (mode == "direct")
    anna.close()
