"""`worldsize convert`: the DDP version of a script is the same training on one rank and on two."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("libcst")

from trainings import Trainings, numbers

from worldsize.wings.convert.rewrite import convert_source

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


def test_the_diff_is_what_is_written_and_what_is_left_alone_is_said(trainings: Trainings) -> None:
    cli = trainings.cli
    cli.write("train.py", SMALL)
    result = cli.ok("convert", "train.py")
    for line in (
        "+        net = DistributedDataParallel(net, device_ids=[LOCAL_RANK] if torch.cuda.is_available() else None)",
        "+        self.net = net",
        "+            self.loader.sampler.set_epoch(epoch)",
        "+    dist.destroy_process_group()",
        "+        dist.barrier()",
    ):
        assert line in result.lines
    assert "# kept" in result.out and cli.read_project("train.py") == SMALL
    if shutil.which("patch"):
        command = ["patch", "-s", "-o", "patched.py", "train.py"]
        subprocess.run(command, cwd=cli.project, input=result.out, text=True, check=True)
    assert cli.ok("convert", "train.py", "--write").out == ""
    if shutil.which("patch"):
        assert cli.read_project("train.py") == cli.read_project("patched.py")
    again = cli("convert", "train.py")
    assert again.code == 2 and "it distributes itself already" in again.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("print(1)\n", "no optimizer was found"),
        ("def (:\n", "not Python"),
        ("from accelerate import Accelerator\n", "it distributes itself already (Accelerator)"),
    ],
)
def test_what_cannot_be_converted(trainings: Trainings, source: str, said: str) -> None:
    trainings.cli.write("train.py", source)
    result = trainings.cli("convert", "train.py")
    assert result.code == 2 and said in result.err and "Traceback" not in result.err


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["small", "plain_loop", "trainer_class"])
def test_a_converted_script_is_the_same_training_on_one_rank_and_on_two(trainings: Trainings, name: str) -> None:
    script = name + ".py"
    if name == "small":
        trainings.cli.write(script, SMALL)
    else:
        trainings.add(name)
    trainings.cli.ok("convert", script, "--write")
    os.makedirs(os.path.join(trainings.cli.project, "outputs"), exist_ok=True)
    found = []
    for world in ("1x1", "1x2"):
        result = trainings.cli("run", "-q", "-w", world, "--", "python", script, timeout=240, OMP_NUM_THREADS="1")
        assert result.code == 0, result
        log = trainings.log(trainings.cli.latest())
        found.append([row for row in numbers(log) if row[0] in ("weights", "test", "accuracy")])
    assert [row[0] for row in found[0]] == [row[0] for row in found[1]] and found[0]
    assert all(ours == pytest.approx(theirs, rel=1e-9) for (_, ours), (_, theirs) in zip(*found, strict=True))


def test_a_script_that_cannot_be_written_stays_what_it_was(trainings: Trainings) -> None:
    cli = trainings.cli
    script = cli.write("train.py", SMALL)
    os.chmod(script, 0o755)
    words = [sys.executable, "-m", "worldsize", "convert", "train.py", "--write"]
    full = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words]
    refused = subprocess.run(full, env=cli.environ, cwd=cli.project, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "train.py: cannot be written" in refused.stderr, refused
    with open(script) as file:
        assert file.read() == SMALL
    cli.ok("convert", "train.py", "--write")
    with open(script) as file:
        assert "DistributedDataParallel" in file.read()
    assert os.stat(script).st_mode & 0o777 == 0o755


LATE_IMPORT = """\
import torch

def accuracy(model):
    return 1

import os
%s
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOCAL_RANK = 'LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))'


def test_what_the_script_itself_has_too_late_is_there_before_it_is_used() -> None:
    lines = convert_source(LATE_IMPORT % LOCAL_RANK).text.splitlines()
    assert lines.count("import torch") == 1
    assert lines.index("import os") < lines.index(LOCAL_RANK) < lines.index("    torch.cuda.set_device(LOCAL_RANK)")
