"""A job's services: TensorBoard beside the ranks, shown where it listens, and gone with the run."""

from __future__ import annotations

import re
import urllib.request

import pytest
from driver import Cli, wait_for

JOB = """
command: until [ -e outputs/seen ]; do sleep 0.1; done; exit 3
code: .
services:
  board: {type: tensor_board, log_dir: outputs/tb}
  door: {type: ssh}
"""
ADDRESS = r"TensorBoard \(services.board\) listens at (http://127.0.0.1:[0-9]+/)"


@pytest.mark.exhaustive
def test_tensorboard_listens_and_ends_with_the_run(cli: Cli) -> None:
    pytest.importorskip("tensorboard")
    cli.write("job.yml", JOB)
    run = cli.submit("job.yml")
    assert wait_for(lambda: re.search(ADDRESS, cli.ok("status", run).out), 60)
    found = re.findall(ADDRESS, cli.ok("status", run).out)
    with urllib.request.urlopen(found[0], timeout=20) as answer:
        assert answer.status == 200
    with open(cli.path(run, "outputs", "seen"), "w"):
        pass
    assert cli("wait", run).code == 3
    with pytest.raises(OSError):
        urllib.request.urlopen(found[0], timeout=5)
