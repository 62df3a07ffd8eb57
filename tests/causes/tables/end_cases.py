"""Ends that no line explains, and those that worldsize itself has decided."""

from __future__ import annotations

from causes.case import Case
from causes.sequences import (
    cancel_when_ready,
    kill_agent_when_ready,
    search,
    start_after_a_failure,
    start_without_patience,
)
from causes.tables.communication_cases import LONG

_RANK_0 = """import os, time

if os.environ["RANK"] == "0":
%s
time.sleep(60)
"""
_READY = 'import time\n\nprint("ready", flush=True)\ntime.sleep(60)\n'


def _rank_0(*lines: str) -> str:
    """A script of which rank 0 executes these lines, while the others wait."""
    return _RANK_0 % "\n".join("    " + line for line in lines)


END_CASES: tuple[Case, ...] = (
    Case("exception", _rank_0('raise ValueError("the learning rate is negative: -0.1")'), quick=True),
    Case(
        "hang",
        LONG
        + """print("begins", flush=True)
for step in range(100):
    if rank == 1 and step == 3:
        time.sleep(600)
    dist.all_reduce(torch.ones(4))
""",
        ranks=(1,),
        world="2x2",
        keys={"watchdog": {"timeout": 4, "action": "stop"}},
        needs=("torch",),
    ),
    Case(
        "exception",
        """import os, signal, time


def lose(*_):
    raise RuntimeError("[tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:22453")


if os.environ["RANK"] == "1":
    time.sleep(1)
    raise KeyError("label")
signal.signal(signal.SIGTERM, lose)
time.sleep(60)
""",
        ranks=(1,),
        world="2x1",
        simulated="gloo",
        variant="and a peer that lost its connection by it",
    ),
    Case(
        "bus-error",
        _rank_0(
            "import mmap",
            "",
            'with open("shard.bin", "wb+") as file:',
            "    file.truncate(1 << 20)",
            "    samples = mmap.mmap(file.fileno(), 1 << 20)",
            "    file.truncate(0)",
            "    print(samples[0])",
        ),
    ),
    Case(
        "arithmetic-error",
        _rank_0(
            "import ctypes, mmap, platform",
            "",
            'if platform.machine() != "x86_64":  # others do not trap',
            "    os.kill(os.getpid(), 8)",
            "divides = bytes.fromhex('31c9b80100000099f7f9c3')",
            "memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
            "memory.write(divides)",
            "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()",
        ),
    ),
    Case(
        "killed",
        _rank_0("import subprocess", "", 'subprocess.run(["sh", "-c", f"kill -KILL {os.getpid()}"])'),
        "unknown",
    ),
    Case(
        "terminated",
        _rank_0("import subprocess", "", 'subprocess.run(["sh", "-c", f"kill -TERM {os.getpid()}"])'),
        "unknown",
    ),
    Case(
        "cpu-time-limit",
        _rank_0(
            "import resource", "", "resource.setrlimit(resource.RLIMIT_CPU, (1, 2))", "while True:", "    os.getpid()"
        ),
    ),
    Case(
        "early-exit",
        """import os, time

if os.environ["RANK"] != "0":
    time.sleep(60)
""",
        ranks=(),
        keys={"hang_timeout": 1},
    ),
    Case(
        "nodes-missing",
        _READY,
        ranks=(),
        world="2x1",
        sequence=start_without_patience,
        varies=True,
    ),
    Case("node-lost", _READY, ranks=(), world="2x1", sequence=kill_agent_when_ready),
    Case("node-not-ready", _READY, ranks=(), keys={"setup": ["cd /data/imagenet", "export DATA=$PWD"]}),
    Case("dependency", _READY, ranks=(), sequence=start_after_a_failure),
    Case(
        "left-out",
        """import json

with open("conf/ds.json") as file:
    size = json.load(file)["train_micro_batch_size_per_gpu"]
if size > 8:
    raise MemoryError(f"no room for a micro-batch of {size}")
for step in range(10):
    print("speed=80", flush=True)
""",
        ranks=(),
        world="1x1",
        keys={
            "autotune": {
                "config": "conf/ds.json",
                "metric": "speed",
                "reports": 2,
                "search": {"micro_batch": [8, 16, 32]},
            }
        },
        files={"conf/ds.json": "{}"},
        sequence=search,
    ),
    Case("unknown", _rank_0("os._exit(3)"), "unknown", quick=True),
    Case("unknown", _rank_0("os.kill(os.getpid(), 31)"), "unknown", variant="a signal"),
)

DECIDED_CASES: tuple[Case, ...] = (
    Case("cancelled", _READY, ranks=(), sequence=cancel_when_ready, variant="by worldsize cancel"),
    Case("time-limit", _READY, ranks=(), keys={"limits": {"timeout": 2}}, variant="limits.timeout", quick=True),
)
"""Those of which a scheduler has words of its own: they stand with these."""
