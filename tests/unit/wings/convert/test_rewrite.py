"""What is written into a script before its own first line."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from worldsize.wings.convert.rewrite import convert_source

LOCAL_RANK = 'LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))'
SCRIPT = """\
import torch

def accuracy(model):
    return 1

import os
%s
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_what_the_script_itself_has_too_late_is_there_before_it_is_used() -> None:
    lines = convert_source(SCRIPT % LOCAL_RANK).text.splitlines()
    assert lines.count("import torch") == 1
    assert lines.index("import os") < lines.index(LOCAL_RANK) < lines.index("    torch.cuda.set_device(LOCAL_RANK)")
