"""A job's services: those that start, and what is said of the others."""

from __future__ import annotations

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import KeyOrigins
from worldsize.service.submission.make_plan import make_plan
from worldsize.wings.services.job import notices, service_plans

TEXT = """command: x
services:
  board: {type: %s, log_dir: outputs/logs, port: 6006}
  lab: {job_service_type: %s, nodes: all}
  door: {type: ssh, ssh_public_keys: k}
  code: {type: VSCode}
"""


@pytest.mark.parametrize("kinds", [("tensor_board", "jupyter_lab"), ("TensorBoard", "JupyterLab")])
def test_what_starts_in_every_spelling(kinds: tuple[str, str]) -> None:
    job = parse_job(TEXT % kinds, "job.yml").job
    expected = {
        "board": {"type": "tensor_board", "port": 6006, "log_dir": "outputs/logs"},
        "lab": {"type": "jupyter_lab"},
    }
    assert service_plans(job) == expected
    plan = make_plan(job, ComputeFacts(None, 8), "local", RunPaths("/runs/20260101-000000-000abc"), 1.5, ())
    assert plan.services == expected and Plan.from_json(plan.to_json()) == plan


def test_what_does_not_start_is_said() -> None:
    found = notices(parse_job(TEXT % ("tensor_board", "jupyter_lab"), "job.yml").job, KeyOrigins({}, {}))
    assert [each.level for each in found] == ["notice", "notice"]
    assert found[0].what == "ssh does not start here; worldsize shell RUN opens a shell on a node"
    assert found[1].what.startswith("VSCode does not start here")
