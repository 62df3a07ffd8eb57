"""What ranks show and write: of events and progress bars, rank 0's alone; and what is said where no batch divides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from forked_ranks import run_alone, run_on_ranks

pytestmark = pytest.mark.timeout(120)

SCRIPT = """\
import os
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset
%s
torch.manual_seed(0)
data = TensorDataset(torch.randn(20, 3))
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in %s:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    %s
"""


def write(tmp_path: Path, head: str, batches: str, tail: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT % (head, batches, tail))
    return str(path)


def test_where_no_batch_divides_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "", "DataLoader(data, batch_size=5)", "print('%.6f' % loss.item())")
    alone, ranks = run_alone(path), run_on_ranks(path, 2)
    assert ranks[0].printed == alone.printed and alone.printed.count("\n") == 4
    assert any("no batch was divisible by 2 ranks" in notice for notice in ranks[0].notices)


def test_of_progress_bars_and_runs_of_weights_and_biases_rank_0_alone_has_any(tmp_path: Path) -> None:
    again = "[sys.modules.pop(each) for each in list(sys.modules) if each.split('.')[0] == 'tqdm']"
    head = again + "  # it reads the environment when it is imported\nfrom tqdm import tqdm"
    tail = "print(os.environ.get('WANDB_MODE', 'on'))"
    path = write(tmp_path, head, "tqdm(DataLoader(data, batch_size=10), file=sys.stdout, ascii=True)", tail)
    first, second = run_on_ranks(path, 2)
    assert "2/2" in first.printed and "2/2" not in second.printed
    assert re.findall("on|disabled", first.printed) == ["on"] * 2 and "disabled" in second.printed


def test_of_tensorboards_events_those_of_rank_0_lie_where_the_script_wants_them(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    head = "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter('events')"
    path = write(tmp_path, head, "DataLoader(data, batch_size=10)", "writer.add_scalar('loss', loss.item(), 1)")
    ranks = run_on_ranks(path, 2)
    assert not any(each.error for each in ranks), ranks
    assert len(list((tmp_path / "events").iterdir())) == 1
