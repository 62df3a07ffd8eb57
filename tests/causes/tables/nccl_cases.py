"""Causes in what NCCL says, all simulated: its warnings, and the exception that torch makes of an error of its."""

from __future__ import annotations

from causes.case import Case

_NODE = "node07:4711:4750 [0] "
_CODES = {
    "unhandled cuda error": "ncclUnhandledCudaError: Call to CUDA function failed.",
    "unhandled system error": "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
    "device error.",
    "internal error": "ncclInternalError: Internal check failed.",
    "invalid usage": "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    "remote process exited or there was a network error": "ncclRemoteError: A call failed possibly due to a network "
    "error or a remote process exiting prematurely.",
}
_PEER = "NET/IB: Got completion from peer 10.0.0.7<40312> with status="
_WATCHDOG = """import os, sys, time

rank = os.environ["RANK"]
if rank == "3":
    time.sleep(60)
time.sleep(int(rank))
call = f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=4, "
call += "NumelOut=4, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
print(f"[rank{rank}]:[E1129 21:04:11.5 ProcessGroupNCCL.cpp:688] {call}", file=sys.stderr)
print("terminate called after throwing an instance of 'c10::DistBackendError'", file=sys.stderr)
group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception"
print(f"  what():  {group}: {call}", file=sys.stderr, flush=True)
os.abort()
"""


def _nccl(name: str, kind: str, last: str, standing: str = "established", warns: str = "", variant: str = "") -> Case:
    """A case in which rank 1 meets an error of NCCL's. `last`: the last warning, as the exception tells it; `warns`:
    one that was printed alone, as of another thread."""
    text = (
        f"NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, {kind} (run with NCCL_DEBUG=INFO for "
        f"details), NCCL version 2.29.7\n{_CODES[kind]} \nLast error:\n{last}"
    )
    code = f"""import os, sys, time

import torch

if os.environ["RANK"] == "1":
    print({_NODE + (warns or "NCCL WARN " + last)!r}, file=sys.stderr, flush=True)
    raise torch.distributed.DistBackendError({text!r})
time.sleep(60)
"""
    return Case(name, code, standing, (1,), needs=("torch",), simulated="NCCL", variant=variant)


NCCL_CASES = (
    Case(
        "collective-timeout",
        _WATCHDOG,
        "supported",
        (3,),
        world="2x2",
        simulated="NCCL's watchdog of PyTorch",
        variant="NCCL's watchdog",
    ),
    _nccl(
        "no-interface",
        "internal error",
        "Bootstrap : no socket interface found",
        variant="NCCL",
    ),
    _nccl(
        "nccl-versions",
        "invalid usage",
        "Mismatched NCCL version detected : rank 1 version 22907 rank 0 version 22803",
    ),
    _nccl(
        "network-adapters-differ",
        "internal error",
        "Detected mixed local Net device counts across ranks (min 1, max 2). Set NCCL_IGNORE_NET_MISMATCH=1 to "
        "continue.",
    ),
    _nccl(
        "shared-memory",
        "unhandled system error",
        "Error: failed to extend /dev/shm/nccl-ylLhXs to 33030532 bytes, error: No space left on device (28)",
    ),
    _nccl(
        "shared-memory",
        "unhandled system error",
        "",
        "supported",
        "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-ylLhXs to 33030532 bytes, error: No space "
        "left on device (28)",
        variant="in a warning alone",
    ),
    _nccl(
        "shared-memory-removed",
        "unhandled system error",
        "Error while attaching to shared memory segment /dev/shm/nccl-ylLhXs (size 9637888), error: No such file or "
        "directory (2)",
    ),
    _nccl(
        "fabric-acs",
        "remote process exited or there was a network error",
        _PEER + "IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 (Recv)",
    ),
    _nccl(
        "fabric-peer-lost",
        "remote process exited or there was a network error",
        _PEER + "IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 (Send)",
    ),
    _nccl(
        "fabric-peer-lost",
        "remote process exited or there was a network error",
        _PEER + "12 opcode=0 len=0 vendor err 129 (Send)",
        variant="an older NCCL",
    ),
    _nccl(
        "fabric-flushed",
        "remote process exited or there was a network error",
        _PEER + "IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=244 (Send)",
        "unknown",
    ),
    _nccl(
        "peer-lost",
        "remote process exited or there was a network error",
        "socketProgress: Connection closed by remote peer node08<51034>",
        "unknown",
        variant="NCCL",
    ),
    _nccl("nccl-cuda", "unhandled cuda error", "Cuda failure 999 'unknown error'"),
    _nccl(
        "nccl-system",
        "unhandled system error",
        "",
        warns="transport/net_ib.cc:1245 NCCL INFO NET/IB : No device found.",
    ),
    _nccl("nccl-internal", "internal error", "Error: network not found."),
    _nccl(
        "nccl-system",
        "unhandled system error",
        "socketPollConnect: connect returned Operation not permitted",
        warns="NCCL INFO NET/IB : No device found.",
    )._replace(section="fabric-unused"),
)
