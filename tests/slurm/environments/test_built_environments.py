"""Environments that are built here and used on a cluster's nodes; build steps as a job on one of them."""

from __future__ import annotations

import pytest
from slurm.login import Login

pytestmark = pytest.mark.timeout(240)

JOB = """\
command: >-
  cat $VIRTUAL_ENV/made; echo $COLOUR $LD_LIBRARY_PATH;
  python -c 'import os, sys; print(sys.prefix == os.environ["VIRTUAL_ENV"], sys.executable)'
environment:
  name: mine
  python: ">=3.8"
  variables: {COLOUR: green}
  ld_library_path: [$PREFIX/lib]
  prerequisites: [bash]
  build:
  - name: where am I
    run: echo "made with $COLOUR" > $PREFIX/made
  build_on: compute
"""


def test_steps_run_as_a_job_and_ranks_find_the_result_on_every_node(login: Login) -> None:
    login.write("job.yml", JOB)
    login.ok("run", "job.yml", "-w", "2x1")
    built = login.json("env", "list")[0]
    prefix = built["prefix"]
    runs = {run["name"]: run for run in login.json("list")}
    build = runs.pop("build %s" % built["name"])
    assert (build["state"], build["ranks"]) == ("SUCCEEDED", 1)
    (run,) = runs.values()
    assert len(login.hosts(run["id"])) == 2
    lines = login.ok("logs", run["id"]).lines
    assert "×2: made with green" in lines
    assert "×2: green %s/lib" % prefix in lines
    assert "×2: True %s/bin/python" % prefix in lines
    assert "PYTHON=%s/bin/python\n" % prefix in login.read(run["id"], "submission.txt")


def test_a_step_that_fails_on_its_node_is_told_and_leaves_nothing(login: Login) -> None:
    login.write("job.yml", JOB.replace("run: echo", "run: false; echo"))
    result = login("run", "job.yml")
    assert result.code == 1
    assert "the build steps failed" in result.err and "where am I failed with code 1" in result.err
    assert login.json("env", "list") == []
    assert [run["state"] for run in login.json("list")] == ["FAILED"]
