"""Short trainings, converted: the lines that changed, and what is said."""

from __future__ import annotations

from worldsize.wings.convert.rewrite import Remark, convert_files

BEGINNING = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8)
"""
LOOP = """\
for x, y in loader:
    out = model(x)
    loss = %s
    loss.backward()
    optimizer.step()
%s
"""


def changed_lines(source: str, **others: str) -> list[str]:
    """The lines that the conversion has and the script has not, without their indentation; without the import."""
    before = {line for text in (source, *others.values()) for line in text.splitlines()}
    texts = convert_files({"train.py": source, **{name + ".py": text for name, text in others.items()}}).texts
    lines = [line.strip() for text in texts.values() for line in text.splitlines() if line not in before]
    return [line for line in lines if line != "import ddp"]


def training(loss: str = "F.cross_entropy(out, y)", told: str = "pass") -> str:
    """A script with this loss, and these lines at the end of each step. Its loop begins in line 8, the loss is in line
    10, what is told begins in line 13."""
    return BEGINNING + LOOP % (loss, "\n".join("    " + line for line in told.splitlines()))


def figures(told: str, loss: str = "F.cross_entropy(out, y)") -> list[str]:
    """The lines of a step that changed."""
    changed = changed_lines(training(loss, told))
    return [line for line in changed if "ddp.share" not in line and "ddp.average_gradients" not in line]


def remarks(source: str) -> list[Remark]:
    converted = convert_files({"train.py": source})
    assert converted.errors == ()
    return list(converted.remarks)


def errors(source: str) -> list[Remark]:
    return list(convert_files({"train.py": source}).errors)
