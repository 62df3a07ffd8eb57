"""What a script keeps of its batches is the whole batch's: saved, in other modules, in lists, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from forked_ranks import Output, run_alone, run_on_ranks

pytestmark = pytest.mark.timeout(300)

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
data = torch.randn(24, 3)
loader = DataLoader(TensorDataset(data, (data.sum(1) > 0).long()), batch_size=8)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return out, loss


"""


def _run(tmp_path: Path, body: str) -> tuple[Output, Output]:
    path = tmp_path / "script.py"
    path.write_text(HEAD + body)
    alone, (first, second) = run_alone(str(path)), run_on_ranks(str(path), 2)
    assert not alone.error and (not second.error or "Refused" in second.error)
    return alone, first


def test_what_is_saved_of_a_batch_is_the_whole_batchs(tmp_path: Path) -> None:
    body = (
        "for x, y in loader:\n    out, loss = step(x, y)\ntorch.save({'out': out.detach(), 'x': x}, 'kept.pt')\n"
        "kept = torch.load('kept.pt')\nprint(kept['out'].shape, kept['x'].shape, '%.9f' % kept['out'].sum().item())\n"
    )
    alone, first = _run(tmp_path, body)
    assert alone.printed == first.printed and not first.notices


def test_a_tensor_is_shown_as_it_is_by_itself(tmp_path: Path) -> None:
    body = (
        "for x, y in loader:\n    out, loss = step(x, y)\n"
        "    print(loss, out.detach()[:2], y, f'{loss:.6f}', out.sum())\n"
    )
    alone, first = _run(tmp_path, body)
    assert alone.printed == first.printed and not first.notices


def test_a_number_of_the_batchs_size_is_itself_a_number(tmp_path: Path) -> None:
    body = (
        "import copy, json, pickle\nfor x, y in loader:\n    n = len(x)\n    step(x, y)\n"
        "    print(json.dumps(n), '%d' % n, f'{n:3}', n * 2, 2 * n, n // 3, n / 3)\n"
        "    print(-n, n % 3, n == 8, divmod(n, 3))\n"
        "    print(copy.deepcopy(n), pickle.loads(pickle.dumps(n)), round(n), max(n, 3), range(n))\n"
        "    print(torch.zeros(n, 2).shape, torch.ones(2 * n).shape, len(torch.zeros(n)))\n"
        "    print(x.view(n, -1).shape)\n"
    )
    alone, first = _run(tmp_path, body)
    assert alone.printed == first.printed and not first.notices


def test_ranks_that_ask_at_different_lines_are_refused(tmp_path: Path) -> None:
    body = (
        "import os\nfor x, y in loader:\n    out, loss = step(x, y)\n"
        "    if os.environ.get('WORLDSIZE_RANK', '0') == '0':\n        print(out.std().item())\n"
        "    else:\n        print(out.sum().item())\n"
    )
    _, first = _run(tmp_path, body)
    assert "the ranks need values of the whole batch at different lines" in first.error


def test_a_list_of_samples_is_named_where_it_is_gone_through(tmp_path: Path) -> None:
    body = (
        "from torch.utils.data import Dataset\n\n\nclass Texts(Dataset):\n    def __len__(self):\n        return 16\n\n"
        "    def __getitem__(self, index):\n        return 'word ' * index, data[index]\n\n\nwords = 0\n"
        "for texts, x in DataLoader(Texts(), batch_size=8):\n    step(x, torch.zeros(len(texts), dtype=torch.long))\n"
        "    print(len(texts))\n    for text in texts:\n        words += len(text.split())\n"
    )
    alone, first = _run(tmp_path, body)
    line = (HEAD + body).splitlines().index("    for text in texts:") + 1
    assert alone.printed == first.printed
    assert [notice.split(": ")[0].rpartition(":")[2] for notice in first.notices] == [str(line)]


def test_arrays_in_a_batch_are_said(tmp_path: Path) -> None:
    body = (
        "import numpy as np\n\n\ndef collate(samples):\n    return np.stack([x.numpy() for x, _ in samples])\n\n\n"
        "for array in DataLoader(loader.dataset, batch_size=8, collate_fn=collate):\n"
        "    step(torch.from_numpy(array), torch.zeros(len(array), dtype=torch.long))\n    print(array.shape)\n"
    )
    alone, first = _run(tmp_path, body)
    assert alone.printed != first.printed and "the batch has NumPy arrays" in first.notices[0]
