"""Messages of GPUs, their driver and CUDA. Texts of PyTorch are from c10/cuda and torch/cuda, those of the driver from
the kernel's log."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Role, Signature

GPUS = (
    Signature(
        "gpu-fault",
        r"NVRM: Xid \([^)]{0,80}\): (?P<xid>(?!(?:13|31|43|45|63|92)\b)\d+)\b",
        "the GPU's driver reported Xid {xid}",
        "leave the node out (slurm.exclude: NAME) and report the Xid to the cluster's administrators",
        "the NVIDIA driver, in the kernel's log",
    ),
    Signature(
        "gpu-fault",
        r"uncorrectable ECC error (?:was )?(?:encountered|detected)|[:,] GPU has fallen off the bus|: GPU is lost"
        r"|NVLink.{0,120}(?:link down|recovery failed|fatal)(?!: ?0)"
        r"|AER: .{0,80}\((?:Fatal|Uncorrectable)\)|GPU.{0,80}thermal shutdown",
        "the GPU, or its link, has a fault",
        "leave the node out (slurm.exclude: NAME) and report it to the cluster's administrators",
        "CUDA, the NVIDIA driver",
    ),
    Signature(
        "gpu-peer-access",
        r"invalid access of peer GPU memory",
        "a GPU lost the memory of another one that it reads over NVLink",
        "look at that node's GPUs: `nvidia-smi -q`, `worldsize check`; without its node the run may succeed",
        "CUDA",
    ),
    Signature(
        "gpu-memory",
        r"CUDA out of memory\. Tried|(?:torch\.)?(?:cuda\.)?OutOfMemoryError: (?:CUDA|HIP|XPU) out of memory"
        r"|CUDA error: out of memory|HIP out of memory\. Tried|CUBLAS_STATUS_ALLOC_FAILED"
        r"|RESOURCE_EXHAUSTED: Out of memory while trying to allocate|OOM when allocating tensor"
        r"|Cuda failure (?:\d+ )?'out of memory'",
        "the GPU's memory is full",
        "a smaller batch per rank, gradient accumulation or checkpointing, a smaller or sharded model; "
        "`nvidia-smi` shows whether another process uses the same GPU",
        "PyTorch, cuBLAS, NCCL, XLA, TensorFlow",
    ),
    Signature(
        "gpu-index",
        r"CUDA error: invalid device ordinal|Cuda failure (?:\d+ )?'invalid device ordinal'"
        r"|device_id \S+ is out of range\. Please use a device index less than the number of accelerators available",
        "it asked for a GPU whose number this process does not have",
        "the index counts the GPUs that this process sees on its own node: torch.cuda.set_device(int(os.environ["
        '"LOCAL_RANK"])), and not the rank in the world; with visible_devices: true each process sees one GPU, 0',
        "CUDA, PyTorch, NCCL",
    ),
    Signature(
        "gpu-shared",
        r"Duplicate GPU detected|Multiple [Rr]anks are using the same GPU",
        "two ranks use one GPU",
        "each process of a node needs a GPU of its own: torch.cuda.set_device(int(os.environ["
        '"LOCAL_RANK"])) before the first tensor is sent to `cuda` and before the process group is used',
        "NCCL",
    ),
    Signature(
        "driver-too-old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient for CUDA runtime version"
        r"|forward compatibility was attempted on non supported HW"
        r"|unsupported display driver / cuda driver combination",
        "the node's NVIDIA driver is older than the CUDA that this torch is built for",
        "install a torch that is built for an older CUDA (pip's index for it, such as cu118), or ask for nodes with a "
        "newer driver; `nvidia-smi` shows which CUDA the driver knows",
        "PyTorch: torch/csrc/cuda/Module.cpp; CUDA",
    ),
    Signature(
        "no-gpu",
        r"Torch not compiled with CUDA enabled|module 'torch\._C' has no attribute '_cuda_|No CUDA GPUs are available"
        r"|Found no NVIDIA driver on your system|no CUDA-capable device is detected|CUDA is not available\b"
        r"|No HIP GPUs are available",
        "it needs a GPU, and this process sees none",
        "ask for GPUs in the job (resources: or slurm: gpus_per_node), and install a torch that is built for CUDA; a "
        "login node has no GPU",
        "PyTorch: torch/cuda/__init__.py; CUDA",
    ),
    Signature(
        "gpu-of-checkpoint",
        r"Attempting to deserialize object on (?P<detail>a CUDA device|CUDA device \d+) but torch\.cuda\.",
        "the file holds tensors of a GPU that this process does not have",
        'torch.load(path, map_location="cpu"), or the rank\'s own device as map_location',
        "PyTorch: torch/serialization.py",
    ),
    Signature(
        "gpu-architecture",
        r"no kernel image is available for execution on the device|CUDA capability sm_\d+ is not compatible",
        "this build of CUDA code does not support the node's GPU model",
        "install a build for that GPU, or leave nodes of that model out",
        "CUDA, PyTorch",
    ),
    Signature(
        "gpu-assert",
        r"CUDA error: device-side assert triggered|device-side assert",
        "a check inside a GPU kernel failed: nearly always an index out of range, such as a class number",
        "run it once with CUDA_LAUNCH_BLOCKING=1, or on the CPU: then the traceback shows the line",
        "CUDA",
    ),
    Signature(
        "gpu-illegal-access",
        r"NVRM: Xid \([^)]{0,80}\): (?P<xid>13|31)\b",
        "the GPU's driver reported Xid {xid}: a GPU kernel read or wrote where it must not",
        "run it once with CUDA_LAUNCH_BLOCKING=1: then the traceback shows the call; where it happens on one "
        "node only, "
        "its GPU may be faulty",
        "the NVIDIA driver, in the kernel's log",
    ),
    Signature(
        "gpu-illegal-access",
        r"an illegal memory access was encountered|CUDA error: misaligned address|CUBLAS_STATUS_EXECUTION_FAILED",
        "a GPU kernel read or wrote where it must not",
        "run it once with CUDA_LAUNCH_BLOCKING=1: then the traceback shows the call; where it happens on one "
        "node only, "
        "its GPU may be faulty",
        "CUDA",
    ),
    Signature(
        "cuda-fork",
        r"Cannot re-initialize CUDA in forked subprocess",
        "a forked child used CUDA after its parent had begun with it",
        'multiprocessing.set_start_method("spawn"), or multiprocessing_context="spawn" of the DataLoader; no CUDA '
        "tensors in a Dataset",
        "PyTorch: torch/cuda/__init__.py",
    ),
    Signature(
        "cuda-earlier-error",
        r"NVRM: Xid \([^)]{0,80}\): (?P<xid>43|45)\b",
        "the GPU's driver reported Xid {xid}: it ended what a process had begun that had failed or was killed",
        "look for an earlier line of the same rank",
        "the NVIDIA driver, in the kernel's log",
        Role.CASCADE,
    ),
    Signature(
        "cuda-earlier-error",
        r"operation failed due to a previous error during capture|NCCL WARN Cuda failure",
        "CUDA failed earlier",
        "look for an earlier line of the same rank",
        "CUDA, NCCL",
        Role.CASCADE,
    ),
)
