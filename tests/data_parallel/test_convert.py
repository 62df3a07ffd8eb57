"""`worldsize convert`: the words, the files that it writes, and the same training on one rank and on two."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("libcst")

from terminal import Terminal
from trainings import Trainings, numbers

SMALL = '''\
"""Documentation."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

\f
class Trainer:
    def __init__(self, net, data):
        self.net = net
        self.loader = DataLoader(data, batch_size=8, shuffle=True)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(self):
        for _ in range(3):
            for x, y in self.loader:
                loss = nn.functional.mse_loss(self.net(x), y)  # kept
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        torch.save(self.net.state_dict(), "net.pt")
        self.net.load_state_dict(torch.load("net.pt"))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    net = nn.DataParallel(nn.Linear(3, 1)).to("cuda:0" if torch.cuda.is_available() else "cpu")
    Trainer(net, TensorDataset(torch.randn(24, 3), torch.randn(24, 1))).fit()
    for parameter in net.parameters():
        print("weights %.17g" % parameter.abs().sum().item())
'''
_LONG = ("--timeout", "240")
"""What a check may take on a machine that does much else."""

LOADERS = """\
from torch.utils.data import DataLoader


def make_loader(data, **options):
    return DataLoader(data, **{"batch_size": 8, **options})
"""
ENGINE = """\
import torch


def train(model, loader, optimizer):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
"""
MAIN = """\
import torch
from engine import train
from lib.loaders import make_loader
from torch.utils.data import TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = make_loader(TensorDataset(torch.randn(24, 3), torch.randn(24, 1)), shuffle=True)
for epoch in range(3):
    print("loss %.17g" % train(model, loader, optimizer))
print("weights %.17g" % model.weight.abs().sum().item())
"""


def test_the_diff_is_what_is_written(trainings: Trainings) -> None:
    cli = trainings.cli
    cli.write("train.py", SMALL)
    result = cli.ok("convert", "train.py")
    for line in (
        "+import ddp",
        "+            for x, y in ddp.share(self.loader):",
        "+        self.optimizer = ddp.average_gradients(torch.optim.SGD(net.parameters(), lr=0.1), net)",
        '+        ddp.main_only(torch.save)(self.net.state_dict(), "net.pt")',
        '+        self.net.load_state_dict(ddp.load("net.pt"))',
        '+    net = nn.Linear(3, 1).to(f"cuda:{ddp.LOCAL_RANK}" if torch.cuda.is_available() else "cpu")',
        "--- /dev/null",
        "+++ ddp.py",
    ):
        assert line in result.lines
    assert "# kept" in result.out and cli.read_project("train.py") == SMALL
    patched = Path(cli.root, "patched")
    patched.mkdir()
    if shutil.which("patch"):
        (patched / "train.py").write_text(SMALL)
        subprocess.run(["patch", "-s"], cwd=patched, input=result.out, text=True, check=True)
    assert cli.ok("convert", "train.py", "--write").out == ""
    for name in ("train.py", "ddp.py") if shutil.which("patch") else ():
        assert cli.read_project(name) == (patched / name).read_text()
    again = cli("convert", "train.py")
    assert again.code == 2 and "it distributes itself already (init_process_group, ddp.py:" in again.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("print(1)\n", "train.py:1: no backward pass was found"),
        ("def (:\n", "train.py:1: not Python"),
        ("from accelerate import Accelerator\n", "it distributes itself already (Accelerator, train.py:1)"),
        (
            "import horovod\nx = hvd.DistributedOptimizer(y)\n",
            "it distributes itself already (DistributedOptimizer, train",
        ),
        ("import torch\nloss = torch.ones(1)\n\nloss.backward()\n", "train.py:4: error: no loader was found"),
        ("import broken\n", "broken.py:2: not Python"),
    ],
)
def test_what_cannot_be_converted(trainings: Trainings, source: str, said: str) -> None:
    trainings.cli.write("train.py", source)
    trainings.cli.write("broken.py", "x = 1\ny = (\n")
    result = trainings.cli("convert", "train.py", "--write")
    assert result.code == 2 and said in result.err and "Traceback" not in result.err
    assert trainings.cli.read_project("train.py") == source
    assert not os.path.exists(os.path.join(trainings.cli.project, "ddp.py"))


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["small", "plain_loop", "trainer_class", "files"])
def test_a_converted_script_is_the_same_training_on_one_rank_and_on_two(trainings: Trainings, name: str) -> None:
    script = name + ".py"
    if name == "small":
        trainings.cli.write(script, SMALL)
    elif name == "files":
        for path, text in ((script, MAIN), ("engine.py", ENGINE), ("lib/loaders.py", LOADERS)):
            trainings.cli.write(path, text)
    else:
        trainings.add(name)
    os.makedirs(os.path.join(trainings.cli.project, "outputs"), exist_ok=True)
    found = [numbers(trainings.plain(script))]
    trainings.cli.ok("convert", script, "--write")
    for world in ("1x1", "1x2"):
        result = trainings.cli("run", "-q", "-w", world, "--", "python", script, timeout=240, OMP_NUM_THREADS="1")
        assert result.code == 0, result
        found.append(numbers(trainings.log(trainings.cli.latest())))
    assert found[0] == found[1] and len(found[0]) == len(found[2]) > 1
    for (kind, theirs), (same, ours) in zip(found[0], found[2], strict=True):
        assert kind == same and ours == pytest.approx(theirs, rel=1e-9)


def test_a_script_that_cannot_be_written_stays_what_it_was(trainings: Trainings) -> None:
    cli = trainings.cli
    script = cli.write("train.py", SMALL)
    os.chmod(script, 0o755)
    words = [sys.executable, "-m", "worldsize", "convert", "train.py", "--write"]
    full = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words]
    refused = subprocess.run(full, env=cli.environ, cwd=cli.project, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "ddp.py: cannot be written" in refused.stderr, refused
    with open(script) as file:
        assert file.read() == SMALL
    cli.ok("convert", "train.py", "--write")
    with open(script) as file:
        assert "ddp.share(self.loader)" in file.read()
    assert os.stat(script).st_mode & 0o777 == 0o755


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_checked_conversion_is_written_and_a_wrong_one_is_not(trainings: Trainings) -> None:
    cli = trainings.cli
    text = "import sys\nassert sys.argv[1:] == ['--rate', '1']\n" + SMALL
    cli.write("train.py", text)
    failed = cli("convert", "train.py", "--write", "--check", *_LONG, timeout=280)
    assert failed.code == 1 and cli.read_project("train.py") == text, failed
    assert "train.py:2: check: error: not checked: the original does not run: AssertionError" in failed.err
    result = cli("convert", "train.py", "--write", "--check", *_LONG, "--", "--rate", "1", timeout=280)
    assert result.code == 0 and result.out == "", result
    assert "check: losses, gradients and weights of 4 steps on 2 ranks equal those of one process" in result.err
    assert "ddp.share" in cli.read_project("train.py")
    assert sorted(os.listdir(cli.project)) == ["ddp.py", "outputs", "train.py"]


def test_as_data(trainings: Trainings) -> None:
    cli = trainings.cli
    cli.write("train.py", SMALL)
    found = json.loads(cli.ok("convert", "train.py", "--write", "-o", "json").out)
    assert [(each["path"], each["is_new"]) for each in found["files"]] == [("train.py", False), ("ddp.py", True)]
    assert found["files"][0]["text"] == cli.read_project("train.py")
    assert (found["errors"], found["is_written"], found["check"]) == ([], True, None)
    cli.write("own.py", "loss = 1\nloss.backward()\n")
    refused = cli("convert", "own.py", "--check", "-o", "json")
    found = json.loads(refused.out)
    assert refused.code == 2 and found["files"] == [] and not found["is_written"] and found["check"] is None
    assert {(each["path"], each["line"]) for each in found["errors"]} == {("own.py", 2)}


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_check_as_data(trainings: Trainings) -> None:
    trainings.cli.write("train.py", "import sys\nsys.exit(3)\n" + SMALL)
    result = trainings.cli("convert", "train.py", "--check", *_LONG, "-o", "json", timeout=280)
    check = json.loads(result.out)["check"]
    assert result.code == 1 and not check["is_right"] and check["summary"] == "" and result.err == ""
    assert [each["is_error"] for each in check["found"]] == [True]


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_a_check_is_offered_at_a_terminal(trainings: Trainings) -> None:
    cli = trainings.cli
    for answer, code, said in (("n", 0, ""), ("y", 1, "not checked: the original does not run")):
        cli.write("train.py", "raise SystemExit(3)\n" + SMALL)
        with Terminal(cli, "convert", "train.py", "--write") as terminal:
            terminal.until("a copy without network (at most 60 s)? [y/N]")
            terminal.type(answer + "\n")
            assert terminal.end(100) == code and said in terminal.shown
        assert ("ddp" in cli.read_project("train.py")) == (code == 0)
