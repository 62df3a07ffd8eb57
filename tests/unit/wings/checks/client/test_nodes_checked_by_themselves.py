"""Which submissions have their nodes checked, and which pay nothing; what is said of a script before it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checked_jobs import cluster, plan_for, request_for

from worldsize.compute.base import ComputeFacts
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Job, Resources
from worldsize.plan.plan import BatchPlan, Plan, Rehearsal
from worldsize.service import providers
from worldsize.service.submission.checks import script_notices, with_check
from worldsize.wings.checks import script_rows
from worldsize.wings.checks.script.findings import ScriptFinding

HERE, ON_NODES = ComputeFacts(shared_host=True), ComputeFacts()


def job(nodes: int, ranks: int = 1) -> Job:
    return Job(command="python train.py", distribution=PyTorchDistribution(ranks), resources=Resources(nodes))


def checked(plan: Plan, asked: Job, facts: ComputeFacts, tmp_path: Path, said: Any = None, wanted: bool = True) -> Any:
    request = request_for(asked, cluster(tmp_path, check=wanted), tmp_path, check=said)
    return with_check(plan, request, asked, facts).options.get("check")


@pytest.mark.parametrize(
    ("nodes", "facts", "cheap"),
    [
        (1, HERE, False),
        (2, HERE, False),
        (1, HERE._replace(gpus_per_node=1), True),
        (1, HERE._replace(gpus_per_node=0), False),
        (2, HERE._replace(gpus_per_node=1), False),
        (1, ON_NODES, False),
        (2, ON_NODES, True),
        (1, ON_NODES._replace(gpus_per_node=8), True),
    ],
)
def test_nodes_with_gpus_and_several_real_ones(nodes: int, facts: ComputeFacts, cheap: bool, tmp_path: Path) -> None:
    asked = job(nodes)
    found = checked(plan_for(asked, facts), asked, facts, tmp_path)
    assert (found is not None) is cheap
    if cheap:
        assert (found["mode"], found["only"]) == ("cheap", [])
        assert found["asked"]["ranks"] == 1 and found["asked"]["framework"] == "pytorch"


def test_what_is_left_out(tmp_path: Path) -> None:
    asked = job(2)
    plan = plan_for(asked)
    assert checked(plan, asked, ON_NODES, tmp_path, wanted=False) is None, "the compute's settings"
    assert checked(plan, asked, ON_NODES, tmp_path, {}) is None, "--no-check"
    assert checked(plan._replace(batch=BatchPlan()), asked, ON_NODES, tmp_path) is None
    assert checked(plan._replace(rehearsal=Rehearsal(2)), asked, ON_NODES, tmp_path) is None


def test_what_is_asked_for_wins(tmp_path: Path) -> None:
    said = {"mode": "full", "only": ["gpu.count"], "skip": [], "asked": {"gpus": 3}}
    asked = job(1)
    assert checked(plan_for(asked, HERE), asked, HERE, tmp_path, said, wanted=False) == said


def test_options_of_a_launcher_stay(tmp_path: Path) -> None:
    asked = job(2)
    plan = plan_for(asked)._replace(options={"max_restarts": 2})
    found = with_check(plan, request_for(asked, cluster(tmp_path), tmp_path), asked, ON_NODES)
    assert found.options["max_restarts"] == 2 and Plan.from_json(found.to_json()).options == found.options


def test_a_run_here_without_gpus_loads_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(providers, "find_provider", lambda kind: pytest.fail("the wing is loaded"))
    for asked in (job(2), job(1, 4)):
        checked(plan_for(asked, HERE), asked, HERE, tmp_path)
    one, command = job(1), Job(command="echo", distribution=PyTorchDistribution(2))
    for each in (one, command):
        script_notices(request_for(each, cluster(tmp_path), tmp_path), each, plan_for(each, HERE), HERE)


def test_without_the_wing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(providers.PROVIDERS, "checks", providers.Provider("wings.nowhere", "checking"))
    asked = job(2)
    assert checked(plan_for(asked), asked, ON_NODES, tmp_path) is None
    assert script_notices(request_for(asked, cluster(tmp_path), tmp_path), asked, plan_for(asked), ON_NODES) == []


def test_of_a_script_without_frameworks_none_of_the_readers_modules_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os")
    says = "import sys; from worldsize.service.submission import checks as it; from types import SimpleNamespace as N; "
    asked = "N(check=None, config=N(computes={'lab': N(check=None)})), N(code='.', command='python train.py')"
    plan = "N(world_size=2, batch=None, compute='lab', argv=('python', 'train.py'))"
    loaded = "'ast' in sys.modules, 'worldsize.wings' in sys.modules"
    asks = "print(it.script_notices(%s, %s, None), %s)" % (asked, plan, loaded)
    words = [sys.executable, "-c", says + asks]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == "[] False False\n"


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the script's reader finds, and behind it what it was asked."""
    found: list[Any] = []
    monkeypatch.setattr(script_rows, "script_findings", lambda request: [*found, found.append(request)][:-1])
    return found


TORCHRUN = """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(0)
"""


@pytest.mark.parametrize(("processes", "levels"), [(8, ["error"]), (4, [])])
def test_a_torchrun_line_with_more_processes_than_gpus_is_refused(
    processes: int, levels: list[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TORCHRUN)
    command = f"torchrun --nproc_per_node={processes} train.py"
    asked = job(1)._replace(code=str(tmp_path), command=command)
    plan = plan_for(asked)._replace(gpus=4)
    notices = script_notices(request_for(asked, cluster(tmp_path), tmp_path), asked, plan, ON_NODES)
    assert [notice.level for notice in notices] == levels, notices
    if levels:
        assert (notices[0].what, notices[0].hint) == ("8 processes on each node for 4 GPUs", "use --nproc_per_node=4")


@pytest.mark.parametrize("verdict", ["bad", "warning", "unknown", "ok"])
def test_findings_of_the_script_are_notices(findings: list[Any], verdict: str, tmp_path: Path) -> None:
    findings.append(ScriptFinding("script.x", "train.py", 7, "2 trainings", verdict, "-"))
    asked = job(2, 4)._replace(code=str(tmp_path), environment_variables={"A": "1"})
    request = request_for(asked, cluster(tmp_path), tmp_path)
    notices = script_notices(request, asked, plan_for(asked), ON_NODES)
    said = [(notice.level, notice.what, notice.where, notice.hint) for notice in notices]
    assert said == ([("notice", "2 trainings", "train.py:7", "-")] if verdict in ("bad", "warning") else [])
    wanted = findings[-1]
    assert (wanted.code_dir, wanted.world_size, wanted.ranks_per_node) == (str(tmp_path), 8, 4)
    assert (wanted.distribution, wanted.environ, wanted.virtual) == ("pytorch", ("A",), False)
    assert script_notices(request._replace(check={}), asked, plan_for(asked), ON_NODES) == []
