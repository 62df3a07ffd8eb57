"""Causes in checkpoints, data and what is computed from them."""

from __future__ import annotations

from causes.case import Case, raised

_TORCH = """import os, time

import torch

if os.environ["RANK"] == "0":
%s
time.sleep(60)
"""


def _torch(*lines: str) -> str:
    """A script of which rank 0 executes these lines, while the others wait."""
    return _TORCH % "\n".join("    " + line for line in lines)


DATA_CASES = (
    Case(
        "checkpoint-mismatch",
        _torch(
            "saved = torch.nn.Sequential(torch.nn.Linear(4, 10)).state_dict()",
            'torch.nn.Sequential(torch.nn.Linear(4, 12)).load_state_dict({**saved, "module.scale": torch.ones(1)})',
        ),
        needs=("torch",),
    ),
    Case(
        "checkpoint-objects",
        """import os, time

import torch


class Settings:
    rate = 0.1


if os.environ["RANK"] == "0":
    torch.save({"model": {}, "settings": Settings()}, "last.pt")
    torch.load("last.pt")
time.sleep(60)
""",
        needs=("torch",),
    ),
    Case(
        "file-damaged",
        """import os, pickle, time

if os.environ["RANK"] == "0":
    with open("samples.pkl", "wb") as file:
        file.write(pickle.dumps(list(range(1000)))[:500])
    with open("samples.pkl", "rb") as file:
        pickle.load(file)
time.sleep(60)
""",
    ),
    Case(
        "file-damaged",
        _torch(
            'torch.save({"weight": torch.ones(1000)}, "last.pt")',
            'os.truncate("last.pt", 2000)',
            'torch.load("last.pt")',
        ),
        needs=("torch",),
        variant="a checkpoint that was cut short",
    ),
    Case(
        "file-damaged",
        _torch(
            'with open("base.pt", "w") as file:',
            '    file.write("version https://git-lfs.github.com/spec/v1\\n")',
            'torch.load("base.pt")',
        ),
        needs=("torch",),
        variant="a pointer of Git LFS",
    ),
    Case(
        "shape-mismatch",
        _torch("torch.nn.Linear(16, 4)(torch.ones(8, 12))"),
        needs=("torch",),
    ),
    Case(
        "type-mismatch",
        _torch("torch.nn.Linear(16, 4)(torch.ones(8, 16, dtype=torch.float64))"),
        needs=("torch",),
    ),
    Case(
        "index-out-of-range",
        _torch("torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 5]))"),
        needs=("torch",),
    ),
    Case(
        "device-mismatch",
        """import os, time

import torch

if os.environ["RANK"] == "0":
    torch.nn.Linear(4, 4).cuda()(torch.ones(2, 4))
time.sleep(60)
""",
        keys={"virtual_gpus": 1},
        world="1x1",
        needs=("torch",),
        variant="in a rehearsal",
    ),
    Case(
        "device-mismatch",
        raised(
            "RuntimeError",
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input "
            "should be a MKLDNN tensor and weight is a dense tensor",
        ),
        simulated="PyTorch",
        variant="in a convolution",
    ),
    Case(
        "not-finite",
        """import math, os, time

if os.environ["RANK"] == "0":
    loss = math.inf - math.inf
    if not math.isfinite(loss):
        raise ValueError(f"loss is {loss} at step 12")
time.sleep(60)
""",
    ),
    Case(
        "not-finite",
        _torch(
            "rate = torch.zeros(1, requires_grad=True)",
            "with torch.autograd.detect_anomaly():",
            "    (torch.sqrt(rate) * 0).backward()",
        ),
        needs=("torch",),
        variant="found by torch's anomaly detection",
    ),
)
