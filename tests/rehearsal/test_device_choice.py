"""Scripts that set no device: torch chooses the GPU of each process, and so does a rehearsal."""

from __future__ import annotations

import pytest
from driver import Cli
from ranks import rehearsed

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["fully_sharded", "hybrid", "tensor_parallel"])
def test_a_mesh_chooses_the_gpu_by_the_local_rank(cli: Cli, name: str) -> None:
    words = ("run", "-w", "2x2", "--virtual-gpus", "2", "--", "python", "without_set_device.py", name)
    for rank, log in enumerate(rehearsed(cli, *words)):
        assert "learned=True current=%d on cuda:%d" % (rank % 2, rank % 2) in log


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    [
        "checkpoint",
        "background_save",
        "end_after_init",
        "broadcast_state",
        "offload",
        "first_fsdp",
        "hybrid_fsdp",
        "distributed_tensors",
        "replicated",
        "attention",
        "pending_averages",
        "cpu_tensors",
        "pipeline",
    ],
)
def test_parallel_styles_work_as_on_gpus(cli: Cli, name: str) -> None:
    logs = rehearsed(cli, "run", "-w", "1x2", "--virtual-gpus", "2", "--", "python", "parallel_styles.py", name)
    assert ["as on GPUs" in log for log in logs] == [True, True], logs
    if name == "first_fsdp":
        assert all(
            "Inconsistent compute device and `dev" in log and "An FSDP-managed module unexpecte" in log for log in logs
        )
