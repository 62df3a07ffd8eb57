"""The whole output of the first rank, read as programs read nccl-tests'; which GPU a rank takes."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from allreduce_reports import MIB, row  # puts the ranks' programs on the path

table = __import__("allreduce.table", fromlist=["table"])

ASKED = re.compile(r"# nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\S+) warmup iters: (\d+) iters: ")
DEVICE = re.compile(r"#\s+Rank\s+(\d+) Group\s+(\d+) Pid\s+(\d+) on\s+(\S+) device\s+(\d+) \[(\S+)\] (.+)")
ROW = re.compile(
    r"\s+(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)"
    r"\s+([\d.]+|N/A)\s+([\d.]+|N/A)\s+([\d.]+|N/A)\s+(\d+|N/A)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\d+|N/A)"
)
MEAN = re.compile(r"# Avg bus bandwidth\s*:\s*([\d.]+)")
PLACES = ["Pid %6d on %10s device %2d [0x%02x] %s" % (300 + rank, "n0", rank, rank, "NVIDIA H100") for rank in (0, 1)]


def printed(rows: list[dict[str, Any]], places: list[str] = PLACES, **more: Any) -> list[str]:
    arguments = Namespace(**{"sizes": [each["size"] for each in rows], "iterations": 0, "warmup": 5, **more})
    lines = [*table.header(arguments, "nccl", places), *(table.line(each, "float32", 2) for each in rows)]
    return [*lines, *table.footer(rows, 2)]


def test_a_reader_of_nccl_tests_reads_it() -> None:
    lines = printed([row(MIB, 1e-3, out_seconds=2e-3, out_wrong=0), row(2 * MIB, 1e-3)])
    asked = ASKED.match(lines[0])
    assert asked and asked.groups() == ("1", "1", str(MIB), str(2 * MIB), "2(factor)", "5")
    devices = [found.groups() for found in map(DEVICE.fullmatch, lines) if found]
    assert devices == [(str(n), "0", str(300 + n), "n0", str(n), "0x0%d" % n, "NVIDIA H100") for n in (0, 1)]
    rows = [found.groups() for found in map(ROW.fullmatch, lines) if found]
    assert [each[0] for each in rows] == [str(MIB), str(2 * MIB)]
    assert rows[0][5:] == ("2000.0", "0.52", "0.52", "0", "1000.0", "1.05", "1.05", "0")
    assert rows[1][5:9] == ("N/A",) * 4
    mean = MEAN.match(lines[-2])
    assert mean and float(mean[1]) == pytest.approx((0.524288 + 1.048576 + 2.097152) / 3, rel=1e-4)


def test_every_line_is_a_comment_or_a_row() -> None:
    lines = printed([row(8, 1e-5), row(16, 1e-5)])
    assert [line for line in lines if not line.startswith("#")] == [line for line in lines if ROW.fullmatch(line)]


@pytest.mark.parametrize(
    ("sizes", "step"), [([8, 16, 32], "2(factor)"), ([8, 80], "10(factor)"), ([8], "list"), ([8, 16, 64], "list")]
)
def test_the_step_is_a_factor_or_a_list(sizes: list[int], step: str) -> None:
    assert " step: %s warmup" % step in printed([row(size) for size in sizes])[0]


def test_as_many_ranks_as_there_are_stand_above_the_table() -> None:
    assert sum(line.startswith("#  Rank") for line in printed([row()], PLACES * 8)) == 16


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Torch as far as `choose_gpu` looks: a machine with as many GPUs as the test says."""
    fake: Any = ModuleType("torch")
    fake.distributed = ModuleType("torch.distributed")
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "torch.distributed", fake.distributed)
    monkeypatch.delitem(sys.modules, "allreduce.by_torch", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


def chosen(torch: Any, gpus: int, local_rank: int) -> int:
    torch.cuda = SimpleNamespace(is_available=lambda: gpus > 0, device_count=lambda: gpus)
    program = __import__("allreduce.by_torch", fromlist=["by_torch"])
    sys.modules.pop("allreduce.by_torch")
    number: int = program.choose_gpu(local_rank)
    return number


def test_each_rank_has_the_gpu_of_its_number(torch: Any) -> None:
    assert [chosen(torch, 8, rank) for rank in range(8)] == list(range(8))


@pytest.mark.parametrize(("gpus", "words"), [(0, "torch sees no GPU on this node: --backend gloo"), (2, "at most 2")])
def test_a_rank_without_a_gpu_ends_in_a_sentence(torch: Any, gpus: int, words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        chosen(torch, gpus, 2)


def test_a_rank_that_sees_its_own_gpu_alone_takes_it(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert chosen(torch, 1, 3) == 0
