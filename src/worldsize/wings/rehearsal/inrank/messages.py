"""The error messages of torch, CUDA and NCCL in one table, so that a machine with a GPU can compare them
(scripts/compare_virtual_gpu.py).

Sources: c10/cuda/CUDAMiscFunctions.cpp and CUDAException.cpp (ORDINAL), CUDAFunctions.cpp (NO_GPUS),
torch/cuda/__init__.py (FORK, DEVICE_ID), torch/cuda/_utils.py (EXPECTED_CUDA), torch/csrc/utils/tensor_numpy.cpp
(NUMPY), aten/src/ATen/native/Memory.cpp (PINNED), ATen's device check (MIXED), native/Convolution.cpp (CONVOLUTION),
torch/serialization.py (LOAD), torch/csrc/distributed/c10d/ProcessGroup (NO_BACKEND), torch/nn/parallel/distributed.py
(the DDP_ ones), torch/distributed/distributed_c10d.py (the BOUND_ ones) and device_mesh.py (the MESH_ ones),
torch/distributed/checkpoint/state_dict_saver.py (ASYNCHRONOUS_SAVE), torch/distributed/fsdp/_init_utils.py and
_runtime_utils.py (the FSDP_ ones), NCCL's init.cc as c10d/NCCLUtils.hpp wraps it (DUPLICATE).
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
ASYNCHRONOUS_SAVE = (
    "A CPU backend must be enabled for async save; try initializing process group with 'cpu:gloo,cuda:nccl'"
)
FSDP_DEVICES = "Inconsistent compute device and `device_id` on rank %d: cuda:%d vs cuda:%d"
FSDP_ON_CPU = (
    "An FSDP-managed module unexpectedly has parameters on cpu. Make sure to move the module to cuda:%d before training"
    "."
)
MESH_CHOICE = (
    "It seems like you did not set/select the default device for the current process before the DeviceMesh "
    "initialization or use a launcher (i.e. torchrun) which populates `LOCAL_RANK` environment variable. It is "
    "recommended to set the current device for the process BEFORE the DeviceMesh initialization so that the underlying "
    "communicator (i.e. NCCL) can be initialized properly. Given that the current process has no default device "
    "selected, DeviceMesh will use a heuristic to set the device_id via `global_rank % num_devices_per_host`, assuming "
    "homogeneous hardware cluster. "
)
MESH_UNEVEN = "DeviceMesh only support homogeneous hardware, but found %d ranks and %d cuda devices!"
BOUND_TO_CPU = "init_process_group device_id parameter must be an accelerator with an index"
BOUND_TO_ANY = "Please use a device_id with index."
BOUND_TO_MISSING = (
    "device_id %s is out of range. Please use a device index less than the number of accelerators available: %d."
)
DUPLICATE = (
    "NCCL error in: virtual GPUs, invalid usage (run with NCCL_DEBUG=WARN for details)\n"
    "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
    "Last error:\n"
    "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d"
)
EVENT_TIMING = "Both events must be created with argument 'enable_timing=True'."
EVENT_RECORDED = "Both events must be recorded before calculating elapsed time."

# Messages that exist only in a rehearsal.
REFUSED = "worldsize rehearsal: %s cannot be rehearsed on virtual GPUs (docs/how-to/training/rehearsal.md)"
WORLD = (
    "worldsize rehearsal: the script asks for a world of %d processes, and the run has %d: on a cluster this waits "
    "until the time-out. Take the world size from WORLD_SIZE"
)
LOOPBACK = (
    "worldsize rehearsal: rank %d is on node %d, and would meet the others at %s, which is its own node: on a cluster "
    "this waits until the time-out. Take the address from MASTER_ADDR (init_method='env://')"
)
