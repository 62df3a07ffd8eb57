"""What torch answers on a machine with two GPUs or more: one table, for virtual ones and for real ones.

Each case is a few lines of a script; `answer` is what they leave in that name, or what they raise: its type and the
first line of its message. Nothing of a GPU's name, memory or speed. Sources of the messages: wings/rehearsal/inrank/messages.py.
Run by test_answers.py on virtual GPUs and by scripts/compare_virtual_gpu.py on real ones.
"""

# ruff: noqa: E501  each case on as few lines as it takes
from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib import import_module

import device_answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ORDINAL = "AcceleratorError: CUDA error: invalid device ordinal"
"""A RuntimeError before torch 2.8."""
MIXED = "RuntimeError: Expected all tensors to be on the same device, but "

CASES: dict[str, tuple[str, Any]] = {
    "available": ("answer = torch.cuda.is_available(), torch.cuda.device_count() >= 2", [True, True]),
    "current": ("torch.cuda.set_device(1); answer = torch.cuda.current_device()", 1),
    "set_device by name": ("torch.cuda.set_device('cuda:1'); answer = torch.cuda.current_device()", 1),
    "set_device too high": ("torch.cuda.set_device(torch.cuda.device_count())", ORDINAL),
    "set_device negative": ("torch.cuda.set_device(-1); answer = torch.cuda.current_device()", 0),
    "set_device cpu": ("torch.cuda.set_device('cpu')", "ValueError: Expected a cuda device, but got: cpu"),
    "properties too high": ("torch.cuda.get_device_properties(99)", "AssertionError: Invalid device id"),
    "name too high": ("torch.cuda.get_device_name(99)", "AssertionError: Invalid device id"),
    "with device": (
        "with torch.cuda.device(1): inside = torch.cuda.current_device()\nanswer = inside, torch.cuda.current_device()",
        [1, 0],
    ),
    "zeros too high": ("torch.zeros(1, device='cuda:99')", ORDINAL),
    "to too high": ("torch.zeros(1).to('cuda:99')", ORDINAL),
    "cuda too high": ("torch.zeros(1).cuda(99)", ORDINAL),
    "module too high": ("torch.nn.Linear(1, 1).to('cuda:99')", ORDINAL),
    "device": ("answer = str(torch.zeros(1, device='cuda').device)", "cuda:0"),
    "device of current": ("torch.cuda.set_device(1); answer = str(torch.zeros(1).cuda().device)", "cuda:1"),
    "by number": (
        "answer = str(torch.zeros(1, device=1).device), str(torch.zeros(1).to(1).device)",
        ["cuda:1", "cuda:1"],
    ),
    "module by keyword": (
        "answer = str(torch.nn.Linear(1, 1).to(device=torch.device('cuda', 1), dtype=torch.float64).weight.device)",
        "cuda:1",
    ),
    "module by number": ("answer = str(torch.nn.Linear(1, 1).to(1).weight.device)", "cuda:1"),
    "looks": (
        "x = torch.ones(2, device='cuda:1')\nanswer = x.is_cuda, x.is_cpu, x.device.type, x.get_device(), x.type()",
        [True, False, "cuda", 1, "torch.cuda.FloatTensor"],
    ),
    "printed": ("answer = repr(torch.zeros(2, device='cuda:1'))", "tensor([0., 0.], device='cuda:1')"),
    "printed with dtype": (
        "answer = repr(torch.zeros(2, device='cuda', dtype=torch.half))",
        "tensor([0., 0.], device='cuda:0', dtype=torch.float16)",
    ),
    "results": (
        (
            "x = torch.ones(2, 2, device='cuda')\n"
            "answer = [str(y.device) for y in (x + 1, x @ x, x[0], x.t(), x.sum(), torch.cat([x, x]), x.max(0).values, x > 0)]"
        ),
        ["cuda:0"] * 8,
    ),
    "likes": (
        (
            "x = torch.ones(2, device='cuda:1')\n"
            "answer = [str(y.device) for y in (torch.zeros_like(x), x.new_zeros(1), torch.zeros_like(x, device='cpu'))]"
        ),
        ["cuda:1", "cuda:1", "cpu"],
    ),
    "back": (
        "answer = str(torch.ones(1, device='cuda').cpu().device), str((torch.ones(1).cuda() + 1).to('cpu').device)",
        ["cpu", "cpu"],
    ),
    "copies": (
        "x = torch.ones(1)\ny = x.cuda()\ny += 1\nz = y.cpu()\ny += 1\nanswer = x.item(), y.item(), z.item()",
        [1.0, 3.0, 2.0],
    ),
    "same device": (
        "x = torch.ones(1).cuda(); answer = x.cuda() is x, x.to('cuda:0') is x, x.to('cuda:1') is x",
        [True, True, False],
    ),
    "gradients": (
        "x = torch.ones(2, device='cuda', requires_grad=True)\n(x * 3).sum().backward()\nanswer = str(x.grad.device), x.grad.tolist()",
        ["cuda:0", [3.0, 3.0]],
    ),
    "gradients through a move": (
        "x = torch.ones(2, requires_grad=True)\n(x.cuda() * 3).sum().backward()\nanswer = str(x.grad.device), x.grad.tolist()",
        ["cpu", [3.0, 3.0]],
    ),
    "module": (
        (
            "m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).cuda(1)\n"
            "answer = sorted({str(t.device) for t in m.state_dict().values()}), str(m(torch.ones(3, 2).cuda(1)).device)"
        ),
        [["cuda:1"], "cuda:1"],
    ),
    "module back": (
        "m = torch.nn.Linear(1, 1).cuda(); m.cpu(); a = str(m.weight.device); m.cuda(1).to('cpu'); answer = a, str(m.weight.device), m.weight.detach().numpy().size",
        ["cpu", "cpu", 1],
    ),
    "inputs of a user's function": (
        (
            "class M(torch.nn.Module):\n    def forward(self, x): return x + torch.arange(2, device=x.device)\n"
            "answer = str(M()(torch.ones(2, device='cuda:1')).device)"
        ),
        "cuda:1",
    ),
    "packed sequences": (
        (
            "p = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4, device='cuda'), torch.tensor([3, 2])); l = torch.nn.LSTM(4, 5).cuda()\n"
            "y, (h, c) = l(p); answer = str(y.data.device), str(h.device), str(torch.nn.utils.rnn.pad_packed_sequence(y)[0].device)"
        ),
        ["cuda:0", "cuda:0", "cuda:0"],
    ),
    "transformer": (
        (
            "t = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).cuda(); x = torch.ones(1, 3, 8, device='cuda')\n"
            "t(x, mask=torch.nn.Transformer.generate_square_subsequent_mask(3, device='cuda')).sum().backward()\n"
            "answer = str(t.eval()(x).device), all(str(p.grad.device) == 'cuda:0' for p in t.parameters())"
        ),
        ["cuda:0", True],
    ),
    "optimizers": (
        (
            "out = []\nfor kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop):\n"
            "    m = torch.nn.Linear(2, 1).cuda(); o = kind(m.parameters(), lr=0.1); m(torch.ones(1, 2).cuda()).sum().backward(); o.step()\n"
            "    torch.save(o.state_dict(), file); o.load_state_dict(torch.load(file, map_location='cuda:0')); m(torch.ones(1, 2).cuda()).sum().backward(); o.step()\n"
            "    out += [str(t.device) for s in o.state.values() for t in s.values() if torch.is_tensor(t) and t.dim()]\nanswer = sorted(set(out))"
        ),
        ["cuda:0"],
    ),
    "data loader": (
        (
            "from torch.utils.data import DataLoader, TensorDataset\nd = DataLoader(TensorDataset(torch.ones(4, 2), torch.zeros(4)), batch_size=2, pin_memory=True)\n"
            "m = torch.nn.Linear(2, 1).cuda(); answer = [(str(m(x.cuda(non_blocking=True)).device), str(x.device)) for x, y in d]"
        ),
        [["cuda:0", "cpu"], ["cuda:0", "cpu"]],
    ),
    "saved file says nothing of us": (
        (
            "m = torch.nn.Linear(1, 1).cuda(); torch.save(m.state_dict(), file); import pickle\n"
            "answer = b'worldsize' in open(file, 'rb').read(), b'_worldsize' in pickle.dumps(m.weight), str(m.weight.device)"
        ),
        [False, False, "cuda:0"],
    ),
    "module keeps its parameters": (
        "m = torch.nn.Linear(1, 1); w = m.weight; m.cuda(); answer = m.weight is w, str(w.device)",
        [True, "cuda:0"],
    ),
    "mixed": ("torch.ones(2, device='cuda') + torch.ones(2)", MIXED),
    "mixed devices": ("torch.ones(2, device='cuda:0') + torch.ones(2, device='cuda:1')", MIXED),
    "mixed with a number": ("answer = str((torch.ones(2, device='cuda') + torch.tensor(1.0)).device)", "cuda:0"),
    "mixed module": ("torch.nn.Linear(2, 2).cuda()(torch.ones(1, 2))", MIXED),
    "mixed loss": ("torch.nn.functional.mse_loss(torch.ones(2).cuda(), torch.ones(2))", MIXED),
    "mixed convolution": (
        "torch.nn.Conv2d(3, 8, 3).cuda()(torch.ones(4, 3, 32, 32))",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
    ),
    "mixed convolution of a model on the cpu": (
        "torch.nn.Conv2d(3, 8, 3)(torch.ones(4, 3, 32, 32).cuda())",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    "copy_ across": (
        "x = torch.zeros(2).cuda(); x.copy_(torch.ones(2)); answer = x.tolist(), str(x.device)",
        [[1.0, 1.0], "cuda:0"],
    ),
    "index by the cpu": ("answer = torch.arange(4, device='cuda')[torch.tensor([1, 2])].tolist()", [1, 2]),
    "numpy": (
        "torch.ones(1).cuda().numpy()",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    ),
    "numpy's own way": (
        "import numpy as np; np.asarray(torch.ones(1).cuda())",
        "TypeError: can't convert cuda:0 device type tensor to numpy.",
    ),
    "lazy layers": ("answer = str(torch.nn.LazyLinear(2).cuda()(torch.ones(1, 3).cuda()).device)", "cuda:0"),
    "meta": (
        "answer = str(torch.ones(1).cuda().to('meta').device), str(torch.nn.Linear(1, 1, device='meta').to_empty(device='cuda').weight.device)",
        ["meta", "cuda:0"],
    ),
    "pinned": (
        "x = torch.ones(1).pin_memory(); answer = x.is_pinned(), torch.ones(1).is_pinned(), str(x.device)",
        [True, False, "cpu"],
    ),
    "pinned on a GPU": (
        "torch.ones(1).cuda().pin_memory()",
        "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    ),
    "default device": (
        (
            "torch.set_default_device('cuda:1')\nx = torch.ones(1)\ny = str(torch.get_default_device())\ntorch.set_default_device(None)\n"
            "answer = str(x.device), y, str(torch.ones(1).device)"
        ),
        ["cuda:1", "cuda:1", "cpu"],
    ),
    "with a device": (
        "with torch.device('cuda:1'):\n    m = torch.nn.Linear(1, 1)\nanswer = str(m.weight.device), str(torch.nn.Linear(1, 1).weight.device)",
        ["cuda:1", "cpu"],
    ),
    "layer made there": ("answer = str(torch.nn.Linear(1, 1, device='cuda').weight.device)", "cuda:0"),
    "saved and loaded": (
        (
            "torch.save({'x': torch.ones(1, device='cuda')}, file)\n"
            "answer = [str(torch.load(file, map_location=place)['x'].device) for place in ('cpu', 'cuda:1', torch.device('cuda', 0))]"
        ),
        ["cpu", "cuda:1", "cuda:0"],
    ),
    "loaded too high": (
        "torch.save(torch.ones(1), file); torch.load(file, map_location='cuda:99')",
        "RuntimeError: Attempting to deserialize object on CUDA device 99 but torch.cuda.device_count() is ",
    ),
    "autocast": (
        (
            "m = torch.nn.Linear(2, 2).cuda()\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n"
            "    y = m(torch.ones(1, 2).cuda()); inside = torch.is_autocast_enabled()\nanswer = str(y.dtype), inside, torch.is_autocast_enabled()"
        ),
        ["torch.bfloat16", True, False],
    ),
    "scaler": (
        (
            "m = torch.nn.Linear(2, 1).cuda(); o = torch.optim.SGD(m.parameters(), 0.1); s = torch.amp.GradScaler('cuda')\n"
            "before = m.weight.detach().clone()\ns.scale(m(torch.ones(1, 2).cuda()).sum()).backward(); s.unscale_(o); g = m.weight.grad.tolist()\n"
            "s.step(o); s.update(); answer = g, s.get_scale(), bool((before != m.weight).all()), s.is_enabled()"
        ),
        [[[1.0, 1.0]], 65536.0, True, True],
    ),
    "streams": (
        (
            "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    x = torch.ones(2, device='cuda') * 2; inside = torch.cuda.current_stream() == s\n"
            "torch.cuda.current_stream().wait_stream(s); x.record_stream(s); torch.cuda.synchronize()\n"
            "answer = inside, torch.cuda.current_stream() == torch.cuda.default_stream(), x.tolist(), s.query()"
        ),
        [True, True, [2.0, 2.0], True],
    ),
    "events": (
        (
            "a, b = (torch.cuda.Event(enable_timing=True) for _ in 'ab')\na.record(); torch.ones(9, device='cuda').sum(); b.record()\n"
            "torch.cuda.synchronize(); answer = a.elapsed_time(b) >= 0, b.query()"
        ),
        [True, True],
    ),
    "memory": (
        (
            "before = torch.cuda.memory_allocated()\nx = torch.zeros(1 << 20, device='cuda')\nnow = torch.cuda.memory_allocated() - before\n"
            "torch.cuda.reset_peak_memory_stats()\npeak = torch.cuda.max_memory_allocated()\nfree, total = torch.cuda.mem_get_info()\n"
            "answer = now, peak >= now, free < total == torch.cuda.get_device_properties(0).total_memory, torch.cuda.memory_reserved() >= now"
        ),
        [4 << 20, True, True, True],
    ),
    "random states": (
        (
            "torch.cuda.manual_seed_all(5)\ns = torch.cuda.get_rng_state_all()\ntorch.cuda.set_rng_state_all(s)\n"
            "answer = len(s) == torch.cuda.device_count(), str(s[0].dtype), torch.cuda.initial_seed()"
        ),
        [True, "torch.uint8", 5],
    ),
    "seeds repeat": (
        "torch.manual_seed(3); a = torch.rand(3, device='cuda'); torch.manual_seed(3); answer = torch.equal(a, torch.rand(3, device='cuda'))",
        True,
    ),
    "generator": (
        "g = torch.Generator(device='cuda').manual_seed(1); answer = str(g.device), str(torch.rand(1, generator=g, device='cuda').device)",
        ["cuda", "cuda:0"],
    ),
    "generator of a device": ("answer = str(torch.Generator(device='cuda:0').device)", "cuda:0"),
    "threads": (
        (
            "import threading\nout = []\nt = threading.Thread(target=lambda: out.append(str(torch.ones(1, device='cuda').device)))\n"
            "torch.cuda.set_device(1); t.start(); t.join(); answer = out"
        ),
        ["cuda:0"],
    ),
    "backward functions": (
        (
            "class Twice(torch.autograd.Function):\n"
            "    @staticmethod\n    def forward(c, x): return x * 2\n"
            "    @staticmethod\n    def backward(c, g): return g * torch.full((), 2.0, device='cuda')\n"
            "x = torch.ones(1, device='cuda', requires_grad=True); Twice.apply(x).sum().backward(); answer = x.grad.tolist(), str(x.grad.device)"
        ),
        [[2.0], "cuda:0"],
    ),
    "activation checkpoint": (
        (
            "from torch.utils.checkpoint import checkpoint\nm = torch.nn.Linear(2, 2).cuda(); x = torch.ones(1, 2, device='cuda', requires_grad=True)\n"
            "with torch.autocast('cuda', dtype=torch.bfloat16):\n    y = checkpoint(lambda v: m(v) * torch.ones(2, device=v.device), x, use_reentrant=False)\n"
            "y.float().sum().backward(); answer = str(x.grad.device), str(y.dtype)"
        ),
        ["cuda:0", "torch.float32"],
    ),
    "deep copy": (
        "import copy; m = torch.nn.Linear(1, 1).cuda(1); answer = str(copy.deepcopy(m).weight.device)",
        "cuda:1",
    ),
    "data parallel": (
        "m = torch.nn.DataParallel(torch.nn.Linear(2, 2)).cuda(); y = m(torch.ones(4, 2).cuda()); answer = list(y.shape), str(y.device), sorted(m.state_dict())",
        [[4, 2], "cuda:0", ["module.bias", "module.weight"]],
    ),
    "old tensor types": (
        "answer = str(torch.ones(2).type('torch.cuda.HalfTensor').dtype), str(torch.ones(2).type(torch.cuda.DoubleTensor).device)",
        ["torch.float16", "cuda:0"],
    ),
    "types": (
        (
            "import typing; x: typing.Optional[torch.cuda.CUDAGraph]; s = torch.cuda.Stream()\n"
            "answer = isinstance(s, torch.cuda.Stream), isinstance(s, torch.cuda.Event), isinstance(torch.cuda.Event(), torch.cuda.Event), bool(torch.cuda.CUDAGraph | None)"
        ),
        [True, False, True, True],
    ),
    "attention kernels": (
        (
            "from torch.nn.attention import SDPBackend, sdpa_kernel; q = torch.ones(1, 2, 8, 16, device='cuda', dtype=torch.bfloat16)\n"
            "with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):\n    a = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)\n"
            "torch.backends.cuda.enable_math_sdp(False); answer = str(a.device), list(a.shape)"
        ),
        ["cuda:0", [1, 2, 8, 16]],
    ),
    "compiled": (
        "m = torch.compile(torch.nn.Linear(2, 2).cuda()); answer = type(m._orig_mod).__name__, len(m._orig_mod.state_dict())",
        ["Linear", 2],
    ),
    "old tensors": (
        (
            "x = torch.cuda.FloatTensor([1, 2]); torch.set_default_tensor_type('torch.cuda.FloatTensor'); y = torch.zeros(1)\n"
            "answer = str(x.device), isinstance(x, torch.cuda.FloatTensor), isinstance(x.cpu(), torch.cuda.FloatTensor), str(y.device)"
        ),
        ["cuda:0", True, False, "cuda:0"],
    ),
    "as_tensor copies": (
        "import numpy as np; a = np.zeros(1); t = torch.as_tensor(a, device='cuda'); t += 1; answer = a.tolist()",
        [0.0],
    ),
    "accelerator": (
        (
            "torch.accelerator.set_device_index(1)\nanswer = torch.accelerator.is_available(), str(torch.accelerator.current_accelerator()), "
            "torch.accelerator.current_device_index(), torch.accelerator.device_count() >= 2"
        ),
        [True, "cuda", 1, True],
    ),
    "forked": (
        (
            "torch.ones(1, device='cuda')\nr, w = os.pipe()\nif os.fork() == 0:\n    try: torch.ones(1, device='cuda')\n"
            "    except RuntimeError as e: os.write(w, str(e)[:40].encode())\n    finally: os._exit(0)\n"
            "os.close(w); answer = open(r).read(); os.wait()"
        ),
        "Cannot re-initialize CUDA in forked subp",
    ),
    "forked before": (
        (
            "torch.cuda.device_count(); torch.manual_seed(1); torch.cuda.manual_seed_all(1)\nr, w = os.pipe()\n"
            "if os.fork() == 0:\n    os.write(w, str(torch.ones(1, device='cuda').device).encode()); os._exit(0)\n"
            "os.close(w); answer = open(r).read(); os.wait()"
        ),
        "cuda:0",
    ),
    "forked after a question": (
        (
            "torch.cuda.is_available()\nr, w = os.pipe()\nif os.fork() == 0:\n    try: torch.ones(1, device='cuda')\n"
            "    except RuntimeError as e: os.write(w, str(e)[:40].encode())\n    finally: os._exit(0)\n"
            "os.close(w); answer = open(r).read(); os.wait()"
        ),
        "Cannot re-initialize CUDA in forked subp",
    ),
    "forked after a question to the driver's library": (
        (
            "os.environ['PYTORCH_NVML_BASED_CUDA_CHECK'] = '1'; torch.cuda.is_available()\nr, w = os.pipe()\n"
            "if os.fork() == 0:\n    os.write(w, str(torch.ones(1, device='cuda').device).encode()); os._exit(0)\n"
            "os.close(w); answer = open(r).read(); os.wait()"
        ),
        "cuda:0",
    ),
    "one visible": (
        "os.environ['CUDA_VISIBLE_DEVICES'] = '1'; answer = torch.cuda.device_count(), str(torch.ones(1).cuda().device)",
        [1, "cuda:0"],
    ),
    "none visible": (
        (
            "os.environ['CUDA_VISIBLE_DEVICES'] = ''; n = torch.cuda.device_count(), torch.cuda.is_available()\n"
            "try: torch.ones(1).cuda()\nexcept RuntimeError as e: answer = n, str(e)"
        ),
        [[0, False], "No CUDA GPUs are available"],
    ),
    "nccl is there": (
        "import torch.distributed as d; answer = d.is_nccl_available(), torch.backends.cudnn.is_available()",
        [True, True],
    ),
    "ddp on the cpu with device_ids": (
        (
            "import torch.distributed as d; d.init_process_group('gloo', init_method='file://' + file + '.store', rank=0, world_size=1)\n"
            "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1), device_ids=[0])"
        ),
        (
            "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
            "GPU modules or CPU modules, but got device_ids [0], output_device None, and module parameters {device(type='cpu')}."
        ),
    ),
    "ddp moves its inputs": (
        (
            "import torch.distributed as d; d.init_process_group('nccl', init_method='file://' + file + '.store', rank=0, world_size=1)\n"
            "torch.cuda.set_device(1); m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(1), device_ids=[1])\n"
            "y = m(torch.ones(1, 2)); answer = str(y.device), d.get_backend(); del m, y; d.destroy_process_group()"
        ),
        ["cuda:1", "nccl"],
    ),
    "nccl refuses the cpu": (
        (
            "import torch.distributed as d; d.init_process_group('nccl', init_method='file://' + file + '.store', rank=0, world_size=1)\n"
            "d.all_reduce(torch.ones(1))"
        ),
        "RuntimeError: No backend type associated with device type cpu",
    ),
    **device_answers.CASES,
}

TWO_GPUS = ("available", "one visible")
"""Cases that a machine with one GPU answers otherwise, without a message that names the other."""


def ask(code: str) -> Any:
    """What a case answers here, as JSON has it."""
    import torch

    folder = tempfile.mkdtemp()
    names: dict[str, Any] = {"torch": torch, "os": os, "file": os.path.join(folder, "file")}
    try:
        exec(code, names)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        lines = str(error).splitlines() or [""]
        return "%s: %s" % (type(error).__name__, lines[0])
    return json.loads(json.dumps(names["answer"]))


def agrees(found: Any, expected: Any) -> bool:
    """Messages may go on where the table's end."""
    if isinstance(found, str) and expected == ORDINAL:
        return found.partition(": ")[2] == ORDINAL.partition(": ")[2]
    return found == expected or (isinstance(found, str) and isinstance(expected, str) and found.startswith(expected))


def ask_all() -> dict[str, Any]:
    """Every case in a process of its own, since CUDA is begun once; forked before it is, so that torch is imported once."""
    import_module("torch")
    return {name: _apart(code) for name, (code, _) in CASES.items()}


def _apart(code: str) -> Any:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        own = os.getpid()
        try:
            said = json.dumps(ask(code)).encode()
            if os.getpid() == own:  # a case may fork, and what it forks may fail
                os.write(writing, said)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as said:
        text = said.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else "the process died"


if __name__ == "__main__":
    json.dump(ask_all(), sys.stdout)
