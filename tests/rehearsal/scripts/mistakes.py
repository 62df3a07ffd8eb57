"""Mistakes that a single machine hides, each by its name: `python mistakes.py NAME`."""

import os
import sys
import urllib.request

import torch
import torch.distributed as dist

RANK, LOCAL_RANK = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])


def begin(**arguments):
    dist.init_process_group("nccl", **arguments)


def global_rank():
    """The device by the rank in the world, and not on its node."""
    torch.cuda.set_device(RANK)
    begin()


def no_device():
    """Every rank of a node on its first GPU."""
    begin()
    model = torch.nn.Linear(4, 4).cuda()
    torch.nn.parallel.DistributedDataParallel(model)


def tensor_before_mesh():
    """A tensor on the first GPU, after which the mesh leaves the device as it is."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    torch.ones(1, device="cuda")
    mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("tp",))
    parallelize_module(torch.nn.Linear(4, 4), mesh["tp"], ColwiseParallel())


def forgotten_batch():
    torch.cuda.set_device(LOCAL_RANK)
    begin()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    model(torch.randn(2, 4))


def fixed_port():
    """Every rank serves on the same port of its node."""
    import socket

    server = socket.create_server(("", int(sys.argv[2])))
    begin()
    dist.barrier()
    server.close()


def localhost():
    """The address of the first guide that one finds."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", sys.argv[2]
    begin()


def world_assumed():
    begin(world_size=8, rank=RANK)


def missing_path():
    """Rank 0 prepares on a disk that is its node's alone."""
    torch.cuda.set_device(LOCAL_RANK)
    begin()
    if RANK == 0:
        torch.save({"step": 1}, sys.argv[2])
    dist.barrier()
    print(torch.load(sys.argv[2]))


def download():
    urllib.request.urlopen(sys.argv[2], timeout=20).read()


def hub():
    from huggingface_hub import hf_hub_download

    hf_hub_download("org/model", "config.json")


def unvisible_load():
    """What device 3 saved, on a node with two GPUs."""
    torch.load(sys.argv[2], map_location="cuda:3")


def to_numpy():
    torch.ones(3, device="cuda").numpy()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
