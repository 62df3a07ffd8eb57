"""What torch answers about the current device, and what begins CUDA: cases of answers.py, on a machine with two GPUs.

A device mesh chooses the device of a process only before CUDA has begun there, so that the difference counts. Sources:
torch/cuda/__init__.py, memory.py, random.py and _utils.py; csrc/cuda/Stream.cpp, csrc/Generator.cpp and
csrc/DeviceAccelerator.cpp; torch/distributed/device_mesh.py and distributed_c10d.py.
"""

# ruff: noqa: E501  each case on as few lines as it takes
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BEGINNING = (
    "cuda.init()",
    "cuda.current_device()",
    "cuda.set_device(0)",
    "cuda.get_device_name(0)",
    "cuda.is_bf16_supported()",
    "cuda.synchronize()",
    "cuda.current_stream()",
    "cuda.mem_get_info()",
    "cuda.get_rng_state()",
    "cuda.initial_seed()",
    "cuda.Stream(device=0)",
    "cuda.device(None)",
    "cuda.device(0).__enter__()",
    "torch.zeros(1, device='cuda')",
    "torch.zeros(1).cuda()",
    "torch.nn.Linear(1, 1).to('cuda')",
    "torch.autocast('cuda', dtype=torch.bfloat16)",
    "torch.accelerator.current_device_index()",
    "torch.accelerator.set_device_index(0)",
    "torch.accelerator.current_stream()",
    "torch.random.fork_rng(devices=[0]).__enter__()",
)
"""What begins CUDA, each in a process of its own."""

KEEPING = (
    "cuda.is_available()",
    "cuda.device_count()",
    "cuda.set_device(-1)",
    "cuda.device(0)",
    "cuda.device_of(torch.zeros(1)).__enter__()",
    "cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.memory_reserved(), cuda.memory_stats()",
    "cuda.empty_cache()",
    "cuda.manual_seed_all(1), torch.manual_seed(1), cuda.seed_all()",
    "cuda.set_rng_state(torch.get_rng_state(), 0)",
    "cuda.Stream(), cuda.Event()",
    "cuda.nvtx.mark('x')",
    "torch.Generator('cuda')",
    "torch.ones(1).pin_memory()",
    "(there := torch.device('cuda')).__enter__(), there.__exit__(None, None, None)",
    "torch.set_default_device('cuda'), torch.set_default_device(None)",
    "torch.autocast('cuda', dtype=torch.float16)",
    "torch.amp.GradScaler('cuda')",
    "torch.accelerator.is_available(), torch.accelerator.current_accelerator(), torch.accelerator.synchronize()",
    "torch.accelerator.device_index(None).__enter__()",
    "d.init_process_group('nccl', device_id=torch.device('cuda:0'), **world)",
)
"""What leaves it as it is, all in one process."""

_WORLD = "import torch.distributed as d; cuda = torch.cuda; world = dict(init_method='file://' + file + '.store', rank=0, world_size=1)\n"
_MESH = "import torch.distributed as d; from torch.distributed.device_mesh import init_device_mesh\nos.environ.update(RANK='0', WORLD_SIZE='1', LOCAL_RANK='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')\n"

