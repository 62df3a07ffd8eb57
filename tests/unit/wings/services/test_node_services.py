"""Services beside the first rank: how they are started, and what is told once they listen or have ended."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from worldsize.agent.posix import processes
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.services.agent import node_services
from worldsize.wings.services.agent.node_services import Services, service_argv

SERVER = """import os, socket, sys, time
assert "WORLDSIZE_RANK" not in os.environ
port = next(int(word.split("=")[1]) for word in sys.argv if "port=" in word)
server = socket.create_server(("127.0.0.1", port))
time.sleep(600)
"""


def test_command_lines_listen_on_the_loopback_alone() -> None:
    board = service_argv("python", {"type": "tensor_board", "log_dir": "outputs/tb"}, 6006, "/run/code")
    assert board == (
        "python", "-m", "tensorboard.main", "--logdir=/run/code/outputs/tb", "--host=127.0.0.1", "--port=6006",
    )  # fmt: skip
    assert "--logdir=/run/code/outputs" in service_argv("python", {"type": "tensor_board"}, 1, "/run/code")
    lab = service_argv("python", {"type": "jupyter_lab"}, 8888, "/run/code")
    assert {"--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=8888"} <= {*lab}
    assert not any("token" in word.lower() for word in lab)


def told_by(paths: RunPaths, told: list[str], package: str, local: bool = True) -> Services:
    services = {"it": {"type": "jupyter_lab" if package == "jupyterlab" else "tensor_board"}}
    plan = Plan("r", "t", "lab", 1.5, 0, node_major_layout(1, 1), ("true",), {}, services=services)
    plan = plan._replace(python=sys.executable)
    environment = {**os.environ, "WORLDSIZE_RANK": "0", "PYTHONPATH": paths.root, "PYTHONNOUSERSITE": "1"}
    found = Services(plan, paths, environment, local, told.append)
    end = time.monotonic() + 60
    while found.deadline() is not None and time.monotonic() < end:
        for _ in processes.reap():
            pass
        found.tick(time.monotonic())
        time.sleep(0.02)
    return found


@pytest.mark.heavy
def test_it_listens_and_ends_with_the_run(tmp_path: Path) -> None:
    paths, told = RunPaths(str(tmp_path)), []
    os.makedirs(paths.logs_dir)
    (tmp_path / "jupyterlab.py").write_text(SERVER)
    others = set(processes.children())  # of tests before this one, which may not end
    found = told_by(paths, told, "jupyterlab", local=False)
    assert len(told) == 1 and told[0].startswith("JupyterLab (services.it) listens at http://127.0.0.1:")
    token = told[0].rpartition(" its token is in ")[2]
    assert "ssh -L " in told[0] and os.stat(token).st_mode & 0o777 == 0o600
    children = set(processes.children()) - others
    assert children
    found.finish()
    for pid in children:
        os.waitpid(pid, 0)


@pytest.mark.heavy
def test_one_that_is_not_installed_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = node_services.KINDS["tensor_board"]._replace(module="tensorboard_that_is_nowhere")
    monkeypatch.setitem(node_services.KINDS, "tensor_board", kind)
    paths, told = RunPaths(str(tmp_path)), []
    os.makedirs(paths.logs_dir)
    told_by(paths, told, "tensorboard")
    assert len(told) == 1 and told[0].endswith("pip install tensorboard")
