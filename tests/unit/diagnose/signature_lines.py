"""For each signature a line that programs write, and one with the same words that says something else.

Lines are (signature, line, near miss, whether the line is the text of an uncaught exception).
"""

from __future__ import annotations

from unit.diagnose.communication_lines import COMMUNICATION_EXAMPLES
from unit.diagnose.launch_lines import LAUNCH_EXAMPLES
from unit.diagnose.program_lines import PROGRAM_EXAMPLES
from unit.diagnose.signature_example import Example

EXAMPLES = (
    Example(
        "gpu-fault", "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.", "Xid 79 is looked for"
    ),
    Example("gpu-fault", "RuntimeError: CUDA error: uncorrectable ECC error encountered", "ECC errors: uncorrected 0"),
    Example("gpu-peer-access", "CUDA error: invalid access of peer GPU memory over nvlink", "peer GPU memory: enabled"),
    Example(
        "gpu-memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a capacity of 39.4 GiB",
        "if CUDA out of memory occurs, use a smaller --batch-size",
    ),
    Example(
        "gpu-memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
        "cublas: allocated",
    ),
    Example("gpu-index", "RuntimeError: CUDA error: invalid device ordinal", "device ordinal 3 is valid"),
    Example(
        "gpu-shared",
        "ncclInvalidUsage: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
        "no duplicate GPU detected",
    ),
    Example(
        "driver-too-old",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "the NVIDIA driver on your system is version 550",
    ),
    Example("no-gpu", "AssertionError: Torch not compiled with CUDA enabled", "torch is compiled with CUDA enabled"),
    Example("no-gpu", "RuntimeError: No CUDA GPUs are available", "8 CUDA GPUs are available"),
    Example(
        "gpu-architecture",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "kernel image loaded for execution on the device",
    ),
    Example("gpu-assert", "RuntimeError: CUDA error: device-side assert triggered", "assert len(devices) == 2"),
    Example(
        "gpu-illegal-access", "CUDA error: an illegal memory access was encountered", "memory access pattern: strided"
    ),
    Example(
        "cuda-fork",
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, use 'spawn'",
        "CUDA is initialised in the subprocess",
    ),
    Example(
        "cuda-earlier-error",
        "CUDA error: operation failed due to a previous error during capture",
        "the previous error rate during capture was 0.1",
    ),
    Example(
        "collective-mismatch",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: ALLREDUCE",
        "no mismatch between collectives",
    ),
    Example(
        "collective-mismatch",
        "RuntimeError: [pair.cc:424] op.preamble.length <= op.nbytes. 40 vs 16",
        "preamble.length 16, nbytes 40",
    ),
    Example(
        "barrier-missed",
        "RuntimeError: Rank 0: Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms",
        "Ranks 1, 3 passed monitoredBarrier",
    ),
    Example(
        "world-size-mismatch",
        "torch.distributed.DistStoreError: Timed out after 31 seconds waiting for clients. 1/4 clients joined.",
        "4/4 clients joined after 31 seconds",
    ),
    Example(
        "group-not-initialised",
        "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
        "Default process group initialized",
    ),
    Example(
        "collective-timeout",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE, NumelIn=4, "
        "NumelOut=4, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
        "the watchdog's timeout of collective operations is 600000 ms",
    ),
    Example(
        "collective-timeout",
        "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
        "the recv operation took 1800 ms",
    ),
    Example(
        "address-in-use",
        "OSError: [Errno 98] Address already in use",
        "worldsize found a port, since the address was not in use",
    ),
    Example(
        "download-failed",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache",
        "HF_HUB_OFFLINE is set: nothing is downloaded",
    ),
    Example(
        "name-not-resolved",
        "[W1129 21:04:11.5 socket.cpp:764] [c10d] The IPv6 network addresses of (gpu1, 29500) cannot be retrieved "
        "(gai error: -2 - Name or service not known).",
        "[W1129 21:04:11.5 socket.cpp:764] [c10d] The client socket has failed to connect: Name or service not known",
    ),
    Example(
        "name-not-resolved",
        "socket.gaierror: [Errno -2] Name or service not known",
        "the name of the service is not shown here",
    ),
    Example(
        "host-unreachable",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
        "(10.0.0.7, 29500).",
        "connecting to (10.0.0.7, 29500), timeout 60000 ms",
    ),
    Example("host-unreachable", "OSError: [Errno 113] No route to host", "route to host found"),
    Example(
        "no-interface",
        "NCCL WARN Bootstrap : no socket interface found",
        "Bootstrap : Using eth0:10.0.0.7<0>",
    ),
    Example(
        "nccl-versions", "NCCL WARN Mismatched NCCL version detected : rank 0 22905 rank 1 22803", "NCCL version 2.29.5"
    ),
    Example(
        "network-adapters-differ",
        "NCCL WARN Detected mixed local Net device counts across ranks",
        "local Net device count: 8",
    ),
    Example(
        "shared-memory",
        "NCCL WARN Error: failed to extend /dev/shm/nccl-ylLhXs to 33030532 bytes",
        "mapped /dev/shm/nccl-ylLhXs with 33030532 bytes",
    ),
    Example(
        "shared-memory-removed",
        "NCCL WARN unlink shared memory /dev/shm/nccl-ylLhXs failed, error: No such file or directory",
        "shared memory /dev/shm/nccl-ylLhXs unlinked",
    ),
    Example(
        "fabric-acs",
        "NET/IB: Got completion from peer 10.0.0.7<40312> with status=IBV_WC_LOC_PROT_ERR(4) opcode=0 vendor_err=81",
        "NET/IB: Using [0]mlx5_0:1/IB",
    ),
    Example(
        "fabric-peer-lost",
        "NET/IB: Got completion from peer 10.0.0.7<40312> with status=IBV_WC_RETRY_EXC_ERR(12) vendor_err=129",
        "NCCL_IB_RETRY_CNT set to 12",
    ),
    Example(
        "fabric-flushed",
        "NET/IB: Got completion from peer 10.0.0.7<40312> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=0",
        "caches flushed",
    ),
    Example("fabric-unused", "NCCL INFO NET/IB : No device found.", "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB"),
    Example(
        "peer-lost",
        "RuntimeError: [tcp/pair.cc:534] Connection closed by peer [127.0.1.1]:22453",
        "the file was closed",
    ),
    Example("nccl-cuda", "ncclUnhandledCudaError: Call to CUDA function failed.", "NCCL handled all CUDA errors"),
    Example(
        "nccl-system",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
        "system errors: 0",
    ),
    Example("nccl-internal", "ncclInternalError: Internal check failed.", "internal check passed"),
    Example(
        "horovod-shutdown",
        "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down.",
        "Horovod 0.28 is ready",
    ),
    Example(
        "mpi-abort",
        "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD",
        "call MPI_Abort to end all ranks",
    ),
    Example(
        "tensorflow-mirrored-input",
        "ValueError: Attempt to convert a value (PerReplica:{",
        "PerReplica values are reduced",
    ),
    Example(
        "host-memory",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "Killed",
    ),
    Example("host-memory", "srun: error: n1: task 0: Out Of Memory", "task 0: memory is left"),
    Example("host-memory", "slurmstepd: error: Exceeded job memory limit at some point.", "the memory limit is 4 GB"),
    Example(
        "host-memory",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 64 GiB",
        "memory: 64 GiB allocated",
    ),
    Example(
        "loader-shared-memory",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        "DataLoader worker 3 takes the bus",
    ),
    Example(
        "loader-worker-killed",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ",
        "DataLoader worker (pid 4711) ended",
    ),
    Example("disk-full", "OSError: [Errno 28] No space left on device: 'model.pt'", "space left on device: 3 GB"),
    Example("file-too-large", "OSError: [Errno 27] File too large", "the file is too large for a preview"),
    Example("native-abort", "free(): double free detected in tcache 2", "malloc(): 3 calls"),
    Example(
        "loader-shared-memory",
        "RuntimeError: unable to allocate shared memory(shm) for file </torch_4711_18529_0>: No space left on device",
        "unable to open file torch.txt",
    ),
    Example("share-stale", "OSError: [Errno 116] Stale file handle: 'data.bin'", "the cache is stale"),
    Example("io-error", "OSError: [Errno 5] Input/output error", "input and output are fine, no error"),
    Example("files-open", "OSError: [Errno 24] Too many open files: 'a'", "24 files are open"),
    Example("processes-full", "RuntimeError: can't start new thread", "starts a new thread"),
    Example("segmentation-fault", "Fatal Python error: Segmentation fault", "the segmentation model found no fault"),
    Example("illegal-instruction", "Illegal instruction (core dumped)", "an instruction that is legal"),
    Example(
        "native-abort", "terminate called after throwing an instance of 'std::runtime_error'", "abort on error: off"
    ),
    Example(
        "disk-waits",
        "INFO: task python:4711 blocked for more than 120 seconds.",
        "the task was blocked for 3 seconds",
    ),
    *COMMUNICATION_EXAMPLES,
    *PROGRAM_EXAMPLES,
    *LAUNCH_EXAMPLES,
)
