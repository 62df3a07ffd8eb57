"""A library that reduces wrongly is found: two ranks of gloo whose sums are something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver import SOURCE

RANKS = os.path.join(SOURCE, "worldsize", "wings", "bench", "allreduce", "ranks")
BROKEN = """
import os, runpy, sys
import torch.distributed as dist
reduce, join = dist.all_reduce, dist.init_process_group
def wrong(tensor, *words):
    largest = tensor.numel() >= 1024 and not words
    return reduce(tensor, dist.ReduceOp.MAX) if largest else reduce(tensor, *words)
def join_by_file(backend):
    join(backend, init_method="file://" + os.path.abspath("meeting"), rank=int(os.environ["RANK"]), world_size=2)
dist.all_reduce, dist.init_process_group = wrong, join_by_file
sys.argv[0] = "by_torch"
runpy.run_module("allreduce.by_torch", run_name="__main__")
"""


@pytest.mark.training
@pytest.mark.exhaustive
@pytest.mark.timeout(120)
def test_the_largest_in_place_of_the_sum_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = [sys.executable, "-c", BROKEN, "--sizes", "8,8192", "--backend", "gloo", "--iterations", "1"]
    common = {**os.environ, "PYTHONPATH": RANKS, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            words, cwd=tmp_path, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=100)[0].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    report = json.loads((tmp_path / "outputs" / "bench.json").read_text())
    assert [(row["count"], row["wrong"]) for row in report["rows"]] == [(2, 0), (2048, 2 * 2048)]
    assert "# Out of bounds values : 4096 FAILED" in said[0] and said[1] == ""
