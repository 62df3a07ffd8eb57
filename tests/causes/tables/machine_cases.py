"""Causes in the machine: memory, files, and what the kernel does to a process."""

from __future__ import annotations

from causes.case import Case, raised
from causes.memory_groups import run_with_little_memory
from causes.tables.loader_cases import LOADER_CASES

_RANK_0 = """import os, time

if os.environ["RANK"] == "0":
%s
time.sleep(60)
"""


def _rank_0(*lines: str) -> str:
    """A script of which rank 0 executes these lines, while the others wait."""
    return _RANK_0 % "\n".join("    " + line for line in lines)


_FREED = _rank_0(
    "import ctypes",
    "",
    "library = ctypes.CDLL(None)",
    "library.malloc.restype = ctypes.c_void_p",
    "library.free.argtypes = [ctypes.c_void_p]",
    "memory = library.malloc(100)",
    "library.free(memory)",
    "library.free(memory)",
)
MACHINE_CASES: tuple[Case, ...] = (
    Case(
        "host-memory",
        """import os, time

if os.environ["RANK"] == "1":
    with open("group") as file:
        group = file.read()
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    batches = []
    while True:
        batches.append(b"x" * (1 << 20))
time.sleep(60)
""",
        ranks=(1,),
        needs=("memory cgroup",),
        sequence=run_with_little_memory,
        variant="killed by the kernel",
        varies=True,
    ),
    Case(
        "host-memory",
        _rank_0(
            "import resource",
            "",
            "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))",
            "batch = bytearray(2 << 30)",
        ),
        quick=True,
    ),
    Case(
        "host-memory",
        _rank_0("import torch", "", "torch.empty(1 << 50)"),
        needs=("torch",),
        variant="PyTorch",
    ),
    Case(
        "host-memory",
        _rank_0("import numpy", "", "numpy.ones((1 << 30, 1 << 20))"),
        needs=("numpy",),
        variant="numpy",
    ),
    Case(
        "host-memory",
        _rank_0(
            'print("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM "',
            '      "Killed.", flush=True)',
            "os.kill(os.getpid(), 9)",
        ),
        simulated="Slurm",
        variant="reported by Slurm",
    ),
    Case("disk-full", _rank_0('with open("/dev/full", "w") as file:', '    file.write("step 100")'), quick=True),
    Case(
        "disk-full",
        raised("OSError", "[Errno 122] Disk quota exceeded: '/home/me/checkpoints/step-100.pt'"),
        simulated="Linux",
        variant="a quota",
    ),
    Case(
        "file-too-large",
        _rank_0(
            "import resource",
            "",
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))",
            'with open("model.bin", "wb") as file:',
            "    file.write(bytes(2 << 20))",
        ),
    ),
    Case(
        "share-stale",
        raised("OSError", "[Errno 116] Stale file handle: '/data/train.bin'"),
        simulated="Linux",
    ),
    Case(
        "io-error",
        _rank_0('with open("/proc/self/mem", "rb") as file:', "    file.read(1)"),
    ),
    Case(
        "io-error",
        _rank_0(
            'print("INFO: task python:4711 blocked for more than 120 seconds.", flush=True)',
            "raise OSError(\"[Errno 5] Input/output error: '/data/train.bin'\")",
        ),
        simulated="Linux",
        section="disk-waits",
    ),
    Case(
        "files-open",
        """import os, resource, time


def load():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    return [open("shard.bin", "w") for _ in range(100)]


if os.environ["RANK"] == "0":
    load()
time.sleep(60)
""",
    ),
    Case(
        "processes-full",
        """import os, resource, subprocess, time

if os.environ["RANK"] == "0":
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    owner = os.geteuid()
    if owner == 0:
        os.setresuid(65534, 65534, 0)
    try:
        os.fork()
    finally:
        if owner == 0:
            os.setresuid(0, 0, 0)
time.sleep(60)
""",
    ),
    Case(
        "processes-full",
        _rank_0(
            "import resource, threading",
            "",
            "resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))",
            "for _ in range(1000):",
            "    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()",
        ),
        variant="threads",
    ),
    Case("segmentation-fault", _rank_0("import ctypes", "", "ctypes.string_at(0)")),
    Case(
        "segmentation-fault",
        _rank_0("import ctypes", "", "ctypes.string_at(0)"),
        command="python -X faulthandler train.py",
        variant="with Python's faulthandler",
    ),
    Case(
        "illegal-instruction",
        _rank_0(
            "import ctypes, mmap, platform",
            "",
            "memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
            'memory.write(bytes([15, 11]) if platform.machine() == "x86_64" else bytes(4))',
            "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()",
        ),
    ),
    Case("native-abort", _FREED),
    Case(
        "native-abort",
        raised("SystemExit", "terminate called after throwing an instance of 'std::runtime_error'"),
        "supported",
        simulated="C++",
        variant="in a child process",
    ),
    *LOADER_CASES,
)
