"""Further lines of communication and of GPUs, as those of signature_lines.py."""

from __future__ import annotations

from unit.diagnose.signature_example import Example

COMMUNICATION_EXAMPLES = (
    Example(
        "gpu-fault", "NVRM: Xid (PCI:0000:3b:00): 48, pid=4711, DBE", "NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper"
    ),
    Example(
        "gpu-illegal-access",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS",
        "NVRM: Xid (PCI:0000:3b:00): 92, pid=4711, High single-bit ECC error rate",
    ),
    Example(
        "cuda-earlier-error",
        "NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name=python, Ch 00000010",
        "Xid 43 is no fault of the GPU",
    ),
    Example(
        "gpu-of-checkpoint",
        "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1.",
        "deserialized the object on CUDA device 3",
    ),
    Example(
        "gpu-memory",
        "node07:4711:4750 [0] NCCL WARN Cuda failure 2 'out of memory'",
        "NCCL INFO Cuda memory: 2 MiB",
    ),
    Example(
        "gpu-index",
        "ValueError: device_id cuda:7 is out of range. Please use a device index less than the number of accelerators "
        "available: 4.",
        "ValueError: learning rate 7 is out of range",
    ),
    Example("no-gpu", "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'", "_cuda_setDevice called"),
    Example(
        "collective-mismatch",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3, OpType=BARRIER), but Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float)",
        "Rank 0 is running collective: ALLREDUCE",
    ),
    Example(
        "collective-timeout",
        "torch.distributed.DistStoreError: wait timeout after 2000ms, keys: /default_pg/0//cpu//0/0",
        "the store's wait timeout is 2000 ms",
    ),
    Example(
        "collective-timeout",
        "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: step::0.",
        "the barrier's deadline is 3 s",
    ),
    Example(
        "download-failed",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
        "exceeded with url: /org/model",
        "the number of retries exceeded 3 of 5",
    ),
    Example(
        "no-interface",
        "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: nosuch",
        "found an address for eth0",
    ),
    Example(
        "fabric-acs",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<40312> with status=4 opcode=0 len=0 vendor err 81 (Recv)",
        "NET/IB : Got completion from peer 10.0.0.7<40312> with status=0 opcode=0 len=0 vendor err 0 (Recv)",
    ),
    Example(
        "fabric-peer-lost",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<40312> with error 12, opcode 0, len 0, vendor err 129",
        "NET/IB : Got completion from peer 10.0.0.7<40312> with status=1 opcode=0 len=12 vendor err 0 (Recv)",
    ),
    Example(
        "fabric-flushed",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<40312> with status=5 opcode=0 len=0 vendor err 244",
        "NET/IB : Got completion from peer 10.0.0.7<40312>",
    ),
    Example(
        "peer-lost",
        "NCCL error in: NCCLUtils.cpp:94, remote process exited or there was a network error, NCCL version 2.29.7\n"
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely. \n"
        "Last error:\nsocketProgress: Connection closed by remote peer node08<51034>",
        "Last error:\nnone",
        True,
    ),
    Example(
        "horovod-shutdown",
        "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down.",
        "    raise HorovodInternalError(e)",
    ),
)
