"""`convert --check`: what is wrong with a conversion is found by its first steps, and the project stays as it is."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from worldsize.wings.convert.check.records import ERROR, STEPS, TIMEOUT, Place
from worldsize.wings.convert.check.trials import Training, Trials, run_trials
from worldsize.wings.convert.check.verdict import judge
from worldsize.wings.convert.helpers import helpers_for

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
import ddp
%s
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("end")
"""
SHARED = ("in loader:", "in ddp.share(loader):")
AVERAGED = (
    "torch.optim.SGD(model.parameters(), lr=0.1)",
    "ddp.average_gradients(torch.optim.SGD(model.parameters(), lr=0.1))",
)
BACKWARD = 13


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that has torch is the first one on PATH."""
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])


pytestmark = pytest.mark.timeout(300)


class Project:
    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "project"
        self.path.mkdir()
        self._directory = tmp_path / "trial"
        self._directory.mkdir()

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def trials(self, *changes: tuple[str, str], text: str = SCRIPT % "", seconds: float = 240.0) -> Trials:
        """The trials of train.py with `text`, and changed so in its converted version. With time enough on a machine
        that does much else."""
        helpers = helpers_for("", {})
        self.write("train.py", text)
        self.write("ddp.py", helpers.text)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        training = Training(str(self.path), "train.py", ["--epochs", "3"], {"train.py": text}, "ddp.py")
        return run_trials(training, str(self._directory), lambda said: None, seconds)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    yield Project(tmp_path)


def test_what_is_right(project: Project) -> None:
    trials = project.trials(SHARED, AVERAGED)
    verdict = judge(trials)
    assert verdict.findings == () and verdict.obstacle is None, trials
    assert verdict.summary.startswith("losses, gradients and weights of 4 steps on 2 ranks equal those of one process")
    assert verdict.summary.endswith("each rank worked on 16 of 32 samples")
    assert sorted(os.listdir(project.path)) == ["ddp.py", "train.py"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((AVERAGED,), "each rank works on all samples, 32 in 4 steps: nothing is divided"),
        ((SHARED,), "the ranks' weights differ after step 1"),
        ((SHARED, AVERAGED, ("lr=0.1))", "lr=0.1), is_sum=True)")), "gradients of step 1"),
        ((SHARED, AVERAGED, ("loss.backward()", "(2 * loss).backward()")), "on 1 rank its gradients differ"),
        ((SHARED, AVERAGED, ("zero_grad()\n    loss", "zero_grad()\n    if ddp.RANK == 0: loss")), "it does not"),
    ],
)
def test_what_is_wrong(project: Project, changes: tuple[tuple[str, str], ...], said: str) -> None:
    verdict = judge(project.trials(*changes))
    assert said in verdict.findings[0].text and verdict.findings[0].is_error and not verdict.summary, verdict
    assert verdict.findings[0].place == Place("train.py", BACKWARD)


@pytest.mark.exhaustive
def test_a_conversion_that_fails_is_told_with_its_line(project: Project) -> None:
    trials = project.trials(SHARED, AVERAGED, ("optimizer.zero_grad()", "optimiser.zero_grad()"))
    assert trials.alone[0].end == ERROR and not trials.two and trials.alone[0].place == Place("train.py", 12)
    assert judge(trials).findings[0].text.startswith("on 1 rank it does not run: NameError: name 'optimiser' is not")


@pytest.fixture
def slow_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank of two begins seconds late, as where torch is imported from a slow disk."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text("import os, time\ntime.sleep(7 * ('RANK' in os.environ))\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "late"))


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_ranks_that_wait_for_each_other(tmp_path: Path, slow_start: None) -> None:
    """With more time where the machine is so slow that the check itself says that it was too short."""
    waiting = ("    optimizer.step()", "    if ddp.RANK == 0: ddp.wait_for_all()\n    optimizer.step()")
    for seconds in (80.0, 240.0):
        (tmp_path / str(seconds)).mkdir()
        trials = Project(tmp_path / str(seconds)).trials(SHARED, AVERAGED, waiting, seconds=seconds)
        if not trials.too_slow:
            break
    assert TIMEOUT in {rank.end for rank in trials.two}, trials
    finding = judge(trials).findings[0]
    assert "on 2 ranks it does not reach 4 steps in time" in finding.text and finding.place is not None, trials
    assert finding.place.path == "train.py" and finding.place.line in (10, 13, 14), trials


@pytest.mark.exhaustive
def test_an_original_that_does_not_run(project: Project) -> None:
    trials = project.trials(text=SCRIPT % "raise FileNotFoundError('no data')")
    obstacle = judge(trials).obstacle
    assert obstacle is not None and obstacle.place == Place("train.py", 4) and not trials.alone
    assert obstacle.text == "not checked: the original does not run: FileNotFoundError: no data"


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["file", "link", "torch.save", "removal", "rename"])
def test_nothing_outside_of_the_copy_is_changed(project: Project, tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (project.path / "link").symlink_to(precious)
    line = {
        "file": "open(%r, 'w')" % str(precious),
        "link": "open('link', 'w')",
        "torch.save": "torch.save(1, %r)" % str(precious),
        "removal": "import os; os.remove(%r)" % str(precious),
        "rename": "import os; open('own', 'w').close(); os.rename('own', %r)" % str(precious),
    }[kind]
    trials = project.trials(text=SCRIPT % line)
    assert trials.original.end == ERROR and "writes nothing outside the project's copy" in trials.original.text
    assert precious.read_text() == "precious" and sorted(os.listdir(project.path)) == ["ddp.py", "link", "train.py"]


@pytest.mark.exhaustive
def test_arguments_are_given_and_the_network_is_cut(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = (
            "import socket, sys; assert sys.argv[1:] == ['--epochs', '3']; socket.create_connection(('127.0.0.1', %d))"
        )
        trials = project.trials(text=SCRIPT % (lines % port))
    if trials.network:
        pytest.skip("this machine does not let a process have a network of its own")
    assert trials.original.text == "ConnectionRefusedError: [Errno 111] Connection refused"


@pytest.mark.exhaustive
def test_large_files_and_directories_are_read_where_they_lie(project: Project) -> None:
    (project.path / "large").write_bytes(bytes(17 * 1024 * 1024))
    (project.path / "images").mkdir()
    for number in range(1001):
        (project.path / "images" / str(number)).touch()
    lines = "import os; sizes = os.path.getsize('large') >> 20, len(os.listdir('images'))\nassert sizes == (17, 1001)"
    assert project.trials(text=SCRIPT % lines).original.end == STEPS
