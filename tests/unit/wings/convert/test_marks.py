"""Comments above what is left to the user."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from worldsize.wings.convert.rewrite import convert_files

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # the layers
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, 4),
            torch.nn.BatchNorm1d(4),
        )


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=8):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def test_a_remark_stands_above_the_statement_with_its_indentation() -> None:
    converted = convert_files({"train.py": SCRIPT})
    assert [remark.line for remark in converted.remarks] == [10]
    lines = converted.texts["train.py"].splitlines()
    first = lines.index("        self.layers = torch.nn.Sequential(")
    assert lines[first - 3] == "        # the layers"
    assert lines[first - 2].startswith("        # ddp: BatchNorm computes its statistics from each rank's part")
    assert " ".join(line.strip(" #") for line in lines[first - 2 : first]) == "ddp: " + converted.remarks[0].text
    compile(converted.texts["train.py"], "train.py", "exec")


def test_a_file_that_is_only_remarked_gets_no_import() -> None:
    model = SCRIPT[: SCRIPT.index("model = Net()")]
    script = "from net import Net\n" + SCRIPT.replace(model, "import torch\nfrom torch.utils.data import DataLoader\n")
    converted = convert_files({"train.py": script, "net.py": model})
    assert [(remark.path, remark.line) for remark in converted.remarks] == [("net.py", 10)]
    assert "# ddp: BatchNorm" in converted.texts["net.py"] and "import ddp" not in converted.texts["net.py"]
    assert "import ddp" in converted.texts["train.py"]


def test_a_remark_names_the_helpers_as_they_are_called() -> None:
    source = SCRIPT.replace("    optimizer.zero_grad()", "    print(model(x))\n    optimizer.zero_grad()")
    converted = convert_files({"train.py": source}, "ddp_ranks")
    assert converted.remarks[-1].text.endswith("ddp_ranks.mean or ddp_ranks.total gives the whole batch's")
