"""Mistakes that a single machine hides end a rehearsal, and its failure screen names them."""

from __future__ import annotations

import socket

import pytest
from driver import Cli

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(180)
WORLD = "worldsize rehearsal: the script asks for a world of 8 processes, and the run has 2"
MIXED = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


def failed(cli: Cli, world: str, gpus: int, *words: str) -> str:
    """The failure screen."""
    options = ("-q", "-w", world, "--virtual-gpus", str(gpus), "--set", "grace=1")
    result = cli("run", *options, "--", "python", "mistakes.py", *words, timeout=150)
    assert result.code != 0 and "FAILED" in result.err
    return result.err


def free_port() -> str:
    with socket.create_server(("", 0)) as server:
        return str(server.getsockname()[1])


def test_the_global_rank_as_device_index(cli: Cli) -> None:
    screen = failed(cli, "2x1", 1, "global_rank")
    assert "rank 1 on node 1" in screen and "CUDA error: invalid device ordinal" in screen
    assert "in global_rank    torch.cuda.set_device(RANK)" in screen
    assert "what to do: " in screen and "LOCAL_RANK" in screen


def test_all_ranks_of_a_node_on_one_gpu(cli: Cli) -> None:
    screen = failed(cli, "1x2", 2, "no_device")
    assert "Duplicate GPU detected : rank " in screen and "both on CUDA device 0" in screen


@pytest.mark.exhaustive
def test_a_tensor_on_a_gpu_before_the_mesh_that_would_choose_one(cli: Cli) -> None:
    screen = failed(cli, "1x2", 2, "tensor_before_mesh")
    assert "Duplicate GPU detected : rank " in screen and "both on CUDA device 0" in screen


@pytest.mark.exhaustive
def test_a_batch_that_was_not_sent_to_the_gpu(cli: Cli) -> None:
    assert MIXED in failed(cli, "1x1", 1, "forgotten_batch")


@pytest.mark.exhaustive
def test_a_port_that_two_nodes_want(cli: Cli) -> None:
    assert "Address already in use" in failed(cli, "2x1", 1, "fixed_port", free_port())


@pytest.mark.exhaustive
def test_localhost_as_the_address_of_all(cli: Cli) -> None:
    screen = failed(cli, "2x1", 1, "localhost", free_port())
    assert "rank 1 is on node 1, and would meet the others at localhost:" in screen


@pytest.mark.exhaustive
def test_a_world_that_is_assumed(cli: Cli) -> None:
    assert WORLD in failed(cli, "2x1", 1, "world_assumed")


def test_a_path_that_only_the_first_node_has(cli: Cli) -> None:
    screen = failed(cli, "2x1", 1, "missing_path", "/tmp/%s.pt" % cli.root.replace("/", "-"))
    assert "rank 1 on node 1" in screen and "FileNotFoundError" in screen
    assert "what to do: each node of a rehearsal has a /tmp of its own" in screen


@pytest.mark.exhaustive
def test_a_download_from_a_hub_on_offline_nodes(cli: Cli) -> None:
    pytest.importorskip("huggingface_hub")
    cli.write("job.yml", "command: python mistakes.py hub\ncode: .\nvirtual_gpus: 1\noffline: true\n")
    result = cli("run", "job.yml", "-q", timeout=150)
    assert "would fail: the nodes reach no network" in result.err
    assert result.code == 1 and "LocalEntryNotFoundError" in result.err
    assert "what to do: the nodes reach no network" in result.err


@pytest.mark.exhaustive
def test_a_checkpoint_of_a_gpu_that_is_not_there(cli: Cli) -> None:
    assert "CUDA device 3 but torch.cuda.device_count() is 2" in failed(cli, "1x1", 2, "unvisible_load", "none.pt")
