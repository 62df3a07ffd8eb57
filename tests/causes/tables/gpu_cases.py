"""Causes in GPUs, their driver and CUDA: real with a torch without CUDA and with virtual GPUs, else simulated."""

from __future__ import annotations

from causes.case import Case, raised, said
from causes.tables.communication_cases import SHORT

_BEHIND = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions.\n"
)
_XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def _thrown(kind: str, text: str, before: str = "") -> str:
    """A script of which rank 1 raises one of torch's exceptions, after it has printed a line."""
    return f"""import os, sys, time

import torch

if os.environ["RANK"] == "1":
    print({before!r}, file=sys.stderr)
    raise {kind}({text!r})
time.sleep(60)
"""


def _cuda(name: str, error: str, standing: str = "established") -> Case:
    """A case of an error of CUDA's, as torch tells of it."""
    code = _thrown("torch.AcceleratorError", f"CUDA error: {error}{_BEHIND}")
    return Case(name, code, standing, ranks=(1,), needs=("torch",), simulated="PyTorch with CUDA")


GPU_CASES: tuple[Case, ...] = (
    _cuda("gpu-fault", "uncorrectable ECC error encountered"),
    Case("gpu-fault", said(_XID), "supported", simulated="the NVIDIA driver", variant="Xid 79"),
    _cuda("gpu-peer-access", "invalid access of peer GPU memory over nvlink or a hardware error"),
    Case(
        "gpu-memory",
        _thrown(
            "torch.OutOfMemoryError",
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.49 GiB of which 1.07 GiB "
            "is free. Process 4711 has 38.41 GiB memory in use. Of the allocated memory 37.10 GiB is allocated by "
            "PyTorch, and 800.42 MiB is reserved by PyTorch but unallocated.",
        ),
        ranks=(1,),
        needs=("torch",),
        simulated="PyTorch with CUDA",
    ),
    Case(
        "gpu-memory",
        SHORT
        + """if rank == 1:
    try:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    except torch.OutOfMemoryError as error:
        print("skipped a batch:", error, flush=True)
        time.sleep(60)
dist.all_reduce(torch.ones(4))
""",
        "supported",
        ranks=(1,),
        needs=("torch",),
        simulated="PyTorch with CUDA",
        variant="it was caught, and the others wait",
    ),
    Case(
        "gpu-memory",
        raised("RuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 68719476736 bytes."),
        simulated="XLA",
        variant="JAX",
    ),
    Case(
        "gpu-illegal-access",
        said("NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS"),
        "supported",
        simulated="the NVIDIA driver",
        variant="Xid 31",
    ),
    Case(
        "gpu-index",
        """import os, time

import torch

torch.cuda.set_device(int(os.environ["RANK"]))
torch.ones(1, device="cuda")
time.sleep(60)
""",
        ranks=(1,),
        world="2x1",
        keys={"virtual_gpus": 1},
        needs=("torch",),
        varies=True,
    ),
    Case(
        "gpu-shared",
        """import torch
import torch.distributed as dist

dist.init_process_group("nccl")
dist.all_reduce(torch.ones(4, device="cuda"))
""",
        ranks=(0, 1),
        keys={"virtual_gpus": 2},
        needs=("torch",),
        varies=True,
    ),
    Case(
        "gpu-shared",
        _thrown(
            "torch.distributed.DistBackendError",
            "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run with "
            "NCCL_DEBUG=WARN for details), NCCL version 2.29.7\nncclInvalidUsage: This usually reflects invalid usage "
            "of NCCL library.\nLast error:\nMultiple Ranks are using the same GPU/Partition. Set "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration.",
        ),
        ranks=(1,),
        needs=("torch",),
        simulated="NCCL",
        variant="a newer NCCL",
    ),
    Case(
        "driver-too-old",
        _thrown(
            "RuntimeError",
            "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
            "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx",
        ),
        ranks=(1,),
        needs=("torch",),
        simulated="PyTorch with CUDA",
    ),
    Case(
        "no-gpu",
        """import os, time

import torch

if os.environ["RANK"] == "1":
    torch.ones(1).cuda()
time.sleep(60)
""",
        ranks=(1,),
        needs=("torch",),
    ),
    Case(
        "no-gpu",
        """import os

import torch

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
""",
        ranks=(0,),
        world="1x1",
        needs=("torch",),
        variant="set_device",
    ),
    Case(
        "gpu-of-checkpoint",
        """import os, time

import torch

if os.environ["RANK"] == "1":
    torch.serialization.location_tag = lambda storage: "cuda:3"  # as on the node where it was written
    torch.save(torch.ones(4), "model.pt")
    torch.load("model.pt")
time.sleep(60)
""",
        ranks=(1,),
        needs=("torch",),
    ),
    _cuda("gpu-architecture", "no kernel image is available for execution on the device"),
    _cuda("gpu-assert", "device-side assert triggered"),
    Case(
        "gpu-assert",
        """import os, sys, time

if os.environ["RANK"] == "1":
    print("terminate called after throwing an instance of 'c10::DistBackendError'", file=sys.stderr)
    print("  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: "
          "CUDA error: device-side assert triggered", file=sys.stderr, flush=True)
    os.abort()
time.sleep(60)
""",
        ranks=(1,),
        simulated="PyTorch with CUDA",
        variant="NCCL's watchdog aborts the rank",
        quick=True,
    ),
    _cuda("gpu-illegal-access", "an illegal memory access was encountered"),
    Case(
        "cuda-fork",
        """import multiprocessing, os, time

import torch


def batch(number):
    return torch.full((4,), number, device="cuda").sum().item()


if os.environ["RANK"] == "1":
    batch(0)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(batch, [1])
time.sleep(60)
""",
        ranks=(1,),
        keys={"virtual_gpus": 2},
        needs=("torch",),
    ),
    _cuda("cuda-earlier-error", "operation failed due to a previous error during capture", standing="unknown"),
    Case(
        "cuda-earlier-error",
        said("NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name=python, Ch 00000010"),
        "unknown",
        simulated="the NVIDIA driver",
        variant="Xid 43",
    ),
)
