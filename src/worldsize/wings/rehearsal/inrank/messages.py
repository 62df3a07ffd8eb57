"""What the real thing says: one table, so that a machine with a GPU can compare (scripts/compare_virtual_gpu.py).

Sources: c10/cuda/CUDAMiscFunctions.cpp and CUDAException.cpp (ORDINAL), CUDAFunctions.cpp (NO_GPUS),
torch/cuda/__init__.py (FORK, DEVICE_ID), torch/cuda/_utils.py (EXPECTED_CUDA), torch/csrc/utils/tensor_numpy.cpp
(NUMPY), aten/src/ATen/native/Memory.cpp (PINNED), ATen's device check (MIXED), native/Convolution.cpp (CONVOLUTION),
torch/serialization.py (LOAD), torch/csrc/distributed/c10d/ProcessGroup (NO_BACKEND), torch/nn/parallel/distributed.py
(the DDP_ ones), NCCL's init.cc as c10d/NCCLUtils.hpp wraps it (DUPLICATE).
"""

from __future__ import annotations

ORDINAL = (
    "CUDA error: invalid device ordinal\n"
    "GPU device may be out of range, do you have enough GPUs?\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
NO_GPUS = "No CUDA GPUs are available"
FORK = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method"
)
DEVICE_ID = "Invalid device id"
EXPECTED_CUDA = "Expected a cuda device, but got: %s"
NUMPY = "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
PINNED = "cannot pin '%s' only dense CPU tensors can be pinned"
MIXED = "Expected all tensors to be on the same device, but found at least two devices, %s and %s!"
CONVOLUTION = "Input type (%s) and weight type (%s) should be the same"
CONVOLUTION_ON_CPU = " or input should be a MKLDNN tensor and weight is a dense tensor"
LOAD = (
    "Attempting to deserialize object on CUDA device %d but torch.cuda.device_count() is %d. Please use torch.load "
    "with map_location to map your storages to an existing device."
)
LOAD_WITHOUT = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a "
    "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
)
NO_BACKEND = "No backend type associated with device type cpu"
DDP_DEVICE_IDS = (
    "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU "
    "modules or CPU modules, but got device_ids %s, output_device %s, and module parameters %s."
)
DDP_TYPES = (
    "DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate "
    "in %s."
)
DDP_ONE = "device_ids can only be None or contain a single element."
DUPLICATE = (
    "NCCL error in: virtual GPUs, invalid usage (run with NCCL_DEBUG=WARN for details)\n"
    "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
    "Last error:\n"
    "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d"
)
EVENT_TIMING = "Both events must be created with argument 'enable_timing=True'."
EVENT_RECORDED = "Both events must be recorded before calculating elapsed time."

# What only a rehearsal says.
REFUSED = "worldsize rehearsal: %s cannot be rehearsed on virtual GPUs (docs/rehearsal.md)"
WORLD = (
    "worldsize rehearsal: the script asks for a world of %d processes, and the run has %d: on a cluster this waits "
    "until the time-out. Take the world size from WORLD_SIZE"
)
LOOPBACK = (
    "worldsize rehearsal: rank %d is on node %d, and would meet the others at %s, which is its own node: on a cluster "
    "this waits until the time-out. Take the address from MASTER_ADDR (init_method='env://')"
)
