"""What a check of the nodes learns from a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worldsize.wings.checks.script.facts import script_facts
from worldsize.wings.checks.script.request import ScriptRequest
from worldsize.wings.checks.submission import may_start_python


def facts(folder: Path, source: str, *words: str, environ: tuple[str, ...] = ()) -> dict[str, Any]:
    (folder / "train.py").write_text(source)
    argv = ("python", "train.py", *words)
    return script_facts(ScriptRequest(str(folder), argv, 2, 2, 4, environ=environ), lambda: 0.0)


def test_modules_are_those_that_are_imported_whatever_happens(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import einops\nfrom torch import nn\n")
    (tmp_path / "later.py").write_text("import onnx\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sets.py").write_text("import h5py\n")
    source = """
import os, numpy.linalg as la
from net import Net
from data import sets
try:
    import apex
except ImportError:
    apex = None
if os.name == "nt":
    import pywin32
def export():
    import later
"""
    assert facts(tmp_path, source)["modules"] == ["einops", "h5py", "numpy", "torch"]


@pytest.mark.parametrize(
    ("line", "workers"),
    [
        ("DataLoader(d)", 0),
        ("DataLoader(d, num_workers=3); DataLoader(d, 2, True, None, None, 5)", 5),
        ("DataLoader(d, num_workers=args.workers)", 4),
        ("DataLoader(d, num_workers=os.cpu_count())", None),
        ("DataLoader(d, **options)", None),
        ("pass", None),
    ],
)
def test_workers_of_loaders(line: str, workers: int | None, tmp_path: Path) -> None:
    start = "import argparse, os\nfrom torch.utils.data import DataLoader\nparser = argparse.ArgumentParser()\n"
    start += "parser.add_argument('-j', '--workers', type=int, default=4)\nargs = parser.parse_args()\n"
    assert facts(tmp_path, start + line)["workers"] == workers


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        (("--workers", "7"), 7), (("--workers=7",), 7), (("-j", "7"), 7), (("-j7",), None), (("--work", "7"), None),
        (("--workers", "$N"), None), (("--workers",), None), (("--other", "7"), 4),
    ],
)  # fmt: skip
def test_workers_that_the_command_says(words: tuple[str, ...], workers: int | None, tmp_path: Path) -> None:
    source = "import argparse\nfrom torch.utils.data import DataLoader\nparser = argparse.ArgumentParser()\n"
    source += "parser.add_argument('-j', '--workers', type=int, default=4)\nargs = parser.parse_args()\n"
    assert facts(tmp_path, source + "DataLoader([], num_workers=args.workers)", *words)["workers"] == workers


@pytest.mark.parametrize(
    ("call", "backend"),
    [
        ("dist.init_process_group('mpi')", "mpi"),
        ("dist.init_process_group(backend=NAME)", "gloo"),
        ("dist.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')", None),
        ("dist.init_process_group()", None),
        ("dist.init_process_group('cpu:gloo,cuda:nccl')", None),
        ("dist.init_process_group('nccl'); dist.init_process_group('gloo')", None),
        ("pass", None),
    ],
)
def test_the_back_end(call: str, backend: str | None, tmp_path: Path) -> None:
    source = "import torch\nimport torch.distributed as dist\nNAME = 'gloo'\n"
    assert facts(tmp_path, source + call)["backend"] == backend


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("datasets.MNIST('d', download=True)", ["ossci-datasets.s3.amazonaws.com:443"]),
        ("datasets.MNIST('d', download=False)", []),
        ("AutoModel.from_pretrained('bert-base-cased')", ["huggingface.co:443"]),
        ("AutoModel.from_pretrained('./model')", []),
        ("AutoModel.from_pretrained(args.model)", []),
        ("AutoModel.from_pretrained('local')", []),
        ("wandb.init(project='p')", ["api.wandb.ai:443"]),
        ("wandb.init(mode='offline')", []),
        ("urllib.request.urlopen('http://data.example.org:8080/x')", ["data.example.org:8080"]),
        ("urllib.request.urlopen('https://[broken/x')", []),
        ("if args.fetch: wandb.init()", []),
    ],
)
def test_hosts(line: str, hosts: list[str], tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    start = "import wandb, urllib.request\nfrom torchvision import datasets\nfrom transformers import AutoModel\n"
    assert facts(tmp_path, start + line)["hosts"] == hosts


def test_a_variable_that_keeps_offline(tmp_path: Path) -> None:
    source = "import wandb\nwandb.init()\n"
    assert facts(tmp_path, source, environ=("WANDB_MODE",))["hosts"] == []


def test_which_commands_may_start_python():
    others = [(), ("true",), ("bash", "train.sh"), ("bash", "-c", "mpirun ./a.out"), ("python",)]
    assert not any(map(may_start_python, others))
    lines = ["python train.py", "torchrun -m pkg.train", "accelerate launch --mixed train.py"]
    assert all(may_start_python(("bash", "-c", line)) for line in lines)
    assert may_start_python(("python", "-m", "train")) and may_start_python(("torchrun", "--module", "train"))
