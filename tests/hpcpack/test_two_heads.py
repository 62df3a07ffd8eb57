"""Two simulated clusters beside each other: each run is asked about where it is."""

from __future__ import annotations

import os
import time
from pathlib import Path

from driver import wait_for

from hpcpack.simulator import Simulator
from hpcpack.test_commands import Client


def test_a_list_asks_each_head_about_its_own_runs(hpcpack: Simulator, tmp_path: Path) -> None:
    """Found by review: the newest run's head was asked about all, and the others' jobs were ended, and told as lost."""
    other = Simulator.start(str(tmp_path), nodes=1, no_namespaces=True)
    try:
        client = Client(hpcpack)
        second = Path(other.config).read_text().replace("compute.hpcpack", "compute.second").partition("\n\n")[2]
        client.write("worldsize.toml", client.read_project("worldsize.toml") + "\n" + second)
        script = ("--", "sh", "-c", "touch outputs/up; sleep 300")
        runs = [client.submit("--compute", name, "-w", "1x1", *script) for name in ("hpcpack", "second")]
        wait_for(lambda: all(os.path.exists(client.path(run, "outputs", "up")) for run in runs), 60)
        for run in runs:
            make_silent(client.path(run))
        with hpcpack.counting() as first_asked, other.counting() as second_asked:
            listed = {row["id"]: row["state"] for row in client.json("list")}
        assert listed == dict.fromkeys(runs, "RUNNING")
        assert first_asked and second_asked
        assert [each for each in [*first_asked, *second_asked] if "cancel" in each or not each.endswith("200")] == []
        for run in runs:
            client.ok("cancel", run, "--now")
            client("wait", run, "--timeout", "30")
    finally:
        other.stop()


def make_silent(root: str) -> None:
    """As a training that has said nothing for an hour."""
    before = time.time() - 3600
    for directory, _, files in os.walk(root):
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            os.utime(path, (before, before), follow_symlinks=False)
