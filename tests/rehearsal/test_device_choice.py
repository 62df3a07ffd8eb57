"""Scripts that set no device: torch chooses the GPU of each process, and so does a rehearsal."""

from __future__ import annotations

import pytest
from driver import Cli
from rank_logs import rehearsed

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["fully_sharded", "hybrid", "tensor_parallel"])
def test_a_mesh_chooses_the_gpu_by_the_local_rank(cli: Cli, name: str) -> None:
    words = ("run", "-w", "2x2", "--virtual-gpus", "2", "--", "python", "without_set_device.py", name)
    for rank, log in enumerate(rehearsed(cli, *words)):
        assert "learned=True current=%d on cuda:%d" % (rank % 2, rank % 2) in log