CASES: dict[str, tuple[str, Any]] = {
    **{"begins: %s" % code: (_WORLD + code + "\nanswer = cuda.is_initialized()", True) for code in BEGINNING},
    "what does not begin": (
        _WORLD
        + "answer = []\nfor code in %r:\n    eval(code)\n    answer += [code] * cuda.is_initialized()" % (KEEPING,),
        [],
    ),
    "mesh by LOCAL_RANK": (
        _MESH
        + "mesh = init_device_mesh('cuda', (1,)); answer = torch.cuda.current_device(), mesh.device_type, d.get_backend()",
        [1, "cuda", "undefined"],
    ),
    "mesh after set_device": (
        _MESH + "torch.cuda.set_device(0); init_device_mesh('cuda', (1,)); answer = torch.cuda.current_device()",
        0,
    ),
    "mesh after a tensor": (
        _MESH + "torch.ones(1, device='cuda'); init_device_mesh('cuda', (1,)); answer = torch.cuda.current_device()",
        0,
    ),
    "mesh without LOCAL_RANK": (
        _MESH + "del os.environ['LOCAL_RANK']; init_device_mesh('cuda', (1,)); answer = torch.cuda.current_device()",
        0,
    ),
    "mesh of a missing GPU": (
        _MESH + "os.environ['LOCAL_RANK'] = '99'; init_device_mesh('cuda', (1,))",
        "AcceleratorError: CUDA error: invalid device ordinal",
    ),
    "mesh of the cpu": (
        _MESH + "mesh = init_device_mesh('cpu', (1,)); answer = mesh.device_type, torch.cuda.is_initialized()",
        ["cpu", False],
    ),
    "mesh of a group": (
        (
            _MESH
            + "d.init_process_group('nccl', init_method='file://' + file + '.store', rank=0, world_size=1); mesh = d.device_mesh.DeviceMesh.from_group(d.group.WORLD, 'cuda')\n"
            "answer = mesh.device_type, torch.cuda.is_initialized(), d.get_backend(mesh.get_group())"
        ),
        ["cuda", False, "nccl"],
    ),
    "group bound to a missing GPU": (
        _WORLD + "d.init_process_group('nccl', device_id=torch.device('cuda:99'), **world)",
        "ValueError: device_id cuda:99 is out of range. Please use a device index less than the number of accelerators available: ",
    ),
    "group bound to no index": (
        _WORLD + "d.init_process_group('nccl', device_id=torch.device('cuda'), **world)",
        "ValueError: Please use a device_id with index.",
    ),
    "backend by device": (
        _WORLD
        + "d.init_process_group('cpu:gloo,cuda:nccl', **world); d.all_reduce(torch.ones(1)); answer = d.get_backend()",
        "cpu:gloo,cuda:nccl",
    ),
    "default device without index": (
        "torch.set_default_device('cuda'); torch.cuda.set_device(1); answer = str(torch.ones(1).device), str(torch.get_default_device())",
        ["cuda:1", "cuda:1"],
    ),
    "default device inside with": (
        "with torch.device('cuda'): answer = str(torch.get_default_device())",
        "cuda:0",
    ),
    "accelerator's with": (
        (
            "with torch.accelerator.device_index(1): inside = torch.cuda.current_device(), str(torch.ones(1, device='cuda').device)\n"
            "answer = inside, torch.accelerator.current_device_index()"
        ),
        [[1, "cuda:1"], 0],
    ),
    "accelerator's streams": (
        (
            "s = torch.Stream(device='cuda'); e = torch.Event(device='cuda'); e.record()\n"
            "answer = s.device.type, isinstance(s, torch.Stream), isinstance(torch.cuda.Stream(), torch.Stream), torch.accelerator.current_stream().device.type"
        ),
        ["cuda", True, True, "cuda"],
    ),
    "device module": (
        "answer = torch.get_device_module().__name__, torch.get_device_module('cuda').__name__, torch.get_device_module('cpu').__name__",
        ["torch.cuda", "torch.cuda", "torch.cpu"],
    ),
    "device of a tensor": (
        "x = torch.ones(1, device='cuda:1')\nwith torch.cuda.device_of(x): inside = torch.cuda.current_device()\nanswer = inside, torch.cuda.current_device()",
        [1, 0],
    ),
    "forked random states": (
        (
            "torch.cuda.manual_seed_all(3); before = torch.cuda.get_rng_state()\n"
            "with torch.random.fork_rng(): torch.cuda.manual_seed_all(4)\n"
            "answer = torch.equal(before, torch.cuda.get_rng_state()), len(torch.cuda.default_generators) == torch.cuda.device_count()"
        ),
        [True, True],
    ),
    "pinned batches": (
        (
            "from torch.utils.data import DataLoader\n"
            "answer = [(b['x'].is_pinned(), b['y'][0].is_pinned()) for b in DataLoader([{'x': torch.ones(1), 'y': [torch.ones(1)]}] * 2, pin_memory=True)]"
        ),
        [[True, True], [True, True]],
    ),
    "made in pinned memory": (
        "answer = torch.empty(2, pin_memory=True).is_pinned(), torch.zeros(2).is_pinned()",
        [True, False],
    ),
    "torchrun counts GPUs": (
        "from torch.distributed.run import determine_local_world_size as count; answer = count('gpu') == torch.cuda.device_count() > 0",
        True,
    ),
    "backends by name": (
        "import torch.distributed as d; answer = d.is_backend_available('nccl'), d.is_backend_available('none')",
        [True, False],
    ),
    "ranges for a profiler": (
        "with torch.autograd.profiler.emit_nvtx(), torch.cuda.nvtx.range('x'), torch.cuda.profiler.profile(): answer = torch.ones(1, device='cuda').tolist()",
        [1.0],
    ),
    "batches not pinned": (
        "from torch.utils.data import DataLoader; answer = [b.is_pinned() for b in DataLoader(torch.ones(2))]",
        [False, False],
    ),
    "autocast's type": (
        (
            "with torch.autocast('cuda', dtype=torch.bfloat16): inside = str(torch.get_autocast_dtype('cuda')), torch.is_autocast_enabled('cuda')\n"
            "answer = inside, torch.is_autocast_enabled('cuda')"
        ),
        [["torch.bfloat16", True], False],
    ),
    "functions in autocast": (
        (
            "class Twice(torch.autograd.Function):\n"
            "    @staticmethod\n    @torch.amp.custom_fwd(device_type='cuda', cast_inputs=torch.float32)\n    def forward(c, x): seen.append((str(x.dtype), torch.is_autocast_enabled())); return x * 2\n"
            "    @staticmethod\n    @torch.amp.custom_bwd(device_type='cuda')\n    def backward(c, g): return g * 2\n"
            "seen = []; x = torch.ones(2, 2, device='cuda', requires_grad=True)\n"
            "with torch.autocast('cuda', dtype=torch.bfloat16): y = Twice.apply(x @ x)\n"
            "y.sum().backward(); answer = seen, str(x.grad.device)"
        ),
        [[["torch.float32", False]], "cuda:0"],
    ),
}
